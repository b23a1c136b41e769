// The store of a run: one database of Pebble for each region of the keys. They share the block cache. A
// transaction over several regions becomes one for each.
//
// Configurations: "default" has Pebble's own sizes, memtables of 4 MB, as many as the given memory
// holds. "sized" has memtables and the first level below L0 (Pebble's Lbase) as specified.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Write is one write of a transaction.
type Write struct {
	Key, Value []byte
	Delete     bool
}

// Store is a store under measurement. All operations may be called by many goroutines.
type Store interface {
	// Put sets a key.
	Put(key, value []byte) error
	// Get reads a key, and says whether there is one.
	Get(key []byte) (bool, error)
	// Delete removes a key.
	Delete(key []byte) error
	// Scan reads up to limit pairs in key order, and counts them.
	Scan(start []byte, limit int) (int, error)
	// Write does all writes of a transaction.
	Write(writes []Write) error
}

// Pebble's own size of a memtable.
const memtableBytes = 4 << 20

// How long nothing may go on before background work is said to have ended.
const quietTime = 100 * time.Millisecond

// Regions is a store made of one instance a region.
type Regions struct {
	parts []*Instance
	// The first keys of all regions but the first.
	splits    [][]byte
	path      string
	described [][2]string
}

// OpenRegions opens or makes a store in a folder.
func OpenRegions(spec *StoreSpec, splits [][]byte, path string) (*Regions, error) {
	options := &spec.Options
	tree := &options.Policy.Tree
	threads := options.Workers
	if threads == 0 {
		threads = runtime.NumCPU()
	}
	setup := Setup{
		Compactions: threads, BlockBytes: int(options.BlockBytes), BitsPerKey: options.BitsPerKey,
		Sync: options.Durability == "sync", NoWal: options.Durability == "no_wal",
		MemtableBytes: memtableBytes,
		MemtableCount: max(tree.MemtableBytes*tree.MemtableCount/memtableBytes, 2),
	}
	switch spec.Config {
	case "sized":
		setup.MemtableBytes, setup.MemtableCount = tree.MemtableBytes, tree.MemtableCount
		setup.L1Bytes = tree.L1Bytes
	case "", "default":
	default:
		return nil, fmt.Errorf("pebble has no configuration %q: default, sized", spec.Config)
	}
	for _, compression := range options.Compression {
		if compression != "none" {
			return nil, errors.New("the other stores are built without compression: compare without it")
		}
	}
	if tree.L0Trigger == 1 {
		setup.L0Trigger = 1
	}
	regions := &Regions{splits: splits, path: path, described: describe(spec, &setup, len(splits)+1)}
	cache := pebble.NewCache(int64(spec.Cache))
	defer cache.Unref()
	for number := range len(splits) + 1 {
		folder := filepath.Join(path, "data")
		if len(splits) > 0 {
			folder = filepath.Join(path, fmt.Sprintf("region-%d", number))
		}
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return nil, errors.Join(err, regions.close())
		}
		part, err := Open(folder, setup, cache)
		if err != nil {
			return nil, errors.Join(err, regions.close())
		}
		regions.parts = append(regions.parts, part)
	}
	return regions, nil
}

// describe has the options of a report by name.
func describe(spec *StoreSpec, setup *Setup, regions int) [][2]string {
	tree := &spec.Options.Policy.Tree
	memory := tree.MemtableBytes*tree.MemtableCount*uint64(regions) + spec.Cache
	wal := "acknowledged before write(), not synced"
	if setup.Sync {
		wal = "synced before a write is acknowledged"
	} else if setup.NoWal {
		wal = "none"
	}
	config := spec.Config
	if config == "" {
		config = "default"
	}
	described := [][2]string{
		{"version", version()},
		{"configuration", config},
		{"memory", sizeText(memory) + " for memtables and cache"},
		{"compression", "none"},
		{"background threads", strconv.Itoa(setup.Compactions)},
		{"memtables", fmt.Sprintf("%d × %s", setup.MemtableCount, sizeText(setup.MemtableBytes))},
		{"WAL", wal},
		{"jobs' I/O", "buffered"},
		{"reads", "buffered"},
		{"filter", fmt.Sprintf("%d bits/key", setup.BitsPerKey)},
		{"driver", fmt.Sprintf("in Go, GOMAXPROCS=%d", runtime.GOMAXPROCS(0))},
	}
	if regions > 1 {
		described = append(described, [2]string{"regions", fmt.Sprintf("%d instances", regions)})
	}
	return described
}

// version has the versions of Pebble and Go.
func version() string {
	pebble, cgo := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/cockroachdb/pebble/v2" {
				pebble = module.Version
			}
		}
		for _, setting := range info.Settings {
			if setting.Key == "CGO_ENABLED" && setting.Value == "0" {
				cgo = ", without cgo: memtables and cache are in Go's heap"
			}
		}
	}
	return pebble + ", " + runtime.Version() + cgo
}

// sizeText is a number of bytes as the laboratory writes it.
func sizeText(bytes uint64) string {
	switch n := float64(bytes); {
	case bytes < 1<<10:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KB", n/(1<<10))
	case bytes < 1<<30:
		return fmt.Sprintf("%.1f MB", n/(1<<20))
	default:
		return fmt.Sprintf("%.2f GB", n/(1<<30))
	}
}

// number is the number of a key's region.
func (r *Regions) number(key []byte) int {
	if len(r.splits) == 0 {
		return 0
	}
	return sort.Search(len(r.splits), func(i int) bool { return bytes.Compare(r.splits[i], key) > 0 })
}

// Put sets a key.
func (r *Regions) Put(key, value []byte) error { return r.parts[r.number(key)].Put(key, value) }

// Delete removes a key.
func (r *Regions) Delete(key []byte) error { return r.parts[r.number(key)].Delete(key) }

// unseen is what a measurement does with a pair that was read.
func unseen(_, _ []byte) {}

// Get reads a key.
func (r *Regions) Get(key []byte) (bool, error) { return r.Read(key, unseen) }

// Read shows the value of a key.
func (r *Regions) Read(key []byte, see func(key, value []byte)) (bool, error) {
	return r.parts[r.number(key)].Get(key, see)
}

// Scan reads pairs over all regions.
func (r *Regions) Scan(start []byte, limit int) (int, error) { return r.Visit(start, limit, unseen) }

// Visit shows up to limit pairs from a key on.
func (r *Regions) Visit(start []byte, limit int, see func(key, value []byte)) (int, error) {
	count := 0
	for _, part := range r.parts[r.number(start):] {
		found, err := part.Scan(start, limit-count, see)
		count += found
		if err != nil || count == limit {
			return count, err
		}
		start = nil
	}
	return count, nil
}

// Write does a transaction.
func (r *Regions) Write(writes []Write) error {
	if len(r.parts) == 1 {
		return r.parts[0].Write(writes)
	}
	apart := make([][]Write, len(r.parts))
	for _, write := range writes {
		number := r.number(write.Key)
		apart[number] = append(apart[number], write)
	}
	for number, writes := range apart {
		if len(writes) > 0 {
			if err := r.parts[number].Write(writes); err != nil {
				return err
			}
		}
	}
	return nil
}

// Settle flushes memory and waits for background work to end. It returns false if it has not ended after
// limit, or if giveUp says so.
func (r *Regions) Settle(limit time.Duration, giveUp func() bool) (bool, error) {
	for _, part := range r.parts {
		if err := part.Flush(); err != nil {
			return false, err
		}
	}
	begun := time.Now()
	for quietSince := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		for _, part := range r.parts {
			if !part.Idle() {
				quietSince = time.Now()
			}
		}
		if time.Since(quietSince) >= quietTime {
			return true, nil
		}
		if time.Since(begun) > limit || giveUp() {
			return false, nil
		}
	}
}

// Look is the levels of all regions together, and the bytes that their compactions owe.
func (r *Regions) Look() (levels []Level, pending uint64) {
	for _, part := range r.parts {
		stats := part.Stats()
		levels, pending = addLevels(levels, stats.Levels), pending+stats.pending
	}
	return levels, pending
}

func addLevels(all, more []Level) []Level {
	for number, level := range more {
		if number == len(all) {
			all = append(all, Level{})
		}
		sum := &all[number]
		sum.Tables += level.Tables
		sum.Bytes += level.Bytes
		sum.runs += level.runs
		if level.Target != nil {
			target := *level.Target
			if sum.Target != nil {
				target += *sum.Target
			}
			sum.Target = &target
		}
	}
	return all
}

// Stats are the counters of all regions.
func (r *Regions) Stats() Stats {
	all := Stats{Waits: []Wait{}, Levels: []Level{}, DiskBytes: FolderBytes(r.path)}
	for _, part := range r.parts {
		one := part.Stats()
		all = all.plus(&one)
		all.WalSyncs += one.WalSyncs
		all.L0Compactions += one.L0Compactions
		all.WidestJob = max(all.WidestJob, one.WidestJob)
		all.Waits = addWaits(all.Waits, one.Waits)
		all.Levels = addLevels(all.Levels, one.Levels)
	}
	return all
}

// addWaits adds waits by cause.
func addWaits(all, more []Wait) []Wait {
next:
	for _, wait := range more {
		for at := range all {
			if known := &all[at]; known.Cause == wait.Cause {
				known.Count += wait.Count
				known.TotalUs += wait.TotalUs
				known.LongestUs = max(known.LongestUs, wait.LongestUs)
				continue next
			}
		}
		all = append(all, wait)
	}
	return all
}

// plus adds the counters of bytes of another; everything else stays.
func (s Stats) plus(other *Stats) Stats {
	s.WalBytes += other.WalBytes
	s.FlushBytes += other.FlushBytes
	s.CompactionRead += other.CompactionRead
	s.CompactionWritten += other.CompactionWritten
	return s
}

// since has the counts since an earlier moment; levels, file bytes and maxima stay.
func (s Stats) since(before *Stats) Stats {
	less := func(now *uint64, then uint64) { *now -= min(*now, then) }
	less(&s.WalBytes, before.WalBytes)
	less(&s.WalSyncs, before.WalSyncs)
	less(&s.FlushBytes, before.FlushBytes)
	less(&s.CompactionRead, before.CompactionRead)
	less(&s.CompactionWritten, before.CompactionWritten)
	less(&s.L0Compactions, before.L0Compactions)
	s.Waits = append([]Wait{}, s.Waits...)
	for at := range s.Waits {
		for _, old := range before.Waits {
			if old.Cause == s.Waits[at].Cause {
				less(&s.Waits[at].Count, old.Count)
				less(&s.Waits[at].TotalUs, old.TotalUs)
			}
		}
	}
	return s
}

// Marks takes the jobs that ended since it was last called, in seconds of a clock.
func (r *Regions) Marks(clock Clock) []Job {
	all := []Job{}
	for _, part := range r.parts {
		all = append(all, part.Marks()...)
	}
	shift := clock.start.Sub(started).Seconds()
	for at := range all {
		all[at].Start -= shift
		all[at].End -= shift
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].End < all[b].End })
	return all
}

// Close closes the store, and has its last counters.
func (r *Regions) Close() (Stats, error) { return r.Stats(), r.close() }

func (r *Regions) close() (err error) {
	for _, part := range r.parts {
		err = errors.Join(err, part.db.Close())
	}
	return err
}
