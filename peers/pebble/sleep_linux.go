// Sleeping to a point in time, on Linux. Go's own timers wake up to a millisecond late when a processor
// is idle, because its scheduler waits in whole milliseconds: the store would be charged for that. So a
// client waits for a timer of the kernel like for a network connection: the scheduler is woken by the
// kernel at the time, and the processor is free for the store meanwhile.
package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Sleeper sleeps for one goroutine.
type Sleeper struct {
	timer *os.File
	raw   int
}

// NewSleeper makes a timer; without one Go's own timers are used, and the measured floor shows it.
func NewSleeper() *Sleeper {
	raw, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return &Sleeper{}
	}
	return &Sleeper{timer: os.NewFile(uintptr(raw), "timer"), raw: raw}
}

// Sleep sleeps for a time above zero.
func (s *Sleeper) Sleep(length time.Duration) {
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(length))}
	if s.timer == nil || unix.TimerfdSettime(s.raw, 0, &once, nil) != nil {
		time.Sleep(length)
		return
	}
	var times [8]byte
	if _, err := s.timer.Read(times[:]); err != nil {
		time.Sleep(length)
	}
}

// Close releases the timer.
func (s *Sleeper) Close() {
	if s.timer != nil {
		_ = s.timer.Close() // There is nothing to lose in it.
	}
}

// EndWithParent asks the kernel to interrupt this process when its parent dies. It is to be called by
// the main thread, which lasts.
func EndWithParent() {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGINT), 0, 0, 0)
}
