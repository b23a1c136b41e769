// The cost of the driver: the same inserts by it and by a bare loop. Their ratio is what the driver's
// clock, histograms and generators take.
//
//	go test -bench Fill -benchtime 2000000x -count 6
package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

const benchClients = 2

func BenchmarkFill(b *testing.B) {
	for _, size := range []struct{ memtable, l1 uint64 }{{64, 256}, {8, 64}} {
		for _, by := range []struct {
			name string
			fill func(*testing.B, *Regions, *Data)
		}{{"loop", fillByLoop}, {"driver", fillByDriver}} {
			b.Run(fmt.Sprintf("memtable=%dMB/%s", size.memtable, by.name), func(b *testing.B) {
				shape := Shape{KeySize: 24, Values: Sizes{kind: "fixed", bounds: []uint64{176}}}
				data, store := NewData(shape, 1), benchStore(b, size.memtable<<20, size.l1<<20)
				before := UsageNow()
				b.ResetTimer()
				by.fill(b, store, data)
				b.StopTimer()
				used := float64(UsageNow().Since(before).cpuNanos)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e3, "kops/s")
				b.ReportMetric(used/1e3/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

func benchStore(b *testing.B, memtable, l1 uint64) *Regions {
	cache := pebble.NewCache(64 << 20)
	b.Cleanup(cache.Unref)
	instance, err := Open(b.TempDir(), Setup{
		MemtableBytes: memtable, MemtableCount: 2, L1Bytes: l1,
		Compactions: 2, BlockBytes: 4096, BitsPerKey: 10,
	}, cache)
	if err != nil {
		b.Fatal(err)
	}
	store := &Regions{parts: []*Instance{instance}}
	b.Cleanup(func() {
		if err := store.close(); err != nil {
			b.Fatal(err)
		}
	})
	return store
}

func fillByLoop(b *testing.B, store *Regions, data *Data) {
	var group sync.WaitGroup
	for client := range benchClients {
		group.Go(func() {
			key, random := data.NewKey(), NewRandom(uint64(client))
			for record := client; record < b.N; record += benchClients {
				data.Key(uint64(record), key)
				if err := store.Put(key, data.Value(random.Uint64())); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func fillByDriver(b *testing.B, store *Regions, data *Data) {
	phase := testPhase(inserts(), closedLoop, benchClients)
	ops := uint64(b.N)
	phase.ops, phase.interval = &ops, 1
	var records atomic.Uint64
	outcome := Drive(store, data, &records, phase, new(atomic.Bool), func(*Progress) {})
	if outcome.err != nil || outcome.latencies.Count() != ops {
		b.Error(outcome.err)
	}
}
