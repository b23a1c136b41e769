// The same work without Rust in between: what the calls through C cost is the difference.
//
//	go test -bench FillRandom -benchtime 2000000x
package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// mix is the bijection that the laboratory makes keys with.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

func putKey(key []byte, record uint64) {
	hash := mix(record)
	for digit := 23; digit >= 4; digit-- {
		key[digit] = byte('0' + hash%10)
		hash /= 10
	}
}

func open(t testing.TB, memtable uint64, l1 int64) *Instance {
	cache := pebble.NewCache(64 << 20)
	t.Cleanup(cache.Unref)
	instance, err := Open(t.TempDir(), Setup{
		MemtableBytes: memtable, MemtableCount: 2, L1Bytes: l1,
		Compactions: 2, BlockBytes: 4096, BitsPerKey: 10,
	}, cache)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := instance.db.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return instance
}

// processorTime is that of all threads of this process.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkFillRandom(b *testing.B) {
	for _, size := range []struct{ memtable, l1 int64 }{{64, 256}, {8, 64}} {
		b.Run(fmt.Sprintf("memtable=%dMB", size.memtable), func(b *testing.B) {
			instance := open(b, uint64(size.memtable)<<20, size.l1<<20)
			pool := make([]byte, 1<<20+176)
			random := rand.NewChaCha8([32]byte{1})
			if _, err := random.Read(pool); err != nil {
				b.Fatal(err)
			}
			const clients = 4
			var group sync.WaitGroup
			b.ResetTimer()
			begun, used := time.Now(), processorTime(b)
			for client := range clients {
				group.Go(func() {
					key := []byte("user00000000000000000000")
					values := rand.NewPCG(1, uint64(client))
					for record := client; record < b.N; record += clients {
						putKey(key, uint64(record))
						start := values.Uint64() % (1 << 20)
						if err := instance.Put(key, pool[start:start+176]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/time.Since(begun).Seconds()/1e3, "kops/s")
			used = processorTime(b) - used
			b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}

func TestCountersAndMarks(t *testing.T) {
	instance := open(t, 1<<20, 0)
	value := make([]byte, 1000)
	for record := range uint64(20_000) {
		binary.LittleEndian.PutUint64(value, mix(record))
		key := []byte("user00000000000000000000")
		putKey(key, record)
		if err := instance.Put(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := instance.Flush(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !instance.Stats().Idle; {
		if time.Now().After(deadline) {
			t.Fatal("background work does not end")
		}
		time.Sleep(10 * time.Millisecond)
	}
	stats, marks := instance.Stats(), instance.Marks()
	var flushed, read, written uint64
	for _, job := range marks.Jobs {
		if job.Kind == "flush" {
			flushed += job.Written
		} else {
			read, written = read+job.Read, written+job.Written
		}
		if job.Start > job.End || job.End > marks.Now {
			t.Errorf("a job at an impossible time: %+v", job)
		}
	}
	if flushed < 20_000*1000 || flushed != stats.FlushBytes {
		t.Errorf("%d bytes flushed by the jobs, %d by the counters", flushed, stats.FlushBytes)
	}
	if written != stats.CompactionWritten || read != stats.CompactionRead {
		t.Errorf("compactions: jobs %d→%d, counters %+v", read, written, stats)
	}
	if again := instance.Marks(); len(again.Jobs) != 0 {
		t.Errorf("jobs are told twice: %+v", again)
	}
}
