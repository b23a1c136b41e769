// Workloads: shares of operations over a distribution of records. The same workload, seed and client
// give the same operations as the laboratory's Rust programs: see crates/measure/src/workload, whose
// algorithms these are.
//
//  1. A random number chooses the kind of operation by the shares, another one the record.
//  2. Inserts take the next free number from the counter that all clients share.
//  3. Records are chosen uniformly, by a zipfian distribution that a hash scrambles, from the newest
//     back, or from hot ranges of keys.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"sort"
	"sync/atomic"
)

// Workload is a named mix of operations. Shares are percentages and sum to 100.
type Workload struct {
	Name             string      `json:"name"`
	Reads            float64     `json:"reads"`
	MissingReads     float64     `json:"missing_reads"`
	Updates          float64     `json:"updates"`
	Inserts          float64     `json:"inserts"`
	Deletes          float64     `json:"deletes"`
	Scans            float64     `json:"scans"`
	ReadModifyWrites float64     `json:"read_modify_writes"`
	Transactions     float64     `json:"transactions"`
	Transaction      Transaction `json:"transaction"`
	Choice           Choice      `json:"choice"`
	Scan             Sizes       `json:"scan"`
	// Whether the first client does only the writing operations and the others only the reading ones.
	Apart bool `json:"apart"`
}

// UnmarshalJSON gives what is left out its default.
func (w *Workload) UnmarshalJSON(text []byte) error {
	type plain Workload
	read := plain{Choice: Choice{kind: "uniform"}, Scan: defaultSizes()}
	err := json.Unmarshal(text, &read)
	*w = Workload(read)
	return err
}

// Transaction is a set of operations that count as one.
type Transaction struct {
	Reads      uint64 `json:"reads"`
	Scans      uint64 `json:"scans"`
	ScanLength uint64 `json:"scan_length"`
	Updates    uint64 `json:"updates"`
	// Deletes, each with an insert of the same record.
	Replaces uint64 `json:"replaces"`
}

// Choice is a distribution of records: "uniform", "zipfian", "latest", "hot_ranges" or "in_order".
type Choice struct {
	kind  string
	theta float64
	hot   HotRanges
}

// HotRanges are ranges of equal numbers of keys, some of them hot. The probability of the x-th hottest
// is proportional to a·e^(b·x) + c·e^(d·x); within a range the ranks up to r have the probability
// a·r^b together.
type HotRanges struct {
	Ranges uint32     `json:"ranges"`
	Heat   [4]float64 `json:"heat"`
	Ranks  [2]float64 `json:"ranks"`
}

// UnmarshalJSON reads and checks it.
func (c *Choice) UnmarshalJSON(text []byte) error {
	var tagged Tagged
	if err := json.Unmarshal(text, &tagged); err != nil {
		return err
	}
	*c = Choice{kind: tagged.Name}
	switch c.kind {
	case "uniform", "in_order":
		return nil
	case "zipfian", "latest":
		return json.Unmarshal(tagged.Content, &c.theta)
	case "hot_ranges":
		return json.Unmarshal(tagged.Content, &c.hot)
	}
	return fmt.Errorf("the choice of records %q is not known to this program", c.kind)
}

// cumulative gives the cumulative shares of all ranges in key order. The order has no seed, so it is
// the same in every run.
func (h *HotRanges) cumulative() []float64 {
	shares, total := make([]float64, h.Ranges), 0.0
	for i := range shares {
		x := float64(i + 1)
		hot := float64(h.Heat[0] * math.Exp(h.Heat[1]*x))
		shares[i] = hot + float64(h.Heat[2]*math.Exp(h.Heat[3]*x))
		total += shares[i]
	}
	for i := range shares {
		shares[i] /= total
	}
	for i := len(shares) - 1; i >= 1; i-- {
		other := mix(uint64(i)) % uint64(i+1)
		shares[i], shares[other] = shares[other], shares[i]
	}
	sum := 0.0
	for i := range shares {
		sum += shares[i]
		shares[i] = sum
	}
	return shares
}

// Picker picks records.
type Picker struct {
	choice     Choice
	zipf       Zipf
	start      uint64
	sequential bool
	heat       []float64
}

// NewPicker is a picker for this number of records at the start of the run.
func NewPicker(choice Choice, records uint64, sequential bool) *Picker {
	picker := &Picker{choice: choice, start: max(records, 1), sequential: sequential}
	switch choice.kind {
	case "zipfian", "latest":
		picker.zipf = NewZipf(picker.start, choice.theta)
	case "hot_ranges":
		picker.heat = choice.hot.cumulative()
	}
	return picker
}

// Pick is one of count records.
func (p *Picker) Pick(random *Random, count uint64) uint64 {
	switch p.choice.kind {
	case "zipfian":
		return mix(p.rank(random)^0x5851_f42d_4c95_7f2d) % p.start
	case "latest":
		newest := max(count, 1) - 1
		return newest - min(newest, p.rank(random))
	case "hot_ranges":
		return p.inRange(random)
	}
	return random.Below(max(count, 1))
}

// rank is a rank from 0.
func (p *Picker) rank(random *Random) uint64 {
	return min(max(saturated(p.zipf.Rank(random)), 1), p.start) - 1
}

// inRange is a record of a hot range. With hashed keys records are tried until one is in the range.
func (p *Picker) inRange(random *Random) uint64 {
	heat := random.Float64()
	found := sort.Search(len(p.heat), func(i int) bool { return p.heat[i] > heat })
	within := uint64(min(found, len(p.heat)-1))
	ranks := p.choice.hot.Ranks
	rank := saturated(math.Ceil(math.Pow(random.Float64()/ranks[0], 1/ranks[1])))
	hash, ranges := mix(rank^mix(within)), uint64(len(p.heat))
	if p.sequential {
		size := max(p.start/ranges, 1)
		return min(within*size+hash%size, p.start-1)
	}
	// On average one of `ranges` records is in the range; maybe none of very few.
	for attempt := range 64 * ranges {
		record := mix(hash+attempt) % p.start
		if in, _ := bits.Mul64(mix(record), ranges); in == within {
			return record
		}
	}
	return hash % p.start
}

// Op is one operation of a workload. A transaction chooses its own keys.
type Op struct {
	Kind   Kind
	Key    KeyKind
	Record uint64
	// The number of records that a scan reads.
	Length uint64
}

// KeyKind says which key the number of an operation stands for.
type KeyKind int

const (
	// OfRecord is the key of a record.
	OfRecord KeyKind = iota
	// OfNone is a key that no record has, chosen by a record's number.
	OfNone
	// OfShare is the key that has this share (of 2^64) of the records below it.
	OfShare
)

// The place of the reads of keys that no record has among the shares, and the number of reading kinds,
// which come first there.
const (
	missingReads = 1
	readingKinds = 3
)

// The kinds of the shares of a workload.
var shareKinds = [8]Kind{
	Read, Read, Scan, Update, Insert, Delete, ReadModifyWrite, Transacted,
}

func (w *Workload) shares() [8]float64 {
	return [8]float64{
		w.Reads, w.MissingReads, w.Scans, w.Updates, w.Inserts, w.Deletes, w.ReadModifyWrites,
		w.Transactions,
	}
}

// Generator gives the operations of one client.
type Generator struct {
	random   *Random
	limits   [8]float64
	workload *Workload
	// Where the next scan in order begins, in shares of 2^64.
	place   uint64
	picker  *Picker
	records *atomic.Uint64
}

// NewGenerator gives the operations of client number `client` of `clients`.
func NewGenerator(
	workload *Workload, data *Data, records *atomic.Uint64, seed, client, clients uint64,
) *Generator {
	generator := &Generator{
		random: NewRandom(mix(seed ^ mix(client))), workload: workload, records: records,
		picker: NewPicker(workload.Choice, records.Load(), data.shape.sequential()),
	}
	shares := workload.shares()
	if workload.Apart && clients > 1 {
		if client == 0 {
			clear(shares[:readingKinds])
		} else {
			clear(shares[readingKinds:])
		}
	}
	total, sum := 0.0, 0.0
	for _, share := range shares {
		total += share
	}
	for i, share := range shares {
		sum += share / total
		generator.limits[i] = sum
	}
	if workload.Choice.kind == "in_order" {
		generator.place = generator.random.Uint64()
	}
	return generator
}

// Next is the next operation.
func (g *Generator) Next() Op {
	share, index := g.random.Float64(), 0
	for index < len(g.limits)-1 && share >= g.limits[index] {
		index++
	}
	op := Op{Kind: shareKinds[index]}
	if op.Kind == Scan {
		op.Length = g.workload.Scan.At(g.random.Float64())
	}
	switch {
	case op.Kind == Scan && g.workload.Choice.kind == "in_order":
		op.Key, op.Record = OfShare, g.step(op.Length)
	case op.Kind == Insert:
		op.Record = g.records.Add(1) - 1
	case op.Kind == Transacted:
	case index == missingReads:
		op.Key, op.Record = OfNone, g.Pick()
	default:
		op.Record = g.Pick()
	}
	return op
}

// step is where the next scan in order begins: its first key follows the last one of the scan before.
func (g *Generator) step(length uint64) uint64 {
	place := g.place
	quotient, _ := bits.Div64(length%max(g.records.Load(), 1), 0, max(g.records.Load(), 1))
	g.place += quotient
	return place
}

// Pick is an existing record, chosen as the workload says.
func (g *Generator) Pick() uint64 { return g.picker.Pick(g.random, g.records.Load()) }
