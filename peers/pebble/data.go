// Keys and values of numbered records, and distributions of sizes. They are those of the laboratory,
// byte for byte: crates/measure/src/workload/data.rs and sizes.rs say why they are as they are.
//
// A key of 24 bytes is "user" and a number with twenty digits. Longer keys are padded; shorter ones
// start with the number itself. Values are slices of a pool of random bytes.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
)

// The shortest key.
const keySizeMin = 8

// The size of the pool that values are cut from, beyond one value.
const pool = 1 << 20

// The bytes of the pool that repeat among themselves.
const piece = 100

// Records have smaller numbers. Other numbers belong to keys that do not exist.
const missing = 1 << 63

// Points that the mean of a distribution of sizes is taken from.
const meanPoints = 1 << 14

// Tagged is a value of an enumeration in the JSON of the laboratory: a name alone, or an object of the
// name and a content.
type Tagged struct {
	Name    string
	Content json.RawMessage
}

// UnmarshalJSON takes both forms.
func (t *Tagged) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &t.Name) == nil {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	if len(object) != 1 {
		return fmt.Errorf("%s should have one name", text)
	}
	for t.Name, t.Content = range object {
	}
	return nil
}

// MarshalJSON gives what was read.
func (t Tagged) MarshalJSON() ([]byte, error) {
	if t.Content == nil {
		return json.Marshal(t.Name)
	}
	return json.Marshal(map[string]json.RawMessage{t.Name: t.Content})
}

// Pareto is a generalised Pareto distribution that begins at zero. Sizes below Min become Min; sizes
// above Max wrap around, as in db_bench.
type Pareto struct {
	K     float64 `json:"k"`
	Sigma float64 `json:"sigma"`
	Min   uint64  `json:"min"`
	Max   uint64  `json:"max"`
}

// Sizes is a distribution of sizes: "fixed", "uniform", "halves" or "pareto".
type Sizes struct {
	kind   string
	bounds []uint64
	pareto Pareto
}

// defaultSizes are those of the scans of YCSB.
func defaultSizes() Sizes { return Sizes{kind: "uniform", bounds: []uint64{1, 100}} }

// UnmarshalJSON reads and checks it.
func (s *Sizes) UnmarshalJSON(text []byte) error {
	var tagged Tagged
	if err := json.Unmarshal(text, &tagged); err != nil {
		return err
	}
	*s = Sizes{kind: tagged.Name}
	counts := map[string]int{"uniform": 2, "halves": 3}
	switch s.kind {
	case "fixed":
		s.bounds = make([]uint64, 1)
		return json.Unmarshal(tagged.Content, &s.bounds[0])
	case "pareto":
		return json.Unmarshal(tagged.Content, &s.pareto)
	case "uniform", "halves":
		if err := json.Unmarshal(tagged.Content, &s.bounds); err != nil {
			return err
		}
		if len(s.bounds) != counts[s.kind] {
			return fmt.Errorf("%s has %d numbers", s.kind, len(s.bounds))
		}
		return nil
	}
	return fmt.Errorf("sizes %q are not known to this program", s.kind)
}

// At is the size that has a share of all sizes below it.
func (s *Sizes) At(share float64) uint64 {
	within := func(least, most uint64, share float64) uint64 {
		return least + saturated(share*float64(most-least+1))
	}
	switch s.kind {
	case "fixed":
		return s.bounds[0]
	case "uniform":
		return min(within(s.bounds[0], s.bounds[1], share), s.bounds[1])
	case "halves":
		least, median, most := s.bounds[0], s.bounds[1], s.bounds[2]
		if share < 0.5 {
			return min(within(least, median-1, share*2), median)
		}
		return min(within(median, most, float64(share*2)-1), most)
	}
	p := &s.pareto
	size := saturated(math.Ceil(p.Sigma * (math.Pow(1-share, -p.K) - 1) / p.K))
	if size > p.Max {
		size %= p.Max
	}
	return max(size, p.Min)
}

// Max is the longest size.
func (s *Sizes) Max() uint64 {
	if s.kind == "pareto" {
		return s.pareto.Max
	}
	return s.bounds[len(s.bounds)-1]
}

// Mean is the mean size.
func (s *Sizes) Mean() float64 {
	if s.kind == "fixed" {
		return float64(s.bounds[0])
	}
	sum := 0.0
	for i := range meanPoints {
		sum += float64(s.At((float64(i) + 0.5) / meanPoints))
	}
	return sum / meanPoints
}

// Shape is the shape of records.
type Shape struct {
	KeySize uint64 `json:"key_size"`
	Values  Sizes  `json:"values"`
	// "hashed" (the default): the orders of insertion and of keys are independent; "sequential": they
	// are the same.
	Order string `json:"order"`
	// The share of a value's bytes that repeat earlier ones, in percent: 0 to 99.
	Compressible uint8 `json:"compressible"`
}

func (s *Shape) sequential() bool { return s.Order == "sequential" }

// Check refuses what has no records.
func (s *Shape) Check() error {
	switch {
	case s.KeySize < keySizeMin:
		return fmt.Errorf("keys of %d bytes cannot all differ", s.KeySize)
	case s.Compressible >= piece:
		return fmt.Errorf("%d %% of a value cannot repeat: at most 99 %%", s.Compressible)
	case s.Order != "" && s.Order != "hashed" && !s.sequential():
		return fmt.Errorf("the order of keys %q is not known to this program", s.Order)
	}
	return nil
}

// Data makes keys and values.
type Data struct {
	shape Shape
	pool  []byte
}

// NewData makes the pool of values of a seed.
func NewData(shape Shape, seed uint64) *Data {
	data := &Data{shape: shape, pool: make([]byte, pool+shape.Values.Max())}
	NewRandom(seed).Fill(data.pool)
	fresh := piece - int(shape.Compressible)
	for start := 0; start < len(data.pool); start += piece {
		for at := start + fresh; at < min(start+piece, len(data.pool)); at++ {
			data.pool[at] = data.pool[at-fresh]
		}
	}
	return data
}

// Key puts the key of a record into key, which has the right length.
func (d *Data) Key(record uint64, key []byte) {
	if d.shape.sequential() {
		writeKey(record<<1, key)
	} else {
		writeKey(mix(record), key)
	}
}

// MissingKey puts a key that no record has into key, chosen by the number of a record.
func (d *Data) MissingKey(record uint64, key []byte) {
	if d.shape.sequential() {
		writeKey(record<<1|1, key)
	} else {
		writeKey(mix(record|missing), key)
	}
}

// KeyAt puts a key into key so that this share (of 2^64) of the records lies below it.
func (d *Data) KeyAt(share, records uint64, key []byte) {
	if d.shape.sequential() {
		share, _ = bits.Mul64(share, records)
		share *= 2
	}
	writeKey(share, key)
}

// NewKey is a key with the length of all keys.
func (d *Data) NewKey() []byte { return make([]byte, d.shape.KeySize) }

func writeKey(number uint64, key []byte) {
	if len(key) < 24 {
		for at := range key {
			key[at] = '0'
		}
		binary.BigEndian.PutUint64(key, number)
		return
	}
	copy(key, "user")
	for digit := 23; digit >= 4; digit-- {
		key[digit] = byte('0' + number%10)
		number /= 10
	}
	for at := 24; at < len(key); at++ {
		key[at] = '0'
	}
}

// Value is a value chosen by a random number. The upper half chooses its length, the lower its bytes.
func (d *Data) Value(random uint64) []byte {
	size := uint64(0)
	if d.shape.Values.kind == "fixed" {
		size = d.shape.Values.bounds[0]
	} else {
		size = d.shape.Values.At(float64(random>>32) / (1 << 32))
	}
	return d.ValueOf(size, random)
}

// ValueOf is a value of a given length, whose bytes a random number chooses.
func (d *Data) ValueOf(size, random uint64) []byte {
	start := uint64(uint32(random)) % pool
	if d.shape.Compressible > 0 {
		start -= start % piece
	}
	return d.pool[start : start+size]
}
