// A recorded trace as a workload: the same operations at the same times. The file is read whole; its
// format is in docs/format.md.
//
// Values are random bytes of the recorded lengths. What other stores do not have is replaced: a merge
// by a put of the operand's length, a range delete by a delete of its lower bound. All trees of the
// recorded store become one.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sort"
)

const (
	traceMagic       = "vLSM-trc"
	traceVersion     = 1
	traceHeaderLen   = 24
	traceChunkHeader = 12
	// The longest value that a store takes.
	valueMax = 1 << 30
	// The latest time of an operation, in microseconds: what is later came from a time before zero.
	timeMax = 1 << 62
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// TraceOp is an operation on a key.
type TraceOp struct {
	at     uint64
	kind   Kind
	length uint64
	key    []byte
}

// Trace has the operations of a trace, in the order of their times.
type Trace struct {
	ops     []TraceOp
	times   []uint64
	longest uint64
}

// OpenTrace reads a trace.
func OpenTrace(path string) (*Trace, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the trace: %w", err)
	}
	trace := &Trace{}
	if err := trace.read(file); err != nil {
		return nil, fmt.Errorf("the trace %s: %w", path, err)
	}
	// The records are not sorted: scans are recorded at their end, and threads overlap.
	sort.SliceStable(trace.ops, func(a, b int) bool { return trace.ops[a].at < trace.ops[b].at })
	for at := range trace.ops {
		trace.times = append(trace.times, trace.ops[at].at)
	}
	return trace, nil
}

// Op is the operation of this index, with its key.
func (t *Trace) Op(index uint64) (*TraceOp, []byte) { return &t.ops[index], t.ops[index].key }

// Data is the source of its values.
func (t *Trace) Data(seed uint64) *Data {
	values := Sizes{kind: "fixed", bounds: []uint64{t.longest}}
	return NewData(Shape{KeySize: keySizeMin, Values: values}, seed)
}

func (t *Trace) read(file []byte) error {
	if len(file) < traceHeaderLen || string(file[:len(traceMagic)]) != traceMagic {
		return errors.New("it is not a trace of vLSM")
	}
	if version := binary.LittleEndian.Uint32(file[8:]); version != traceVersion {
		return fmt.Errorf("its version is %d; this program knows %d", version, traceVersion)
	}
	sum := crc32.Checksum(file[:traceHeaderLen-4], castagnoli)
	if sum != binary.LittleEndian.Uint32(file[traceHeaderLen-4:]) {
		return errors.New("the checksum of the header is wrong")
	}
	for offset := traceHeaderLen; ; {
		rest := file[offset:]
		if len(rest) < traceChunkHeader {
			return errors.New("it ends too early: it was cut off, or never ended")
		}
		length := uint64(binary.LittleEndian.Uint32(rest))
		count := binary.LittleEndian.Uint32(rest[4:])
		if uint64(len(rest)-traceChunkHeader) < length {
			return errors.New("it ends too early: it was cut off, or never ended")
		}
		payload := rest[traceChunkHeader : traceChunkHeader+length]
		place := binary.LittleEndian.AppendUint64(nil, uint64(offset))
		sum := crc32.Checksum(place, castagnoli)
		sum = crc32.Update(crc32.Update(sum, castagnoli, rest[:8]), castagnoli, payload)
		if sum != binary.LittleEndian.Uint32(rest[8:]) {
			return errors.New("the checksum of a chunk is wrong")
		}
		offset += traceChunkHeader + len(payload)
		if count == 0 {
			return t.end(payload, len(file)-offset)
		}
		if err := t.chunk(payload, count); err != nil {
			return err
		}
	}
}

// end checks the number of operations at the end, which nothing follows.
func (t *Trace) end(payload []byte, rest int) error {
	if len(payload) != 8 || binary.LittleEndian.Uint64(payload) != uint64(len(t.ops)) || rest != 0 {
		return errors.New("it does not have as many operations as its end says")
	}
	return nil
}

func (t *Trace) chunk(payload []byte, count uint32) error {
	reader := fields{rest: payload}
	before, last := len(t.ops), uint64(0)
	for len(reader.rest) > 0 && !reader.bad {
		op := TraceOp{}
		number := reader.byte()
		zigzag := reader.varint()
		last += zigzag>>1 ^ -(zigzag & 1)
		if op.at = last; last > timeMax {
			return errors.New("a time is impossible")
		}
		reader.varint() // The tree.
		op.key = reader.bytes()
		switch number {
		case 0:
			op.kind = Read
		case 1, 3:
			op.kind, op.length = Update, reader.varint()
		case 2:
			op.kind = Delete
		case 4:
			op.kind, op.length = Scan, reader.varint()
		case 5:
			op.kind = Delete
			reader.bytes()
		default:
			return errors.New("an operation is of an unknown kind")
		}
		if op.kind == Update {
			if op.length > valueMax {
				return fmt.Errorf("a value of %d bytes is too long", op.length)
			}
			t.longest = max(t.longest, op.length)
		}
		t.ops = append(t.ops, op)
	}
	if reader.bad || uint64(len(t.ops)-before) != uint64(count) {
		return errors.New("a chunk does not have as many operations as it says")
	}
	return nil
}

// fields reads the fields of operations; bad says that there were too few bytes.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) byte() byte {
	if len(f.rest) == 0 {
		f.bad = true
		return 0
	}
	first := f.rest[0]
	f.rest = f.rest[1:]
	return first
}

func (f *fields) varint() uint64 {
	number, length := binary.Uvarint(f.rest)
	if length <= 0 {
		f.bad, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[length:]
	return number
}

func (f *fields) bytes() []byte {
	length := f.varint()
	if length > uint64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return nil
	}
	taken := f.rest[:length]
	f.rest = f.rest[length:]
	return taken
}
