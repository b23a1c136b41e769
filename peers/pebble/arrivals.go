// Arrivals: the times at which requests are made, the same as those of the laboratory
// (crates/measure/src/arrivals.rs).
//
// Closed loop: each client makes the next request as soon as the last one is answered.
// Open loop: request i is due at a time of its own, whatever the store does; its latency counts from
// then. Clients take due requests from one sequence:
//
//  1. A client takes the next request if it is due, serves it and comes back, as long as requests are
//     due.
//  2. If none is due, it sleeps until the next one is due, but at least until sleepMin after the last
//     planned wake-up.
package main

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
)

// The least time between two wake-ups of clients, in nanoseconds.
const sleepMin = 125_000

// Arrivals are "closed", "open", "poisson", "varying" or "replay".
type Arrivals struct {
	kind    string
	rate    float64
	pattern Pattern
	replay  Replay
}

// Pattern has rates that follow each other; after the last one the first one follows.
type Pattern struct {
	Segments []Segment `json:"segments"`
	Poisson  bool      `json:"poisson"`
}

// Segment is a rate for a while.
type Segment struct {
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate"`
}

// Replay is a recorded trace as arrivals.
type Replay struct {
	Path  string  `json:"path"`
	Speed float64 `json:"speed"`
}

// UnmarshalJSON reads and checks it.
func (a *Arrivals) UnmarshalJSON(text []byte) error {
	var tagged Tagged
	if err := json.Unmarshal(text, &tagged); err != nil {
		return err
	}
	*a = Arrivals{kind: tagged.Name}
	switch a.kind {
	case "closed":
		return nil
	case "open", "poisson":
		return json.Unmarshal(tagged.Content, &a.rate)
	case "varying":
		return json.Unmarshal(tagged.Content, &a.pattern)
	case "replay":
		return json.Unmarshal(tagged.Content, &a.replay)
	}
	return fmt.Errorf("the arrivals %q are not known to this program", a.kind)
}

// MarshalJSON gives the laboratory's form.
func (a Arrivals) MarshalJSON() ([]byte, error) {
	switch a.kind {
	case "closed":
		return json.Marshal(a.kind)
	case "varying":
		return json.Marshal(map[string]Pattern{a.kind: a.pattern})
	case "replay":
		return json.Marshal(map[string]Replay{a.kind: a.replay})
	}
	return json.Marshal(map[string]float64{a.kind: a.rate})
}

// Peak is the highest rate.
func (p *Pattern) Peak() (peak float64) {
	for _, segment := range p.Segments {
		peak = max(peak, segment.Rate)
	}
	return peak
}

// Mean is the mean rate of a whole round.
func (p *Pattern) Mean() float64 {
	requests, seconds := 0.0, 0.0
	for _, segment := range p.Segments {
		requests += segment.Seconds * segment.Rate
		seconds += segment.Seconds
	}
	return requests / seconds
}

// WithPeak multiplies all rates by one factor, so that the highest is rate.
func (p Pattern) WithPeak(rate float64) Pattern {
	factor := rate / p.Peak()
	segments := make([]Segment, len(p.Segments))
	for i, segment := range p.Segments {
		segments[i] = Segment{Seconds: segment.Seconds, Rate: segment.Rate * factor}
	}
	return Pattern{Segments: segments, Poisson: p.Poisson}
}

// Closed says whether it is a closed loop.
func (a *Arrivals) Closed() bool { return a.kind == "closed" }

// Peak is the highest rate; false if it is not known beforehand.
func (a *Arrivals) Peak() (float64, bool) {
	switch a.kind {
	case "open", "poisson":
		return a.rate, true
	case "varying":
		return a.pattern.Peak(), true
	}
	return 0, false
}

// AtPeak is the same at the highest rate all the time; a closed loop for a replay.
func (a Arrivals) AtPeak() Arrivals {
	switch {
	case a.kind == "varying" && a.pattern.Poisson:
		return Arrivals{kind: "poisson", rate: a.pattern.Peak()}
	case a.kind == "varying":
		return Arrivals{kind: "open", rate: a.pattern.Peak()}
	case a.kind == "replay":
		return Arrivals{kind: "closed"}
	}
	return a
}

// Check refuses impossible numbers.
func (a *Arrivals) Check() error {
	positive := func(what string, number float64) error {
		if number > 0 && number < 1e300 {
			return nil
		}
		return fmt.Errorf("arrivals: %s is %v, and has to be above zero", what, number)
	}
	switch a.kind {
	case "open", "poisson":
		return positive("the rate", a.rate)
	case "replay":
		return positive("the speed of a replay", a.replay.Speed)
	case "varying":
		for _, segment := range a.pattern.Segments {
			if err := positive("the length of a segment", segment.Seconds); err != nil {
				return err
			}
			if !(segment.Rate >= 0 && segment.Rate < 1e300) {
				return fmt.Errorf("arrivals: a rate of %v is impossible", segment.Rate)
			}
		}
		return positive("the highest rate of the pattern", a.pattern.Peak())
	}
	return nil
}

// String is as the reports of the laboratory have it.
func (a Arrivals) String() string {
	switch a.kind {
	case "closed":
		return "closed loop"
	case "open":
		return fmt.Sprintf("open, %.0f/s", a.rate)
	case "poisson":
		return fmt.Sprintf("Poisson, %.0f/s", a.rate)
	case "varying":
		return fmt.Sprintf("varying, %.0f to %.0f/s", a.pattern.Mean(), a.pattern.Peak())
	}
	return fmt.Sprintf("trace at %v ×", a.replay.Speed)
}

// Sequence has the requests of an open loop, shared by its clients.
type Sequence struct {
	times Times
	total uint64
	next  atomic.Uint64
	// The last wake-up that was planned.
	planned atomic.Uint64
}

// Next is the next step of a client.
type Next int

const (
	// Serve the request of the given number, which was due at the given nanosecond.
	Serve Next = iota
	// Sleep until the given nanosecond.
	Sleep
	// End: all requests were taken.
	End
)

// NewSequence has the requests that are due within so many seconds, but at most total. It is nil for a
// closed loop. A replay has the recorded times, in microseconds.
func NewSequence(
	arrivals *Arrivals, total uint64, seconds *float64, recorded []uint64, seed uint64,
) *Sequence {
	sequence := &Sequence{}
	switch arrivals.kind {
	case "closed":
		return nil
	case "open":
		sequence.times = EvenTimes(arrivals.rate)
	case "poisson":
		sequence.times = EvenTimes(arrivals.rate).Poisson(seed)
	case "varying":
		sequence.times = VaryingTimes(&arrivals.pattern)
		if arrivals.pattern.Poisson {
			sequence.times = sequence.times.Poisson(seed)
		}
	case "replay":
		sequence.times = RecordedTimes(recorded, arrivals.replay.Speed)
	}
	sequence.total = min(total, sequence.times.Limit())
	if seconds != nil {
		sequence.total = min(sequence.total, sequence.times.Before(*seconds*1e9))
	}
	return sequence
}

// Next says what a client does at this time: with which request, and when it was due or is.
func (s *Sequence) Next(now uint64) (step Next, index, at uint64) {
	for {
		index := s.next.Load()
		if index >= s.total {
			return End, 0, 0
		}
		due := s.times.Due(index)
		if due > now {
			return Sleep, 0, s.plan(due)
		}
		if s.next.CompareAndSwap(index, index+1) {
			return Serve, index, due
		}
	}
}

// plan plans a wake-up: not before due, and not too soon after the last planned one.
func (s *Sequence) plan(due uint64) uint64 {
	for {
		planned := s.planned.Load()
		next := max(due, planned+sleepMin)
		if s.planned.CompareAndSwap(planned, next) {
			return next
		}
	}
}

// Backlog is the number of requests that are due and not taken yet.
func (s *Sequence) Backlog(now uint64) uint64 {
	due, taken := min(s.times.Until(float64(now)), s.total), s.next.Load()
	return due - min(due, taken)
}
