// The driver's floor: its own cost, and the rates that it can offer, as in
// crates/measure/src/driver/floor.rs. A short run of the same kind over a store that does nothing
// measures it, in Go as the run itself. Arrivals that vary are tried at their peak.
package main

import (
	"fmt"
	"sync/atomic"
)

const (
	// Seconds of a try.
	floorSeconds = 0.5
	// The largest number of tries to reach the rate and the aim.
	floorTries = 10
	// The aim for P99.9 of the driver alone, in nanoseconds.
	floorAim = 200_000
	// The share of the rate that must be reached: a short pause of the machine is no reason to refuse
	// a rate.
	floorReached = 0.9
)

// Floor has the figures of the driver over a store that does nothing.
type Floor struct {
	Rate       *float64 `json:"rate"`
	P99Us      float64  `json:"p99_us"`
	P999Us     float64  `json:"p999_us"`
	CPUUsPerOp float64  `json:"cpu_us_per_op"`
}

// nothing is a store that does nothing.
type nothing struct{}

func (nothing) Put(_, _ []byte) error                 { return nil }
func (nothing) Get(_ []byte) (bool, error)            { return true, nil }
func (nothing) Delete(_ []byte) error                 { return nil }
func (nothing) Scan(_ []byte, limit int) (int, error) { return limit, nil }
func (nothing) Write(_ []Write) error                 { return nil }

// MeasureFloor measures what the driver costs by itself. It fails if the driver cannot keep the phase's
// rate even so: the phase would then measure the driver.
func MeasureFloor(phase *Phase, data *Data) (Floor, error) {
	asked, known := phase.arrivals.Peak()
	reached := func(outcome *Outcome) float64 {
		return float64(outcome.latencies.Count()) / max(outcome.seconds, 1e-9)
	}
	enough := func(outcome *Outcome) bool { return reached(outcome) >= floorReached*asked }
	// Other processes may disturb a try, so the best one counts. A closed loop has no aim.
	better := func(one, other *Outcome) bool {
		if enough(one) != enough(other) {
			return enough(one)
		}
		return one.latencies.Quantile(0.999) < other.latencies.Quantile(0.999)
	}
	outcome := brief(phase, data)
	good := func() bool { return enough(outcome) && outcome.latencies.Quantile(0.999) <= floorAim }
	for tries := 1; known && tries < floorTries && !good(); tries++ {
		if again := brief(phase, data); better(again, outcome) {
			outcome = again
		}
	}
	if outcome.err != nil {
		return Floor{}, outcome.err
	}
	if !enough(outcome) {
		return Floor{}, fmt.Errorf("%.0f requests per second are more than the driver in Go can offer "+
			"with %d clients: over a store that does nothing it reaches %.0f. Ask for fewer",
			asked, phase.threads, reached(outcome))
	}
	ops := float64(max(outcome.latencies.Count(), 1))
	floor := Floor{
		P99Us:      float64(outcome.latencies.Quantile(0.99)) / 1e3,
		P999Us:     float64(outcome.latencies.Quantile(0.999)) / 1e3,
		CPUUsPerOp: float64(outcome.usage.cpuNanos) / 1e3 / ops,
	}
	if known {
		floor.Rate = &asked
	}
	return floor, nil
}

func brief(phase *Phase, data *Data) *Outcome {
	short := *phase
	short.arrivals = phase.arrivals.AtPeak()
	// At a low rate, measure longer, to have enough requests.
	seconds := floorSeconds
	if rate, known := short.arrivals.Peak(); known && rate < 2000 {
		seconds *= 2
	}
	short.ops, short.seconds, short.interval = nil, &seconds, floorSeconds
	var records atomic.Uint64
	records.Store(1_000_000)
	var stop atomic.Bool
	return Drive(nothing{}, data, &records, &short, &stop, func(progress *Progress) {
		// Requests that are not served by then show that the rate is far too high.
		if progress.seconds > 3*floorSeconds {
			stop.Store(true)
		}
	})
}
