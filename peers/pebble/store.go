// One database of Pebble under measurement: how it is set up, and what it tells of itself.
//
// Set up by equal means: memtables and block cache of the given sizes, no compression, Bloom filters, as
// many compactions at once as there are cores. Pebble has no direct I/O. A write without Sync is
// acknowledged when it is queued for the WAL, before write(). L0's thresholds and the sizes of SSTs are
// Pebble's own.
package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Setup is what an instance is opened with; 0 leaves a size as Pebble has it.
type Setup struct {
	MemtableBytes uint64
	MemtableCount uint64
	L1Bytes       uint64
	L0Trigger     int
	Compactions   int
	BlockBytes    int
	BitsPerKey    int
	Sync          bool
	NoWal         bool
}

// Job is a flush or compaction that ended; times are seconds since the start of this program, in a
// report since the start of the phase.
type Job struct {
	Start   float64 `json:"start"`
	End     float64 `json:"end"`
	Kind    string  `json:"kind"`
	From    int     `json:"from"`
	To      int     `json:"to"`
	Read    uint64  `json:"read"`
	Written uint64  `json:"written"`
}

// Wait is a cause of write stalls.
type Wait struct {
	Cause     string `json:"cause"`
	Count     uint64 `json:"count"`
	TotalUs   uint64 `json:"total_us"`
	LongestUs uint64 `json:"longest_us"`
}

// Level is one level of the tree.
type Level struct {
	Tables uint64  `json:"tables"`
	Bytes  uint64  `json:"bytes"`
	Target *uint64 `json:"target"`
	// Sorted runs: the sublevels of L0, one of each other level.
	runs uint64
	// Of our engine alone.
	GoodByCount uint64 `json:"good_by_count"`
	GoodByRatio uint64 `json:"good_by_ratio"`
}

// Stats are the counters since the opening, as far as Pebble has those of the laboratory.
type Stats struct {
	// Pebble's estimate of the bytes that compactions owe.
	pending           uint64
	WalBytes          uint64  `json:"wal_bytes"`
	WalSyncs          uint64  `json:"wal_syncs"`
	FlushBytes        uint64  `json:"flush_bytes"`
	CompactionRead    uint64  `json:"compaction_read"`
	CompactionWritten uint64  `json:"compaction_written"`
	L0Compactions     uint64  `json:"l0_compactions"`
	WidestJob         uint64  `json:"widest_job"`
	Waits             []Wait  `json:"waits"`
	Levels            []Level `json:"levels"`
	DiskBytes         uint64  `json:"disk_bytes"`
}

// Marks that nobody asks for are forgotten beyond this number.
const marksMax = 1 << 20

// Instance is an open database.
type Instance struct {
	db     *pebble.DB
	writes *pebble.WriteOptions

	mu       sync.Mutex
	jobs     []Job
	waits    []Wait
	stalled  time.Time
	stalling int
	widest   uint64
	fromL0   uint64
}

// started is the zero point of the times of jobs.
var started = time.Now()

// quiet drops Pebble's log; what is fatal ends the process with a message.
type quiet struct{}

func (quiet) Infof(string, ...interface{})  {}
func (quiet) Errorf(string, ...interface{}) {}
func (quiet) Fatalf(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "pebble: "+format+"\n", args...)
	os.Exit(1)
}

// Open opens or makes a database in a folder.
func Open(path string, setup Setup, cache *pebble.Cache) (*Instance, error) {
	instance := &Instance{writes: pebble.NoSync}
	if setup.Sync {
		instance.writes = pebble.Sync
	}
	options := &pebble.Options{
		Cache:                       cache,
		DisableWAL:                  setup.NoWal,
		FormatMajorVersion:          pebble.FormatNewest,
		L0CompactionThreshold:       setup.L0Trigger,
		LBaseMaxBytes:               int64(setup.L1Bytes),
		Logger:                      quiet{},
		MemTableSize:                setup.MemtableBytes,
		MemTableStopWritesThreshold: int(setup.MemtableCount),
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(setup.Compactions, 1) },
		EventListener: &pebble.EventListener{
			FlushEnd:        instance.flushed,
			CompactionEnd:   instance.compacted,
			WriteStallBegin: instance.stallBegins,
			WriteStallEnd:   instance.stallEnds,
		},
	}
	for i := range options.Levels {
		options.Levels[i].BlockSize = setup.BlockBytes
		if setup.BitsPerKey > 0 {
			options.Levels[i].FilterPolicy = bloom.FilterPolicy(setup.BitsPerKey)
		}
	}
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		return pebble.DBCompressionNone
	})
	db, err := pebble.Open(path, options)
	if err != nil {
		return nil, err
	}
	instance.db = db
	return instance, nil
}

func (i *Instance) note(job Job, took time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.widest = max(i.widest, job.Read)
	if job.Kind == "compact" && job.From == 0 {
		i.fromL0++
	}
	if len(i.jobs) < marksMax {
		job.End = time.Since(started).Seconds()
		job.Start = job.End - took.Seconds()
		i.jobs = append(i.jobs, job)
	}
}

func bytesOf(tables []pebble.TableInfo) (sum uint64) {
	for n := range tables {
		sum += tables[n].Size
	}
	return sum
}

func (i *Instance) flushed(info pebble.FlushInfo) {
	if info.Err == nil {
		i.note(Job{Kind: "flush", Written: bytesOf(info.Output)}, info.TotalDuration)
	}
}

func (i *Instance) compacted(info pebble.CompactionInfo) {
	if info.Err != nil || len(info.Input) == 0 {
		return
	}
	job := Job{Kind: "compact", From: info.Input[0].Level, To: info.Output.Level}
	for _, level := range info.Input {
		job.Read += bytesOf(level.Tables)
	}
	job.Written = bytesOf(info.Output.Tables)
	switch {
	case info.Reason == "move":
		job.Kind, job.Read, job.Written = "trivial_move", 0, 0
	case job.From == job.To:
		job.Kind = "merge_within"
	}
	i.note(job, info.TotalDuration)
}

func (i *Instance) stallBegins(info pebble.WriteStallBeginInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stalled = time.Now()
	for n := range i.waits {
		if i.waits[n].Cause == info.Reason {
			i.stalling = n
			return
		}
	}
	i.stalling = len(i.waits)
	i.waits = append(i.waits, Wait{Cause: info.Reason})
}

func (i *Instance) stallEnds() {
	i.mu.Lock()
	defer i.mu.Unlock()
	took := uint64(time.Since(i.stalled).Microseconds())
	wait := &i.waits[i.stalling]
	wait.Count++
	wait.TotalUs += took
	wait.LongestUs = max(wait.LongestUs, took)
}

// Put sets a key.
func (i *Instance) Put(key, value []byte) error { return i.db.Set(key, value, i.writes) }

// Delete removes a key.
func (i *Instance) Delete(key []byte) error { return i.db.Delete(key, i.writes) }

// Write does all of these writes as one batch.
func (i *Instance) Write(writes []Write) (err error) {
	batch := i.db.NewBatch()
	for at := range writes {
		if write := &writes[at]; write.Delete {
			err = batch.Delete(write.Key, nil)
		} else {
			err = batch.Set(write.Key, write.Value, nil)
		}
		if err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return errors.Join(batch.Commit(i.writes), batch.Close())
}

// Get shows the value of a key; false when there is none.
func (i *Instance) Get(key []byte, see func(key, value []byte)) (bool, error) {
	value, closer, err := i.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	see(key, value)
	return true, closer.Close()
}

// Scan shows up to limit pairs from a key on.
func (i *Instance) Scan(start []byte, limit int, see func(key, value []byte)) (int, error) {
	iterator, err := i.db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	// Pebble's checked builds (those with the race detector) do not take an empty key.
	seek := func() bool { return iterator.SeekGE(start) }
	if len(start) == 0 {
		seek = iterator.First
	}
	count := 0
	for valid := seek(); valid && count < limit; valid = iterator.Next() {
		see(iterator.Key(), iterator.Value())
		count++
	}
	return count, iterator.Close()
}

// Flush begins to write the memtable to L0.
func (i *Instance) Flush() error {
	_, err := i.db.AsyncFlush()
	return err
}

// count is the number of values in a histogram of Pebble's.
func count(histogram prometheus.Metric) uint64 {
	var values dto.Metric
	if histogram == nil || histogram.Write(&values) != nil {
		return 0
	}
	return values.GetHistogram().GetSampleCount()
}

// Stats gathers the counters.
func (i *Instance) Stats() Stats {
	metrics := i.db.Metrics()
	stats := Stats{WalBytes: metrics.WAL.BytesWritten, pending: metrics.Compact.EstimatedDebt}
	stats.WalSyncs = count(metrics.LogWriter.FsyncLatency)
	for n := range metrics.Levels {
		level := &metrics.Levels[n]
		stats.FlushBytes += level.TableBytesFlushed
		stats.CompactionRead += level.TableBytesRead
		stats.CompactionWritten += level.TableBytesCompacted
		shown := Level{
			Tables: uint64(level.TablesCount), Bytes: uint64(level.TablesSize),
			runs: uint64(level.Sublevels),
		}
		if n > 0 && level.FillFactor > 0 {
			target := uint64(float64(level.TablesSize) / level.FillFactor)
			shown.Target = &target
		}
		stats.Levels = append(stats.Levels, shown)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	stats.WidestJob, stats.L0Compactions = i.widest, i.fromL0
	stats.Waits = append([]Wait{}, i.waits...)
	return stats
}

// Idle says whether no background work goes on at this moment.
func (i *Instance) Idle() bool {
	metrics := i.db.Metrics()
	return metrics.Compact.NumInProgress == 0 && metrics.Flush.NumInProgress == 0 &&
		metrics.MemTable.Count <= 1
}

// Marks takes the jobs that ended since it was last called.
func (i *Instance) Marks() []Job {
	i.mu.Lock()
	defer i.mu.Unlock()
	jobs := i.jobs
	i.jobs = nil
	return jobs
}
