// What the tests of `peers` compare with the laboratory's Rust code, byte for byte: the calls that a
// workload makes, the due times of arrivals, and the percentiles of latencies.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// recorder is a store that writes down what is asked of it.
type recorder struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (r *recorder) write(format string, content ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A failed write is seen by the flush at the end.
	fmt.Fprintf(r.out, format, content...)
}

// Put writes it down.
func (r *recorder) Put(key, value []byte) error {
	r.write("put %x %x\n", key, value)
	return nil
}

// Get writes it down.
func (r *recorder) Get(key []byte) (bool, error) {
	r.write("get %x\n", key)
	return true, nil
}

// Delete writes it down.
func (r *recorder) Delete(key []byte) error {
	r.write("delete %x\n", key)
	return nil
}

// Scan writes it down.
func (r *recorder) Scan(start []byte, limit int) (int, error) {
	r.write("scan %x %d\n", start, limit)
	return limit, nil
}

// Write writes it down as one line.
func (r *recorder) Write(writes []Write) error {
	line := ""
	for _, write := range writes {
		if write.Delete {
			line += fmt.Sprintf(" delete %x", write.Key)
		} else {
			line += fmt.Sprintf(" put %x %x", write.Key, write.Value)
		}
	}
	r.write("batch%s\n", line)
	return nil
}

// printOps drives the first phase of a specification over a recorder, and prints the first keys of its
// regions after it.
func printOps(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	spec, err := ReadSpec(text)
	if err != nil {
		return err
	}
	if len(spec.Steps) == 0 || spec.Steps[0].phase == nil {
		return fmt.Errorf("the first step is no phase")
	}
	first := spec.Steps[0].phase
	phase := &Phase{
		workload: &first.Workload, arrivals: first.Offered.arrivals, threads: spec.Threads,
		ops: first.Ops, seconds: first.Seconds, interval: first.Interval, seed: spec.Seed,
	}
	store := &recorder{out: bufio.NewWriter(out)}
	data := NewData(spec.Data.Shape, spec.Seed)
	var records atomic.Uint64
	records.Store(spec.Data.Pairs)
	outcome := Drive(store, data, &records, phase, new(atomic.Bool), func(*Progress) {})
	if outcome.err != nil {
		return outcome.err
	}
	for _, split := range spec.Splits(data) {
		store.write("split %x\n", split)
	}
	return store.out.Flush()
}

// printDue prints how many requests there are, when some of them are due, and how many are due by some
// times.
func printDue(in io.Reader, out io.Writer) error {
	var asked struct {
		Arrivals Arrivals `json:"arrivals"`
		Seed     uint64   `json:"seed"`
		Seconds  float64  `json:"seconds"`
		Requests []uint64 `json:"requests"`
		Nanos    []uint64 `json:"nanos"`
	}
	if err := json.NewDecoder(in).Decode(&asked); err != nil {
		return err
	}
	sequence := NewSequence(&asked.Arrivals, 1<<62, &asked.Seconds, nil, asked.Seed)
	if sequence == nil {
		return fmt.Errorf("a closed loop has no due times")
	}
	answer := struct {
		Total   uint64   `json:"total"`
		Due     []uint64 `json:"due"`
		Backlog []uint64 `json:"backlog"`
	}{Total: sequence.total}
	for _, request := range asked.Requests {
		answer.Due = append(answer.Due, sequence.times.Due(request))
	}
	for _, nanos := range asked.Nanos {
		answer.Backlog = append(answer.Backlog, sequence.Backlog(nanos))
	}
	return json.NewEncoder(out).Encode(answer)
}

// printPercentiles prints those of a list of latencies in nanoseconds.
func printPercentiles(in io.Reader, out io.Writer) error {
	var nanos []uint64
	if err := json.NewDecoder(in).Decode(&nanos); err != nil {
		return err
	}
	var latencies Latencies
	for _, one := range nanos {
		latencies.Record(Update, one)
	}
	return json.NewEncoder(out).Encode(PercentilesOf(latencies.Together(allKinds)))
}
