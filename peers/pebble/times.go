// The due times of an open loop's requests, as a function of their number: as in
// crates/measure/src/arrivals/times.rs, to the nanosecond.
//
//  1. A request's place counts requests. It is the request's number, or for Poisson arrivals the sum of
//     the gaps before it, whose mean is one. A table of 2^16 gaps is drawn once and repeats. Its sum is
//     scaled to 2^16, so the rate of a run is exact.
//  2. The course turns a place into a time: one rate; rates that change; the times of a trace.
//
// Both steps have inverses, which give the number of requests that are due by a time.
package main

import (
	"math"
	"sort"
)

// Gaps in the table of a Poisson process.
const gapCount = 1 << 16

// Times are due times.
type Times struct {
	// Requests per nanosecond; 0 if the rate changes or the times are recorded.
	rate  float64
	round *round
	// The recorded microseconds of each request, and the speed.
	recorded []uint64
	speed    float64
	gaps     []float64
}

// A round of a pattern: its segments, requests and nanoseconds.
type round struct {
	parts           []part
	requests, nanos float64
}

// A segment: its begin and end in requests and in nanoseconds.
type part struct{ requests, nanos span }

type span struct{ from, to float64 }

// between maps at from one range to another, linearly.
func between(at float64, from, to span) float64 {
	return to.from + float64((at-from.from)/(from.to-from.from)*(to.to-to.from))
}

// EvenTimes are due times of rate requests each second.
func EvenTimes(rate float64) Times { return Times{rate: rate / 1e9} }

// VaryingTimes are due times of a pattern.
func VaryingTimes(pattern *Pattern) Times {
	whole := &round{}
	for _, segment := range pattern.Segments {
		begin := *whole
		whole.nanos += float64(segment.Seconds * 1e9)
		whole.requests += float64(segment.Seconds * segment.Rate)
		whole.parts = append(whole.parts, part{
			requests: span{begin.requests, whole.requests}, nanos: span{begin.nanos, whole.nanos},
		})
	}
	return Times{round: whole}
}

// RecordedTimes are recorded due times in microseconds, in ascending order.
func RecordedTimes(micros []uint64, speed float64) Times {
	return Times{recorded: micros, speed: speed}
}

// Poisson has the same rates with exponential gaps.
func (t Times) Poisson(seed uint64) Times {
	random, sum := NewRandom(seed), 0.0
	t.gaps = make([]float64, gapCount)
	for i := range t.gaps {
		sum += random.Exponential()
		t.gaps[i] = sum
	}
	for i := range t.gaps {
		t.gaps[i] *= gapCount / sum
	}
	return t
}

// Limit is the largest number of requests.
func (t *Times) Limit() uint64 {
	if t.rate == 0 && t.round == nil {
		return uint64(len(t.recorded))
	}
	return math.MaxUint64
}

// Due is the due time of a request, in nanoseconds.
func (t *Times) Due(index uint64) uint64 {
	place := float64(index)
	if t.gaps != nil {
		place = float64(index&^(gapCount-1)) + t.gaps[index&(gapCount-1)]
	}
	switch {
	case t.rate != 0:
		return saturated(place / t.rate)
	case t.round != nil:
		return saturated(t.round.nanosOf(place))
	case index < uint64(len(t.recorded)):
		return saturated(float64(t.recorded[index]) * 1e3 / t.speed)
	}
	return math.MaxUint64
}

// Until is the number of requests that are due by this nanosecond.
func (t *Times) Until(nanos float64) uint64 {
	place, count, counted := t.place(nanos)
	if counted {
		return count
	}
	return saturated(math.Floor(place)) + 1
}

// Before is the number of requests that are due before this nanosecond.
func (t *Times) Before(nanos float64) uint64 {
	place, count, counted := t.place(nanos)
	if counted {
		return count
	}
	// Sums of products are not exact. The margin leaves out a request at the very end.
	return saturated(math.Ceil(place - 1e-6))
}

// place is the place that is due at this nanosecond if places are numbers, or else the number of
// requests.
func (t *Times) place(nanos float64) (place float64, count uint64, counted bool) {
	switch {
	case t.rate != 0:
		place = nanos * t.rate
	case t.round != nil:
		place = t.round.placeOf(nanos)
	default:
		until := nanos * t.speed / 1e3
		later := func(i int) bool { return float64(t.recorded[i]) > until }
		return 0, uint64(sort.Search(len(t.recorded), later)), true
	}
	if t.gaps == nil {
		return place, 0, false
	}
	rounds := math.Floor(place / gapCount)
	rest := place - rounds*gapCount
	within := sort.Search(gapCount, func(i int) bool { return t.gaps[i] > rest })
	return 0, saturated(rounds)*gapCount + uint64(within), true
}

func (r *round) nanosOf(place float64) float64 {
	rounds := math.Floor(place / r.requests)
	rest := place - float64(rounds*r.requests)
	i := sort.Search(len(r.parts), func(i int) bool { return r.parts[i].requests.to > rest })
	if i == len(r.parts) {
		return (rounds + 1) * r.nanos
	}
	return float64(rounds*r.nanos) + between(rest, r.parts[i].requests, r.parts[i].nanos)
}

func (r *round) placeOf(nanos float64) float64 {
	rounds := math.Floor(nanos / r.nanos)
	rest := nanos - float64(rounds*r.nanos)
	i := sort.Search(len(r.parts), func(i int) bool { return r.parts[i].nanos.to > rest })
	if i == len(r.parts) {
		return (rounds + 1) * r.requests
	}
	return float64(rounds*r.requests) + between(rest, r.parts[i].nanos, r.parts[i].requests)
}
