// The resources that this process used, as the operating system counts them, and the machine; as in
// crates/measure/src/process.rs. Where the system does not tell a figure, it is missing, not zero.
package main

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Usage has the counters of this process since its start.
type Usage struct {
	cpuNanos uint64
	device   *Device
}

// Device has bytes that went to and from devices.
type Device struct {
	Read    uint64 `json:"read"`
	Written uint64 `json:"written"`
	// The most of the bytes read that may be the program's own pages.
	Program uint64 `json:"program"`
}

// The most bytes that one fetch of the program's own pages reads: Linux's usual read-ahead.
const fetchMax = 128 << 10

// UsageNow has the counters as of now.
func UsageNow() Usage {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return Usage{device: device()}
	}
	return Usage{cpuNanos: uint64(used.Utime.Nano() + used.Stime.Nano()), device: device()}
}

// Since has the resources used since an earlier moment.
func (u Usage) Since(before Usage) Usage {
	since := Usage{cpuNanos: u.cpuNanos - min(u.cpuNanos, before.cpuNanos)}
	if u.device != nil && before.device != nil {
		less := func(now, then uint64) uint64 { return now - min(now, then) }
		since.device = &Device{
			Read:    less(u.device.Read, before.device.Read),
			Written: less(u.device.Written, before.device.Written),
			Program: less(u.device.Program, before.device.Program),
		}
	}
	return since
}

func device() *Device {
	text := textOf("/proc/self/io")
	read, written := field(text, "\nread_bytes:"), field(text, "\nwrite_bytes:")
	if read == nil || written == nil {
		return nil
	}
	found := &Device{Read: *read, Written: *written}
	// The tenth field behind the program's name, which stands in parentheses.
	stat := textOf("/proc/self/stat")
	if fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]); len(fields) > 9 {
		if fetches, err := strconv.ParseUint(fields[9], 10, 64); err == nil {
			found.Program = min(fetches, math.MaxUint64/fetchMax) * fetchMax
		}
	}
	return found
}

func textOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// field is the number that follows a name.
func field(text, name string) *uint64 {
	_, after, found := strings.Cut(text, name)
	words := strings.Fields(after)
	if !found || len(words) == 0 {
		return nil
	}
	number, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		return nil
	}
	return &number
}

func kib(text, name string) *uint64 {
	number := field(text, name)
	if number != nil {
		*number *= 1024
	}
	return number
}

// PeakMemory is the most memory that this process ever had resident, in bytes.
func PeakMemory() *uint64 { return kib(textOf("/proc/self/status"), "VmHWM:") }

// ResidentMemory is what it has resident now.
func ResidentMemory() uint64 {
	if now := kib(textOf("/proc/self/status"), "VmRSS:"); now != nil {
		return *now
	}
	return 0
}

// FolderBytes are the bytes of all files in a folder. A file that cannot be read counts as empty.
func FolderBytes(path string) (sum uint64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				sum += uint64(info.Size())
			}
		}
		return nil
	})
	return sum
}

// Machine is the machine of a report.
type Machine struct {
	Cores  int     `json:"cores"`
	CPU    string  `json:"cpu"`
	Memory *uint64 `json:"memory"`
	System string  `json:"system"`
}

// ThisMachine is this one.
func ThisMachine() Machine {
	model := "unknown"
	if _, after, found := strings.Cut(textOf("/proc/cpuinfo"), "model name"); found {
		line, _, _ := strings.Cut(after, "\n")
		model = strings.TrimLeft(line, " \t:")
	}
	release := strings.TrimSpace(textOf("/proc/sys/kernel/osrelease"))
	return Machine{
		Cores: runtime.NumCPU(), CPU: model, Memory: kib(textOf("/proc/meminfo"), "MemTotal:"),
		System: strings.TrimSpace(runtime.GOOS + " " + release),
	}
}
