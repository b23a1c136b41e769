// The specification of a run, as the laboratory writes it (crates/measure/src/spec.rs), as far as this
// program uses it. Fields that it does not know are left alone; a step, an arrival or a distribution
// that it does not know is refused.
package main

import (
	"encoding/json"
	"fmt"
)

// RunSpec is the specification of one run.
type RunSpec struct {
	Store StoreSpec `json:"store"`
	Data  struct {
		Pairs uint64 `json:"pairs"`
		Shape Shape  `json:"shape"`
	} `json:"data"`
	Load    *LoadSpec `json:"load"`
	Steps   []Step    `json:"steps"`
	Threads int       `json:"threads"`
	Seed    uint64    `json:"seed"`
}

// StoreSpec is a store and its setup.
type StoreSpec struct {
	Kind    string  `json:"kind"`
	Config  string  `json:"config"`
	Options Options `json:"options"`
	// Bytes of the block cache, besides the memtables.
	Cache   uint64 `json:"cache"`
	Regions uint64 `json:"regions"`
}

// Options are those of our engine that Pebble has, too.
type Options struct {
	Policy struct {
		Shape string `json:"shape"`
		Tree  struct {
			MemtableBytes uint64 `json:"memtable_bytes"`
			MemtableCount uint64 `json:"memtable_count"`
			L1Bytes       uint64 `json:"l1_bytes"`
			L0Trigger     uint64 `json:"l0_trigger"`
		} `json:"tree"`
	} `json:"policy"`
	Workers     int      `json:"workers"`
	BlockBytes  uint64   `json:"block_bytes"`
	BitsPerKey  int      `json:"bits_per_key"`
	Compression []string `json:"compression"`
	Durability  string   `json:"durability"`
}

// LoadSpec says how the data was loaded before the run.
type LoadSpec struct {
	Options Options `json:"options"`
	Settle  float64 `json:"settle"`
}

// Step is one step of a run: exactly one of these.
type Step struct {
	phase  *PhaseSpec
	settle *float64
	reopen *Reopen
}

// Reopen opens the store again with something changed.
type Reopen struct {
	change struct {
		L0Trigger *uint64 `json:"l0_trigger"`
		Memtable  *uint64 `json:"memtable"`
	}
	seconds float64
}

// UnmarshalJSON refuses what is not known.
func (s *Step) UnmarshalJSON(text []byte) error {
	var tagged Tagged
	if err := json.Unmarshal(text, &tagged); err != nil {
		return err
	}
	switch tagged.Name {
	case "phase":
		return json.Unmarshal(tagged.Content, &s.phase)
	case "settle":
		return json.Unmarshal(tagged.Content, &s.settle)
	case "reopen":
		s.reopen = &Reopen{}
		return json.Unmarshal(tagged.Content, &[]any{&s.reopen.change, &s.reopen.seconds})
	}
	return fmt.Errorf("the step %q is not known to this program", tagged.Name)
}

// PhaseSpec is a step of client operations.
type PhaseSpec struct {
	Name     string   `json:"name"`
	Workload Workload `json:"workload"`
	Offered  Offered  `json:"offered"`
	Ops      *uint64  `json:"ops"`
	Seconds  *float64 `json:"seconds"`
	Interval float64  `json:"interval"`
}

// Offered says how requests are offered: "as", "of_maximum", "pattern_of_maximum" or "sustainable".
type Offered struct {
	kind     string
	arrivals Arrivals
	pattern  Pattern
	// Shares of the throughput of the latest closed-loop phase.
	low, high float64
}

// UnmarshalJSON refuses what is not known.
func (o *Offered) UnmarshalJSON(text []byte) error {
	var tagged Tagged
	if err := json.Unmarshal(text, &tagged); err != nil {
		return err
	}
	*o = Offered{kind: tagged.Name}
	switch o.kind {
	case "as":
		return json.Unmarshal(tagged.Content, &o.arrivals)
	case "of_maximum":
		return json.Unmarshal(tagged.Content, &o.low)
	case "pattern_of_maximum":
		return json.Unmarshal(tagged.Content, &[]any{&o.low, &o.pattern})
	case "sustainable":
		return json.Unmarshal(tagged.Content, &[]any{&o.low, &o.high})
	}
	return fmt.Errorf("requests offered %q are not known to this program", o.kind)
}

// ReadSpec reads a specification and checks what would stop a run in its middle.
func ReadSpec(text []byte) (*RunSpec, error) {
	spec := &RunSpec{}
	if err := json.Unmarshal(text, spec); err != nil {
		return nil, fmt.Errorf("standard input has no run to do: %w", err)
	}
	if spec.Threads < 1 {
		return nil, fmt.Errorf("a run with %d clients does nothing", spec.Threads)
	}
	if err := spec.Data.Shape.Check(); err != nil {
		return nil, err
	}
	for _, step := range spec.Steps {
		if step.phase != nil && step.phase.Offered.kind == "as" {
			if err := step.phase.Offered.arrivals.Check(); err != nil {
				return nil, fmt.Errorf("%s: %w", step.phase.Name, err)
			}
		}
	}
	return spec, nil
}

// Splits are the first keys of all regions but the first one. They divide the keys evenly.
func (s *RunSpec) Splits(data *Data) [][]byte {
	splits := [][]byte{}
	regions := max(s.Store.Regions, 1)
	for region := range regions - 1 {
		key := data.NewKey()
		data.KeyAt(shareOf(region+1, regions), s.Data.Pairs, key)
		splits = append(splits, key)
	}
	return splits
}
