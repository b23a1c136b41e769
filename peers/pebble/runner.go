// Does a run: the steps in their order on one store, and their report; as in
// crates/measure/src/runner.rs, whose comments say why.
//
//  1. Open the store in the given folder. If its data was loaded beforehand, wait for background work.
//  2. For each step: drive a phase, wait for background work, or open the store again with something
//     changed.
//  3. Before a phase, measure the driver alone at the phase's arrivals. At the ends of its intervals,
//     sample levels, memory and device bytes. At its end, collect the jobs.
//
// A failure or a stop ends the steps, and the report covers what was done.
package main

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"reflect"
	"sync/atomic"
	"time"
)

const (
	// The least time between two samples of the store, in seconds.
	sampleSeconds = 0.1
	// The number of trials of a search for the sustainable rate.
	trials = 5
	// The number of tenths of a second that the process may take to become calm.
	calmLooks = 100
)

// shareOf is part ÷ whole as a share of 2^64; part is less.
func shareOf(part, whole uint64) uint64 {
	share, _ := bits.Div64(part, 0, whole)
	return share
}

// Listener receives the progress of a run.
type Listener interface {
	// Begin: a step begins.
	Begin(name string, number, count int)
	// Going: a phase goes on.
	Going(progress *Progress)
}

// runner is the state that steps share.
type runner struct {
	spec    *RunSpec
	dir     string
	stop    *atomic.Bool
	tell    Listener
	store   *Regions
	data    *Data
	records atomic.Uint64
	phases  []*PhaseReport
	// The counters of the earlier openings of the store.
	closed Stats
	// The workload and the throughput of the latest closed-loop phase.
	maximum     *Workload
	throughput  float64
	sustainable *float64
	settled     *float64
	// The phases since background work last ended.
	unsettled *unsettled
}

// unsettled are phases that follow each other without waiting for background work. They pay for it
// together: which of them left it is not known.
type unsettled struct {
	clock Clock
	// The counters of the store and of the process when the first one began.
	begun     Stats
	usage     Usage
	ops       uint64
	userBytes uint64
}

// Run runs all steps in this folder: the report of what was done, and the failure that ended the run.
func Run(
	spec *RunSpec, text json.RawMessage, dir string, stop *atomic.Bool, tell Listener,
) *Answer {
	usage := UsageNow()
	runner := &runner{
		spec: spec, dir: dir, stop: stop, tell: tell, data: NewData(spec.Data.Shape, spec.Seed),
		phases: []*PhaseReport{},
	}
	if spec.Load != nil {
		runner.records.Store(spec.Data.Pairs)
	}
	failure := runner.all()
	method := runner.method(text)
	end := Stats{Waits: []Wait{}, Levels: []Level{}}
	if runner.store != nil {
		var err error
		if end, err = runner.store.Close(); failure == nil {
			failure = err
		}
	}
	userBytes := uint64(0)
	for _, phase := range runner.phases {
		userBytes += phase.Amplification.UserBytes
	}
	moved := end.plus(&runner.closed)
	answer := &Answer{Report: &Report{
		Method: method, Phases: runner.phases, Settled: runner.settled,
		Sustainable:   runner.sustainable,
		Amplification: newAmplification(userBytes, &moved, UsageNow().Since(usage).device),
		Store:         end, Records: runner.records.Load(), PeakMemory: PeakMemory(),
	}}
	if failure != nil {
		why := failure.Error()
		answer.Failure = &why
	}
	return answer
}

func (r *runner) method(text json.RawMessage) Method {
	spec := r.spec
	method := Method{
		Store: spec.Store.Kind, Profile: spec.Store.Config, Options: [][2]string{},
		Machine: ThisMachine(), Pairs: spec.Data.Pairs, KeySize: spec.Data.Shape.KeySize,
		ValueSize: saturated(spec.Data.Shape.Values.Mean() + 0.5), Threads: spec.Threads,
		Compressible: spec.Data.Shape.Compressible, Load: howLoaded(spec), Seed: spec.Seed, Spec: text,
	}
	if r.store != nil {
		method.Options = r.store.described
	}
	if len(r.phases) > 0 {
		method.Floor = r.phases[len(r.phases)-1].Floor
	}
	return method
}

// howLoaded says how the data is loaded, in words.
func howLoaded(spec *RunSpec) string {
	if spec.Load != nil {
		return "loaded beforehand with the shape " + spec.Load.Options.Policy.Shape
	}
	for _, step := range spec.Steps {
		if step.phase != nil {
			if step.phase.Offered.kind == "as" {
				return fmt.Sprintf("by the first phase, %v", step.phase.Offered.arrivals)
			}
			break
		}
	}
	return "by the first phase"
}

func (r *runner) open(store *StoreSpec) (err error) {
	r.store, err = OpenRegions(store, r.spec.Splits(r.data), r.dir)
	return err
}

func (r *runner) all() error {
	if err := r.open(&r.spec.Store); err != nil {
		return err
	}
	if load := r.spec.Load; load != nil {
		r.tell.Begin("bringing the tree into shape", 0, 0)
		if err := r.settle(load.Settle); err != nil {
			return err
		}
	}
	for number, step := range r.spec.Steps {
		if r.stop.Load() {
			break
		}
		var err error
		count := len(r.spec.Steps)
		switch {
		case step.phase != nil:
			r.tell.Begin(step.phase.Name, number, count)
			err = r.phase(step.phase)
		case step.settle != nil:
			r.tell.Begin("waiting for background work to end", number, count)
			err = r.settlePhase(*step.settle)
		case step.reopen != nil:
			r.tell.Begin("opening it again", number, count)
			err = r.reopen(step.reopen)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle waits for background work to end.
func (r *runner) settle(seconds float64) error {
	clock := newClock()
	ended, err := r.store.Settle(time.Duration(seconds*1e9), r.stop.Load)
	r.settled = nil
	if ended {
		took := clock.Seconds()
		r.settled = &took
	}
	return err
}

// calm waits until the process is calm.
func (r *runner) calm() {
	const look = 100 * time.Millisecond
	for range calmLooks {
		before := UsageNow()
		time.Sleep(look)
		if used := UsageNow().Since(before).cpuNanos; r.stop.Load() || used < uint64(look)/20 {
			return
		}
	}
}

// settlePhase waits for background work to end, and counts that work to the phases that left it. The
// latest one reports it.
func (r *runner) settlePhase(seconds float64) error {
	if err := r.settle(seconds); err != nil {
		return err
	}
	left := r.unsettled
	r.unsettled = nil
	if left == nil || r.settled == nil {
		return nil
	}
	moved := r.store.Stats().since(&left.begun)
	used := UsageNow().Since(left.usage)
	all := newAmplification(left.userBytes, &moved, used.device)
	phase := r.phases[len(r.phases)-1]
	phase.Settled = &all
	phase.Paid = &Paid{Ops: left.ops, Seconds: left.clock.Seconds(), CPUNanos: used.cpuNanos}
	return nil
}

func (r *runner) reopen(step *Reopen) error {
	end, err := r.store.Close()
	r.unsettled = nil
	r.store, r.closed = nil, r.closed.plus(&end)
	if err != nil {
		return err
	}
	spec := r.spec.Store
	if step.change.L0Trigger != nil {
		spec.Options.Policy.Tree.L0Trigger = *step.change.L0Trigger
	}
	if step.change.Memtable != nil {
		spec.Options.Policy.Tree.MemtableBytes = *step.change.Memtable
	}
	if err := r.open(&spec); err != nil {
		return err
	}
	if err := r.settle(step.seconds); err != nil {
		return err
	}
	r.calm()
	return nil
}

func (r *runner) phase(spec *PhaseSpec) error {
	offered := &spec.Offered
	if offered.kind == "as" {
		report, err := r.drive(spec, spec.Name, offered.arrivals)
		if err == nil && offered.arrivals.Closed() {
			r.maximum, r.throughput = &spec.Workload, report.Throughput
		}
		return err
	}
	if r.maximum == nil || !sameKind(r.maximum, &spec.Workload) {
		return fmt.Errorf("%s: a share of the maximum needs a closed-loop phase before it that asks "+
			"the same", spec.Name)
	}
	if offered.kind == "sustainable" {
		return r.search(spec, offered.low*r.throughput, offered.high*r.throughput)
	}
	rate := max(offered.low*r.throughput, 1)
	arrivals := Arrivals{kind: "open", rate: rate}
	if offered.kind == "pattern_of_maximum" {
		arrivals = Arrivals{kind: "varying", pattern: offered.pattern.WithPeak(rate)}
	}
	_, err := r.drive(spec, spec.Name, arrivals)
	return err
}

// sameKind says whether two workloads are equal or both read.
func sameKind(one, other *Workload) bool {
	reads := func(workload *Workload) bool { return workload.Reads+workload.Scans > 0 }
	return reflect.DeepEqual(one, other) || (reads(one) && reads(other))
}

// search searches between two rates for the highest one whose queue does not grow, by bisection. Each
// trial is a phase of the report. It begins after the background work of the one before.
func (r *runner) search(spec *PhaseSpec, low, high float64) error {
	for trial := range trials {
		rate := low
		if trial > 0 {
			rate = (low + high) / 2
		}
		name := fmt.Sprintf("%s %.0f/s", spec.Name, rate)
		phase, err := r.drive(spec, name, Arrivals{kind: "open", rate: rate})
		if err != nil {
			return err
		}
		seconds := phase.Seconds
		if spec.Seconds != nil {
			seconds = *spec.Seconds
		}
		switch holds := phase.Unserved == 0 && !queueGrows(phase.Series, rate, seconds); {
		case holds:
			low, r.sustainable = rate, &rate
		case trial == 0:
			return nil
		default:
			high = rate
		}
		if r.stop.Load() {
			break
		}
		if err := r.settlePhase(600); err != nil {
			return err
		}
	}
	return nil
}

// queueGrows says whether the queue of an open loop grew: it was longer in the last quarter of a phase
// than in the second, by more requests than are due in 50 ms.
func queueGrows(series Series, rate, seconds float64) bool {
	// Only intervals in which requests were offered count: afterwards every queue shrinks.
	at, count := 0.0, 0
	for _, point := range series {
		if at += point.Seconds; at > seconds+point.Seconds/2 {
			break
		}
		count++
	}
	mean := func(part Series) float64 {
		sum := 0.0
		for _, point := range part {
			sum += float64(point.Backlog)
		}
		return sum / float64(max(len(part), 1))
	}
	quarter := count / 4
	return quarter < 2 ||
		mean(series[count-quarter:count]) > mean(series[quarter:2*quarter])+rate/20
}

// drive drives one phase and adds its report.
func (r *runner) drive(spec *PhaseSpec, name string, arrivals Arrivals) (*PhaseReport, error) {
	phase := &Phase{
		workload: &spec.Workload, arrivals: arrivals, threads: r.spec.Threads, ops: spec.Ops,
		seconds: spec.Seconds, interval: spec.Interval,
		// Each phase has other operations than the phases before it.
		seed: mix(r.spec.Seed) + uint64(len(r.phases)),
	}
	floor, err := MeasureFloor(phase, r.data)
	if err != nil {
		return nil, err
	}
	before, usage, clock := r.store.Stats(), UsageNow(), newClock()
	r.store.Marks(clock)
	if r.unsettled == nil {
		r.unsettled = &unsettled{clock: clock, begun: before, usage: usage}
	}
	samples := []Sample{r.sample(0, usage)}
	tell := func(progress *Progress) {
		last := samples[len(samples)-1].At
		if progress.seconds-last >= sampleSeconds || progress.done >= 1 {
			samples = append(samples, r.sample(progress.seconds, usage))
		}
		r.tell.Going(progress)
	}
	outcome := Drive(r.store, r.data, &r.records, phase, r.stop, tell)
	jobs := r.store.Marks(clock)
	stopped := r.stop.Load() || outcome.err != nil
	report := newPhaseReport(phase, outcome, stopped, r.store.Stats().since(&before))
	report.Name, report.Floor, report.Samples, report.Jobs = name, floor, samples, jobs
	r.phases = append(r.phases, report)
	r.unsettled.ops += report.Ops
	r.unsettled.userBytes += report.Amplification.UserBytes
	if outcome.err != nil {
		return nil, fmt.Errorf("%s: %w", name, outcome.err)
	}
	return report, nil
}

// sample is a sample of the store and the process.
func (r *runner) sample(at float64, begin Usage) Sample {
	levels, pending := r.store.Look()
	used := UsageNow().Since(begin)
	sample := Sample{
		At: at, Levels: []uint64{}, Memory: ResidentMemory(), CPUNanos: used.cpuNanos,
		Device: used.device, Pending: pending,
	}
	for number, level := range levels {
		if number == 0 {
			sample.L0Runs = level.runs
		}
		sample.Levels = append(sample.Levels, level.Bytes)
	}
	return sample
}
