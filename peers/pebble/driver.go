// Clients between a workload, its arrivals and a store: the laboratory's driver
// (crates/measure/src/driver.rs) in Go, for a store in Go.
//
//  1. Drive starts the clients of a phase, a goroutine each. At the end of each interval it collects
//     their counts and reports the progress.
//  2. A closed-loop client does its share of the operations one after another. An open-loop client
//     takes due requests from the shared sequence; a request's latency is its completion − its due
//     time.
//  3. The phase ends when its operations are done, its time is over, the stop flag is raised, or an
//     operation failed. An open loop goes on for some time to serve requests that are still due:
//     giving up at once would leave out those that waited longest. The rest counts as unserved.
//
// Goroutines: clients share atomics. Each shares the lock of its interval with the collector.
package main

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Phase is one part of a run.
type Phase struct {
	workload *Workload
	arrivals Arrivals
	threads  int
	// The largest number of operations, and the longest time in seconds, if there are such.
	ops     *uint64
	seconds *float64
	seed    uint64
	// Length of the intervals that are counted one by one, in seconds.
	interval float64
}

// Outcome is the result of a phase.
type Outcome struct {
	seconds   float64
	latencies Latencies
	series    Series
	misses    uint64
	userBytes uint64
	unserved  uint64
	usage     Usage
	err       error
}

// Progress is the progress of a phase.
type Progress struct {
	seconds float64
	// The share of the phase that is done.
	done      float64
	latencies *Latencies
	series    Series
}

// Clock counts nanoseconds from its start.
type Clock struct{ start time.Time }

func newClock() Clock { return Clock{time.Now()} }

// Now is the time since the start.
func (c Clock) Now() uint64 { return uint64(time.Since(c.start)) }

// Seconds is the same in seconds.
func (c Clock) Seconds() float64 { return float64(c.Now()) / 1e9 }

// run is the state that all clients share.
type run struct {
	store Store
	data  *Data
	// The trace whose operations replace those of the workload, after its values.
	values   *Data
	trace    *Trace
	clock    Clock
	end      uint64
	total    uint64
	clients  uint64
	sequence *Sequence
	stop     *atomic.Bool
	failed   atomic.Bool
	once     sync.Once
	err      error
	active   atomic.Int64
	over     chan struct{}
}

// slot holds the counts of a client that the collector has not taken.
type slot struct {
	mu       sync.Mutex
	interval *Interval
	// Two clients do not share a cache line.
	_ [64]byte
}

// grace is how long an open loop goes on to serve requests that are due.
func grace(seconds float64) float64 { return max(seconds/2, 10) }

// Drive runs a phase.
func Drive(
	store Store, data *Data, records *atomic.Uint64, phase *Phase, stop *atomic.Bool,
	tell func(*Progress),
) *Outcome {
	if !(phase.interval > 0) {
		return &Outcome{err: errors.New("intervals need a length"), series: Series{}}
	}
	var trace *Trace
	if phase.arrivals.kind == "replay" {
		var err error
		if trace, err = OpenTrace(phase.arrivals.replay.Path); err != nil {
			return &Outcome{err: err, series: Series{}}
		}
	}
	before := UsageNow()
	run := newRun(store, data, phase, stop, trace)
	slots := make([]slot, phase.threads)
	for client := range slots {
		slots[client].interval = &Interval{}
		generator := NewGenerator(
			phase.workload, data, records, phase.seed, uint64(client), uint64(phase.threads))
		go newClient(run, generator, &slots[client]).work(run.share(uint64(client)))
	}
	collector := &collector{slots: slots, fresh: &Interval{}}
	for collector.collect(run, phase.interval) {
		tell(collector.progress(phase, run.total))
	}
	outcome := &Outcome{
		seconds: float64(collector.last) / 1e9, latencies: collector.totals.latencies,
		series: collector.series, misses: collector.totals.misses,
		userBytes: collector.totals.userBytes, usage: UsageNow().Since(before), err: run.err,
	}
	if run.sequence != nil {
		outcome.unserved = run.sequence.Backlog(collector.last)
	}
	return outcome
}

func newRun(store Store, data *Data, phase *Phase, stop *atomic.Bool, trace *Trace) *run {
	ops := uint64(math.MaxUint64)
	if phase.ops != nil {
		ops = *phase.ops
	}
	run := &run{
		store: store, data: data, trace: trace, total: ops, clients: uint64(phase.threads),
		stop: stop, end: math.MaxUint64, over: make(chan struct{}),
	}
	var times []uint64
	if trace != nil {
		times, run.values = trace.times, trace.Data(phase.seed)
	}
	run.sequence = NewSequence(&phase.arrivals, ops, phase.seconds, times, phase.seed)
	if run.sequence != nil {
		run.total = run.sequence.total
	}
	if phase.seconds != nil {
		limit := *phase.seconds
		if run.sequence != nil {
			limit += grace(limit)
		}
		run.end = saturated(limit * 1e9)
	}
	run.active.Store(int64(phase.threads))
	if phase.threads == 0 {
		close(run.over)
	}
	run.clock = newClock()
	return run
}

// share is the number of operations that a client does in a closed loop.
func (r *run) share(client uint64) uint64 {
	share := r.total / r.clients
	if client < r.total%r.clients {
		share++
	}
	return share
}

func (r *run) fail(err error) {
	r.once.Do(func() { r.err = err })
	r.failed.Store(true)
}

// leave counts a client as ended; the last one wakes the collector.
func (r *run) leave() {
	if r.active.Add(-1) == 0 {
		close(r.over)
	}
}

// collector collects the counts of the clients.
type collector struct {
	slots []slot
	fresh *Interval
	// The latencies of the last collected interval.
	latencies Latencies
	totals    Interval
	series    Series
	// The time of the last collection, in nanoseconds.
	last uint64
}

// collect waits for the end of an interval or of the phase, and collects. It returns false if the
// phase is over.
func (c *collector) collect(run *run, seconds float64) bool {
	next := c.last + max(saturated(seconds*1e9), 1)
	goesOn := true
	if now := run.clock.Now(); now < next {
		timer := time.NewTimer(time.Duration(next - now))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-run.over:
		}
	}
	select {
	case <-run.over:
		goesOn = false
	default:
	}
	c.take(run)
	return goesOn
}

func (c *collector) take(run *run) {
	now := run.clock.Now()
	c.latencies.Clear()
	for i := range c.slots {
		slot := &c.slots[i]
		slot.mu.Lock()
		slot.interval, c.fresh = c.fresh, slot.interval
		slot.mu.Unlock()
		c.latencies.Add(&c.fresh.latencies)
		c.totals.misses += c.fresh.misses
		c.totals.userBytes += c.fresh.userBytes
		c.fresh.misses, c.fresh.userBytes = 0, 0
		c.fresh.latencies.Clear()
	}
	c.totals.latencies.Add(&c.latencies)
	backlog := uint64(0)
	if run.sequence != nil {
		backlog = run.sequence.Backlog(now)
	}
	c.series = append(c.series, NewPoint(float64(now-c.last)/1e9, &c.latencies, backlog))
	c.last = now
}

func (c *collector) progress(phase *Phase, total uint64) *Progress {
	seconds := float64(c.last) / 1e9
	done := float64(c.totals.latencies.Count()) / float64(total)
	if phase.seconds != nil {
		done = max(done, seconds / *phase.seconds)
	}
	return &Progress{
		seconds: seconds, done: min(done, 1), latencies: &c.totals.latencies, series: c.series,
	}
}
