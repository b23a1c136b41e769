// The driver against stores whose behaviour is known, as in crates/measure/tests/driver.rs.
package main

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// odd counts; at one of its writes it sleeps, from another one on it fails.
type odd struct {
	nothing
	puts, gets      atomic.Uint64
	sleepAt, failAt uint64
	sleep           time.Duration
}

func (o *odd) Put(_, _ []byte) error {
	number := o.puts.Add(1) - 1
	if o.failAt > 0 && number >= o.failAt {
		return errors.New("no more")
	}
	if o.sleep > 0 && number == o.sleepAt {
		time.Sleep(o.sleep)
	}
	return nil
}

func (o *odd) Get(_ []byte) (bool, error) {
	o.gets.Add(1)
	return false, nil
}

func inserts() *Workload {
	return &Workload{Inserts: 100, Choice: Choice{kind: "uniform"}, Scan: defaultSizes()}
}

func mixed() *Workload {
	return &Workload{Reads: 50, Updates: 50, Choice: Choice{kind: "uniform"}, Scan: defaultSizes()}
}

func testPhase(workload *Workload, arrivals Arrivals, threads int) *Phase {
	return &Phase{workload: workload, arrivals: arrivals, threads: threads, seed: 1, interval: 0.1}
}

func driveFor(store Store, phase *Phase, stop *atomic.Bool, tell func(*Progress)) *Outcome {
	data := NewData(Shape{KeySize: 24, Values: Sizes{kind: "fixed", bounds: []uint64{176}}}, 1)
	var records atomic.Uint64
	records.Store(1000)
	return Drive(store, data, &records, phase, stop, tell)
}

func drive(store Store, phase *Phase) *Outcome {
	return driveFor(store, phase, new(atomic.Bool), func(*Progress) {})
}

func value[T any](of T) *T { return &of }

var closedLoop = Arrivals{kind: "closed"}

func TestAClosedLoopDoesExactlyItsOperations(t *testing.T) {
	store, phase := &odd{}, testPhase(inserts(), closedLoop, 3)
	phase.ops = value[uint64](10_001)
	outcome := drive(store, phase)
	if store.puts.Load() != 10_001 || outcome.latencies.Count() != 10_001 || outcome.err != nil {
		t.Errorf("%d done, %d counted, %v", store.puts.Load(), outcome.latencies.Count(), outcome.err)
	}
	if outcome.userBytes != 10_001*200 {
		t.Errorf("%d bytes", outcome.userBytes)
	}
}

func TestOneSlowAnswerDelaysEveryRequestThatWasDueMeanwhile(t *testing.T) {
	// One client, 10,000 requests per second for a second; request 2,000 takes 100 ms. Of the 1,000
	// requests due meanwhile each waited for the rest of it: 5 % of all over 50 ms.
	slow := func(arrivals Arrivals) *Histogram {
		phase := testPhase(inserts(), arrivals, 1)
		phase.ops = value[uint64](10_000)
		outcome := drive(&odd{sleepAt: 2000, sleep: 100 * time.Millisecond}, phase)
		return outcome.latencies.Together(writeGroup)
	}
	const millisecond = 1_000_000
	open := slow(Arrivals{kind: "open", rate: 10_000})
	if open.total != 10_000 || open.Max() < 100*millisecond || open.Quantile(0.96) < 50*millisecond {
		t.Errorf("%+v", PercentilesOf(open))
	}
	// A closed loop hides it all but once.
	closed := slow(closedLoop)
	if closed.Max() < 100*millisecond || closed.Quantile(0.999) > 50*millisecond {
		t.Errorf("%+v", PercentilesOf(closed))
	}
}

func TestAnOpenLoopKeepsItsRate(t *testing.T) {
	phase := testPhase(mixed(), Arrivals{kind: "open", rate: 20_000}, 2)
	phase.seconds = value(0.5)
	outcome := drive(nothing{}, phase)
	if outcome.latencies.Count() != 10_000 || outcome.unserved != 0 {
		t.Errorf("%d done, %d not", outcome.latencies.Count(), outcome.unserved)
	}
	if outcome.seconds < 0.45 || outcome.seconds > 1.5 {
		t.Errorf("%v s", outcome.seconds)
	}
}

func TestAFailureEndsThePhaseAndIsTold(t *testing.T) {
	for _, arrivals := range []Arrivals{closedLoop, {kind: "open", rate: 50_000}} {
		outcome := drive(&odd{failAt: 100}, testPhase(inserts(), arrivals, 2))
		if outcome.err == nil || outcome.err.Error() != "no more" || outcome.latencies.Count() < 98 {
			t.Errorf("%v after %d", outcome.err, outcome.latencies.Count())
		}
	}
}

func TestTheStopFlagEndsAPhaseWithoutEnd(t *testing.T) {
	store, stop, intervals := &odd{}, new(atomic.Bool), 0
	outcome := driveFor(store, testPhase(mixed(), closedLoop, 2), stop, func(*Progress) {
		intervals++
		stop.Store(true)
	})
	if intervals < 1 || outcome.seconds > 5 || outcome.misses != store.gets.Load() {
		t.Errorf("%d intervals, %+v s, %d misses", intervals, outcome.seconds, outcome.misses)
	}
}

func TestTheFloorIsMeasuredAndTooHighARateRefused(t *testing.T) {
	data := NewData(Shape{KeySize: 24, Values: Sizes{kind: "fixed", bounds: []uint64{176}}}, 1)
	floor, err := MeasureFloor(testPhase(mixed(), Arrivals{kind: "poisson", rate: 5000}, 2), data)
	if err != nil || *floor.Rate != 5000 || floor.P99Us <= 0 || floor.P999Us < floor.P99Us {
		t.Errorf("%+v, %v", floor, err)
	}
	_, err = MeasureFloor(testPhase(mixed(), Arrivals{kind: "open", rate: 1e9}, 2), data)
	if err == nil || !strings.Contains(err.Error(), "more than the driver in Go can offer") {
		t.Errorf("%v", err)
	}
}

func TestStallsAndTailThroughput(t *testing.T) {
	series := Series{}
	for _, ops := range []uint64{5, 0, 0, 7, 0, 3} {
		series = append(series, Point{Seconds: 1, Ops: ops})
	}
	series = append(series, Point{Seconds: 0.01})
	if stalls := series.Stalls(); stalls != (Stalls{Seconds: 3, Count: 2, Longest: 2}) {
		t.Errorf("%+v", stalls)
	}
	series = Series{}
	for ops := range uint64(200) {
		series = append(series, Point{Seconds: 1, Ops: ops + 1})
	}
	if tail := *series.TailThroughput(); tail != 3 {
		t.Errorf("%v", tail)
	}
	if tail := (Series{}).TailThroughput(); tail != nil || (Series{}).Stalls() != (Stalls{}) {
		t.Errorf("%v", *tail)
	}
}

func TestAQueueGrowsWhenItsEndIsLongerThanItsBegin(t *testing.T) {
	for _, test := range []struct {
		grows    bool
		backlogs []uint64
	}{
		{true, []uint64{0, 0, 100, 200, 300, 400, 500, 600}},
		{false, []uint64{0, 600, 0, 0, 600, 0, 0, 40}}, // A burst that was served.
		{true, []uint64{5, 9}},                         // Too short to say that it does not.
		{true, []uint64{0, 100, 200, 300, 400, 500, 600, 700, 500, 300, 100, 0, 0}},
	} {
		series := Series{}
		for _, backlog := range test.backlogs {
			series = append(series, Point{Seconds: 1, Backlog: backlog})
		}
		if queueGrows(series, 1000, 8) != test.grows {
			t.Errorf("%v", test.backlogs)
		}
	}
}

func TestAShareOfNoMaximumIsRefused(t *testing.T) {
	spec := testSpec("sized", 1)
	spec.Steps = []Step{{phase: &PhaseSpec{
		Name: "half", Workload: *mixed(), Interval: 0.1, Seconds: value(1.0),
		Offered: Offered{kind: "sustainable", low: 0.3, high: 1},
	}}}
	answer := Run(spec, nil, t.TempDir(), new(atomic.Bool), &teller{})
	if answer.Failure == nil || !strings.Contains(*answer.Failure, "closed-loop phase before it") {
		t.Errorf("%+v", answer)
	}
}
