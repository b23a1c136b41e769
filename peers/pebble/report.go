// The report of a run: the fields of crates/measure/src/report, which the laboratory reads. Fields that
// only our engine has are left out; those of the machinery that starts a run (its command, the commit,
// limits) are filled in there.
package main

import "encoding/json"

// Answer is what a run ends with.
type Answer struct {
	Report  *Report `json:"report"`
	Failure *string `json:"failure"`
}

// Report is the report of a run.
type Report struct {
	Method        Method         `json:"method"`
	Phases        []*PhaseReport `json:"phases"`
	Settled       *float64       `json:"settled"`
	Sustainable   *float64       `json:"sustainable"`
	Amplification Amplification  `json:"amplification"`
	Store         Stats          `json:"store"`
	Records       uint64         `json:"records"`
	PeakMemory    *uint64        `json:"peak_memory"`
	Data          string         `json:"data"`
}

// Method says how the figures were measured.
type Method struct {
	Version   string      `json:"version"`
	Store     string      `json:"store"`
	Profile   string      `json:"profile"`
	Options   [][2]string `json:"options"`
	Machine   Machine     `json:"machine"`
	Pairs     uint64      `json:"pairs"`
	KeySize   uint64      `json:"key_size"`
	ValueSize uint64      `json:"value_size"`
	// The share of a value's bytes that repeat earlier ones, in percent.
	Compressible uint8           `json:"compressible"`
	Threads      int             `json:"threads"`
	Load         string          `json:"load"`
	Seed         uint64          `json:"seed"`
	Floor        Floor           `json:"floor"`
	Spec         json.RawMessage `json:"spec"`
}

// Amplification has bytes moved for each byte that clients wrote.
type Amplification struct {
	UserBytes    uint64  `json:"user_bytes"`
	StoreRead    uint64  `json:"store_read"`
	StoreWritten uint64  `json:"store_written"`
	Device       *Device `json:"device"`
	Rounding     uint64  `json:"rounding"`
	// The most that the page cache may have served: all reads go through it.
	Cached uint64 `json:"cached"`
}

func newAmplification(userBytes uint64, store *Stats, device *Device) Amplification {
	found := Amplification{
		UserBytes: userBytes, Device: device,
		StoreRead: store.CompactionRead, Cached: store.CompactionRead,
		StoreWritten: store.WalBytes + store.FlushBytes + store.CompactionWritten,
	}
	if device != nil {
		found.Rounding = device.Program
	}
	return found
}

// NamedPercentiles are percentiles of a kind of operation, as a pair in JSON.
type NamedPercentiles struct {
	name  string
	found *Percentiles
}

// MarshalJSON gives a pair.
func (n NamedPercentiles) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{n.name, n.found})
}

// PhaseReport is the report of one phase.
type PhaseReport struct {
	Name           string             `json:"name"`
	Arrivals       Arrivals           `json:"arrivals"`
	Stopped        bool               `json:"stopped"`
	Seconds        float64            `json:"seconds"`
	Ops            uint64             `json:"ops"`
	Throughput     float64            `json:"throughput"`
	TailThroughput *float64           `json:"tail_throughput"`
	All            *Percentiles       `json:"all"`
	Reads          *Percentiles       `json:"reads"`
	Writes         *Percentiles       `json:"writes"`
	Scans          *Percentiles       `json:"scans"`
	Kinds          []NamedPercentiles `json:"kinds"`
	Misses         uint64             `json:"misses"`
	Unserved       uint64             `json:"unserved"`
	Stalls         Stalls             `json:"stalls"`
	CPUUsPerOp     float64            `json:"cpu_us_per_op"`
	Amplification  Amplification      `json:"amplification"`
	Store          Stats              `json:"store"`
	Series         Series             `json:"series"`
	Floor          Floor              `json:"floor"`
	Settled        *Amplification     `json:"settled"`
	Paid           *Paid              `json:"paid"`
	Samples        []Sample           `json:"samples"`
	Jobs           []Job              `json:"jobs"`
}

// Paid is a phase together with the background work that it left. Phases that follow each other without
// waiting for that work count together, and the last one reports it.
type Paid struct {
	Ops      uint64  `json:"ops"`
	Seconds  float64 `json:"seconds"`
	CPUNanos uint64  `json:"cpu_nanos"`
}

// Sample is a sample of the store and the process during a phase.
type Sample struct {
	At       float64  `json:"at"`
	Levels   []uint64 `json:"levels"`
	L0Runs   uint64   `json:"l0_runs"`
	Memory   uint64   `json:"memory"`
	CPUNanos uint64   `json:"cpu_nanos"`
	Device   *Device  `json:"device"`
	Pending  uint64   `json:"pending"`
}

// newPhaseReport is the report of an outcome, with the store's counters at its begin and end.
func newPhaseReport(phase *Phase, outcome *Outcome, stopped bool, store Stats) *PhaseReport {
	latencies, ops := &outcome.latencies, outcome.latencies.Count()
	group := func(kinds []Kind) *Percentiles { return PercentilesOf(latencies.Together(kinds)) }
	report := &PhaseReport{
		Arrivals: phase.arrivals, Stopped: stopped, Seconds: outcome.seconds, Ops: ops,
		TailThroughput: outcome.series.TailThroughput(), All: group(allKinds),
		Reads: group(readGroup), Writes: group(writeGroup), Scans: group(scanGroup),
		Kinds: []NamedPercentiles{}, Misses: outcome.misses, Unserved: outcome.unserved,
		Stalls:        outcome.series.Stalls(),
		CPUUsPerOp:    float64(outcome.usage.cpuNanos) / 1e3 / float64(max(ops, 1)),
		Amplification: newAmplification(outcome.userBytes, &store, outcome.usage.device),
		Store:         store, Series: outcome.series,
	}
	if outcome.seconds > 0 {
		report.Throughput = float64(ops) / outcome.seconds
	}
	for kind, histogram := range latencies {
		if found := PercentilesOf(histogram); found != nil {
			report.Kinds = append(report.Kinds, NamedPercentiles{kindNames[kind], found})
		}
	}
	return report
}
