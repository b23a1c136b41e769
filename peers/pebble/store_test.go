// Pebble as a store: what is written is read back, and counters and jobs agree.
package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

func TestCountersAndMarks(t *testing.T) {
	cache := pebble.NewCache(8 << 20)
	defer cache.Unref()
	instance, err := Open(t.TempDir(), Setup{
		MemtableBytes: 1 << 20, MemtableCount: 2, Compactions: 2, BlockBytes: 4096, BitsPerKey: 10,
	}, cache)
	if err != nil {
		t.Fatal(err)
	}
	data := NewData(Shape{KeySize: 24, Values: Sizes{kind: "fixed", bounds: []uint64{1000}}}, 1)
	key := data.NewKey()
	for record := range uint64(20_000) {
		data.Key(record, key)
		if err := instance.Put(key, data.Value(mix(record))); err != nil {
			t.Fatal(err)
		}
	}
	if err := instance.Flush(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !instance.Idle(); {
		if time.Now().After(deadline) {
			t.Fatal("background work does not end")
		}
		time.Sleep(10 * time.Millisecond)
	}
	now := time.Since(started).Seconds()
	stats, jobs := instance.Stats(), instance.Marks()
	var flushed, read, written uint64
	for _, job := range jobs {
		if job.Kind == "flush" {
			flushed += job.Written
		} else {
			read, written = read+job.Read, written+job.Written
		}
		if job.Start > job.End || job.End > now {
			t.Errorf("a job at an impossible time: %+v", job)
		}
	}
	if flushed < 20_000*1000 || flushed != stats.FlushBytes {
		t.Errorf("%d bytes flushed by the jobs, %d by the counters", flushed, stats.FlushBytes)
	}
	if written != stats.CompactionWritten || read != stats.CompactionRead {
		t.Errorf("compactions: jobs %d→%d, counters %+v", read, written, stats)
	}
	if again := instance.Marks(); len(again) != 0 {
		t.Errorf("jobs are told twice: %+v", again)
	}
	if err := instance.db.Close(); err != nil {
		t.Fatal(err)
	}
}

// What is written is read back the same: generated pairs, a fifth overwritten, a fifth removed, some of
// both by transactions, in one region and in four; then settled, closed, opened again.
const testPairs = 20_000

func testSpec(config string, regions uint64) *RunSpec {
	spec := &RunSpec{Seed: 1, Threads: 2}
	spec.Data.Pairs = testPairs
	spec.Data.Shape = Shape{KeySize: 24, Values: Sizes{kind: "fixed", bounds: []uint64{176}}}
	spec.Store = StoreSpec{Kind: "pebble", Config: config, Cache: 8 << 20, Regions: regions}
	options := &spec.Store.Options
	options.BlockBytes, options.BitsPerKey, options.Durability = 4096, 10, "buffered"
	// Small, so that there are flushes and compactions.
	tree := &options.Policy.Tree
	tree.MemtableBytes, tree.MemtableCount, tree.L1Bytes, tree.L0Trigger = 256<<10, 2, 1<<20, 4
	return spec
}

func fill(t *testing.T, store Store, data *Data) map[string][]byte {
	model, key, other := map[string][]byte{}, data.NewKey(), data.NewKey()
	done := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(record, round uint64) {
		data.Key(record, key)
		value := data.Value(record*31 + round*7)
		done(store.Put(key, value))
		model[string(key)] = value
	}
	for record := range uint64(testPairs) {
		put(record, 0)
	}
	for record := uint64(0); record < testPairs; record += 5 {
		put(record, 1)
		data.Key(record+1, key)
		done(store.Delete(key))
		delete(model, string(key))
	}
	// Transactions: one pair anew, one away, in whatever regions they lie.
	for record := uint64(0); record < testPairs; record += 10 {
		data.Key(record+2, key)
		data.Key(record+3, other)
		value := data.Value(record + 5)
		done(store.Write([]Write{{Key: key, Value: value}, {Key: other, Delete: true}}))
		model[string(key)] = value
		delete(model, string(other))
	}
	return model
}

func checkPairs(t *testing.T, store *Regions, data *Data, model map[string][]byte) {
	key := data.NewKey()
	for record := range uint64(testPairs + 100) {
		data.Key(record, key)
		wanted, known := model[string(key)]
		var read []byte
		found, err := store.Read(key, func(_, value []byte) { read = bytes.Clone(value) })
		if err != nil || found != known || !bytes.Equal(read, wanted) {
			t.Fatalf("record %d is %x, not %x (%v)", record, read, wanted, err)
		}
		if again, err := store.Get(key); err != nil || again != known {
			t.Fatalf("record %d: %v, %v", record, again, err)
		}
	}
	keys := slices.Sorted(maps.Keys(model))
	// Everything; from within a region to the end of the next ones; short ones.
	data.Key(77, key)
	for _, start := range []string{"", string(key)} {
		for _, limit := range []int{1 << 40, len(model) / 2, 100, 1} {
			at, _ := slices.BinarySearch(keys, start)
			wanted := keys[at:min(len(keys), at+min(limit, len(keys)))]
			seen := 0
			count, err := store.Visit([]byte(start), limit, func(key, value []byte) {
				if string(key) != wanted[seen] || !bytes.Equal(value, model[wanted[seen]]) {
					t.Fatalf("a scan of %d from %q sees %q at %d", limit, start, key, seen)
				}
				seen++
			})
			again, err2 := store.Scan([]byte(start), limit)
			if err != nil || err2 != nil || count != len(wanted) || seen != count || again != count {
				t.Fatalf("a scan of %d from %q: %d, %d, %v, %v", limit, start, count, again, err, err2)
			}
		}
	}
}

func TestWrittenIsRead(t *testing.T) {
	for _, config := range []string{"default", "sized"} {
		for _, regions := range []uint64{1, 4} {
			t.Run(fmt.Sprintf("%s/%d", config, regions), func(t *testing.T) {
				writtenIsRead(t, testSpec(config, regions))
			})
		}
	}
}

func writtenIsRead(t *testing.T, spec *RunSpec) {
	data, folder := NewData(spec.Data.Shape, spec.Seed), t.TempDir()
	open := func() *Regions {
		store, err := OpenRegions(&spec.Store, spec.Splits(data), folder)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	if uint64(len(store.parts)) != spec.Store.Regions {
		t.Fatalf("%d regions", len(store.parts))
	}
	model := fill(t, store, data)
	checkPairs(t, store, data, model)
	never := func() bool { return false }
	if ended, err := store.Settle(time.Minute, never); !ended || err != nil {
		t.Fatal("background work does not end", err)
	}
	jobs, stats := store.Marks(newClock()), store.Stats()
	var flushed, compacted uint64
	for _, job := range jobs {
		if job.Kind == "flush" {
			flushed += job.Written
		} else {
			compacted += job.Written
		}
		if job.End > 0 {
			t.Errorf("a job ended after it was told of: %+v", job)
		}
	}
	const user = testPairs * 200
	if flushed != stats.FlushBytes || compacted != stats.CompactionWritten {
		t.Errorf("flushed %d, compacted %d, counters %+v", flushed, compacted, stats)
	}
	if stats.WalBytes <= user || flushed <= user/2 || stats.DiskBytes <= user/2 {
		t.Errorf("too few bytes: %+v", stats)
	}
	if stats.Levels[len(stats.Levels)-1].Tables == 0 && stats.Levels[0].Tables == 0 {
		t.Errorf("no tables: %+v", stats.Levels)
	}
	for range 2 {
		if last, err := store.Close(); err != nil || last.DiskBytes == 0 {
			t.Fatal(err, last)
		}
		store = open()
		checkPairs(t, store, data, model)
	}
	if _, err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestARunThatIsStoppedBeforeItBeginsDoesNothing(t *testing.T) {
	var stop atomic.Bool
	stop.Store(true)
	spec := testSpec("sized", 1)
	spec.Steps = []Step{{settle: new(float64)}}
	answer := Run(spec, nil, t.TempDir(), &stop, &teller{})
	if answer.Failure != nil || len(answer.Report.Phases) != 0 || answer.Report.Settled != nil {
		t.Errorf("%+v", answer)
	}
}
