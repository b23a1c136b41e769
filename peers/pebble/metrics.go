// Metrics of clients: latencies by kind of operation, in each interval and in total, as in
// crates/measure/src/metrics.rs.
//
// Histograms have the buckets of HdrHistogram with three significant digits up to an hour, in
// nanoseconds, and quantiles by the rule of the crate `hdrhistogram`: the highest value of the first
// bucket that reaches the quantile's count. The same latencies give the same figures in Rust and here.
package main

import (
	"math"
	"math/bits"
	"slices"
	"sort"
)

// Kind is a kind of operation whose latencies are kept apart.
type Kind int

// The kinds, in the order of the laboratory's numbers.
const (
	Read Kind = iota
	Insert
	Update
	Delete
	Scan
	ReadModifyWrite
	Transacted
	kindCount
)

var kindNames = [kindCount]string{
	"reads", "inserts", "updates", "deletes", "scans", "read-modify-writes", "transactions",
}

// The kinds that are quoted together.
var (
	allKinds    = []Kind{Read, Insert, Update, Delete, Scan, ReadModifyWrite, Transacted}
	readGroup   = []Kind{Read}
	writeGroup  = []Kind{Insert, Update, Delete, ReadModifyWrite}
	scanGroup   = []Kind{Scan}
	transaction = []Kind{Transacted}
)

// The longest latency that a histogram holds: an hour.
const hour = 3_600_000_000_000

// The shape of histograms: 2^11 buckets of one unit, then 2^10 for each doubling up to an hour.
const (
	subBits     = 11
	subHalf     = 1 << (subBits - 1)
	bucketCount = 33 * subHalf
)

// Histogram counts latencies in nanoseconds.
type Histogram struct {
	counts []uint64
	total  uint64
	most   uint64
}

func newHistogram() *Histogram { return &Histogram{counts: make([]uint64, bucketCount)} }

// doubling is the number of times that a bucket of a value is wider than one unit, as a power of two.
func doubling(value uint64) int {
	return 64 - subBits - bits.LeadingZeros64(value|(1<<subBits-1))
}

// Record counts a latency.
func (h *Histogram) Record(nanos uint64) {
	shift := doubling(nanos)
	at := (shift+1)*subHalf + int(nanos>>shift) - subHalf
	if at >= bucketCount {
		nanos = hour
		shift = doubling(nanos)
		at = (shift+1)*subHalf + int(nanos>>shift) - subHalf
	}
	h.counts[at]++
	h.total++
	h.most = max(h.most, nanos)
}

// bucket is the least value of a bucket, and the number of its values.
func bucket(at int) (least, width uint64) {
	shift := at/subHalf - 1
	if shift < 0 {
		return uint64(at), 1
	}
	return uint64(at%subHalf+subHalf) << shift, 1 << shift
}

// Add adds all counts of another.
func (h *Histogram) Add(other *Histogram) {
	for i, count := range other.counts {
		h.counts[i] += count
	}
	h.total += other.total
	h.most = max(h.most, other.most)
}

// Max is the longest latency, to the precision of the histogram; 0 if there is none.
func (h *Histogram) Max() uint64 {
	if h.total == 0 {
		return 0
	}
	shift := doubling(h.most)
	return (h.most>>shift+1)<<shift - 1
}

// Quantile is the latency that this share of all does not exceed.
func (h *Histogram) Quantile(share float64) uint64 {
	wanted := max(saturated(math.Ceil(share*float64(h.total))), 1)
	sum := uint64(0)
	for at, count := range h.counts {
		if sum += count; sum >= wanted {
			least, width := bucket(at)
			return least + width - 1
		}
	}
	return 0
}

// Mean is the mean latency.
func (h *Histogram) Mean() (mean float64) {
	for at, count := range h.counts {
		if count > 0 {
			least, width := bucket(at)
			mean += float64(float64(least+width>>1) * float64(count) / float64(h.total))
		}
	}
	return mean
}

// Latencies are latencies by kind. A kind that never occurred takes no memory.
type Latencies [kindCount]*Histogram

// Record counts one latency.
func (l *Latencies) Record(kind Kind, nanos uint64) {
	if l[kind] == nil {
		l[kind] = newHistogram()
	}
	l[kind].Record(max(nanos, 1))
}

// Add adds all latencies of another.
func (l *Latencies) Add(other *Latencies) {
	for kind, from := range other {
		if from != nil && from.total > 0 {
			if l[kind] == nil {
				l[kind] = newHistogram()
			}
			l[kind].Add(from)
		}
	}
}

// Together is the histogram of some kinds; nil if none of them occurred. It is not to be changed.
func (l *Latencies) Together(kinds []Kind) (all *Histogram) {
	shared := true
	for _, kind := range kinds {
		switch one := l[kind]; {
		case one == nil || one.total == 0:
		case all == nil:
			all = one
		default:
			if shared {
				all = &Histogram{slices.Clone(all.counts), all.total, all.most}
				shared = false
			}
			all.Add(one)
		}
	}
	return all
}

// Count is the number of latencies of all kinds.
func (l *Latencies) Count() (count uint64) {
	for _, one := range l {
		if one != nil {
			count += one.total
		}
	}
	return count
}

// Quantile is that of all kinds together; zero when there is none.
func (l *Latencies) Quantile(share float64) uint64 {
	if all := l.Together(allKinds); all != nil {
		return all.Quantile(share)
	}
	return 0
}

// Max is the longest latency of all kinds.
func (l *Latencies) Max() (most uint64) {
	for _, one := range l {
		if one != nil {
			most = max(most, one.Max())
		}
	}
	return most
}

// Clear forgets all latencies.
func (l *Latencies) Clear() {
	for _, one := range l {
		if one != nil && one.total > 0 {
			clear(one.counts)
			one.total, one.most = 0, 0
		}
	}
}

// Interval has the counts of one client since the collector took the last ones.
type Interval struct {
	latencies Latencies
	// Reads that found nothing.
	misses uint64
	// Bytes of the keys and values that it wrote, and of the keys that it deleted.
	userBytes uint64
}

// Point is one interval of a run.
type Point struct {
	Seconds     float64 `json:"seconds"`
	Ops         uint64  `json:"ops"`
	ReadP99Us   float64 `json:"read_p99_us"`
	WriteP99Us  float64 `json:"write_p99_us"`
	MaxUs       float64 `json:"max_us"`
	Backlog     uint64  `json:"backlog"`
	ReadP50Us   float64 `json:"read_p50_us"`
	ReadP999Us  float64 `json:"read_p999_us"`
	WriteP50Us  float64 `json:"write_p50_us"`
	WriteP999Us float64 `json:"write_p999_us"`
	OtherP99Us  float64 `json:"other_p99_us"`
	AllP99Us    float64 `json:"all_p99_us"`
}

// NewPoint is the point of an interval's latencies.
func NewPoint(seconds float64, latencies *Latencies, backlog uint64) Point {
	of := func(kinds []Kind, share float64) float64 {
		if all := latencies.Together(kinds); all != nil {
			return float64(all.Quantile(share)) / 1e3
		}
		return 0
	}
	return Point{
		Seconds: seconds, Ops: latencies.Count(), Backlog: backlog,
		MaxUs:     float64(latencies.Max()) / 1e3,
		ReadP50Us: of(readGroup, 0.5), ReadP99Us: of(readGroup, 0.99), ReadP999Us: of(readGroup, 0.999),
		WriteP50Us: of(writeGroup, 0.5), WriteP99Us: of(writeGroup, 0.99),
		WriteP999Us: of(writeGroup, 0.999),
		OtherP99Us:  max(of(scanGroup, 0.99), of(transaction, 0.99)),
		AllP99Us:    of(allKinds, 0.99),
	}
}

// Throughput is operations per second.
func (p *Point) Throughput() float64 {
	if p.Seconds > 0 {
		return float64(p.Ops) / p.Seconds
	}
	return 0
}

// Stalls are the intervals without any completed operation.
type Stalls struct {
	Seconds float64 `json:"seconds"`
	Count   uint64  `json:"count"`
	Longest float64 `json:"longest"`
}

// Series has the points of a phase.
type Series []Point

func millis(seconds float64) float64 { return math.Round(seconds*1e3) / 1e3 }

// whole has the intervals of at least half the length of an interval, which is the median to a
// millisecond: a shorter last one says little.
func (s Series) whole() (all Series) {
	lengths := make([]float64, len(s))
	for i := range s {
		lengths[i] = s[i].Seconds
	}
	sort.Float64s(lengths)
	for i := range s {
		if s[i].Seconds >= millis(lengths[len(lengths)/2])/2 {
			all = append(all, s[i])
		}
	}
	return all
}

// Stalls are the intervals at zero throughput; a row of them is one stall.
func (s Series) Stalls() (stalls Stalls) {
	length, whole := 0.0, s.whole()
	for i := range whole {
		if whole[i].Ops > 0 {
			length = 0
			continue
		}
		if length == 0 {
			stalls.Count++
		}
		length += whole[i].Seconds
		stalls.Seconds += whole[i].Seconds
		stalls.Longest = max(stalls.Longest, length)
	}
	stalls.Seconds, stalls.Longest = millis(stalls.Seconds), millis(stalls.Longest)
	return stalls
}

// TailThroughput is the throughput that 99 % of the intervals reach; nil if there are none.
func (s Series) TailThroughput() *float64 {
	var all []float64
	for _, point := range s.whole() {
		all = append(all, point.Throughput())
	}
	if len(all) == 0 {
		return nil
	}
	sort.Sort(sort.Reverse(sort.Float64Slice(all)))
	return &all[(len(all)*99+99)/100-1]
}

// Percentiles are latencies of one kind in microseconds.
type Percentiles struct {
	Count   uint64  `json:"count"`
	MeanUs  float64 `json:"mean_us"`
	P50Us   float64 `json:"p50_us"`
	P90Us   float64 `json:"p90_us"`
	P99Us   float64 `json:"p99_us"`
	P999Us  float64 `json:"p999_us"`
	P9999Us float64 `json:"p9999_us"`
	MaxUs   float64 `json:"max_us"`
}

// PercentilesOf are those of a histogram in nanoseconds; nil if there is none.
func PercentilesOf(all *Histogram) *Percentiles {
	if all == nil || all.total == 0 {
		return nil
	}
	at := func(share float64) float64 { return float64(all.Quantile(share)) / 1e3 }
	return &Percentiles{
		Count: all.total, MeanUs: all.Mean() / 1e3, MaxUs: float64(all.Max()) / 1e3,
		P50Us: at(0.5), P90Us: at(0.9), P99Us: at(0.99), P999Us: at(0.999), P9999Us: at(0.9999),
	}
}
