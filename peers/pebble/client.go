// One client: it takes its operations, does them and counts them; as in
// crates/measure/src/driver/client.rs.
//
//  1. Closed loop: it does its share of the operations one after another.
//  2. Open loop: it does the requests that are due, and sleeps if none is. It reads the clock once per
//     operation: the completion of one decides about the next one.
package main

import "time"

type client struct {
	run       *run
	generator *Generator
	slot      *slot
	sleeper   *Sleeper
	key       []byte
	// The writes of a transaction, whose keys are kept for the next one.
	writes []Write
}

// done has the counts of an operation that is done.
type done struct {
	kind      Kind
	misses    uint64
	userBytes int
}

func newClient(run *run, generator *Generator, slot *slot) *client {
	return &client{run: run, generator: generator, slot: slot, key: run.data.NewKey()}
}

// work does all of its work; share operations in a closed loop.
func (c *client) work(share uint64) {
	defer c.run.leave()
	if c.run.sequence == nil {
		c.closed(share)
		return
	}
	c.sleeper = NewSleeper()
	defer c.sleeper.Close()
	c.open(c.run.sequence)
}

// over says whether the phase is over for this client.
func (c *client) over(now uint64) bool {
	return now >= c.run.end || c.run.stop.Load() || c.run.failed.Load()
}

func (c *client) closed(share uint64) {
	for range share {
		op := c.generator.Next()
		begun := c.run.clock.Now()
		if c.over(begun) {
			return
		}
		done, err := c.execute(op)
		if err != nil {
			c.run.fail(err)
			return
		}
		c.count(done, begun)
	}
}

func (c *client) open(sequence *Sequence) {
	clock := c.run.clock
	for now := clock.Now(); !c.over(now); {
		step, index, at := sequence.Next(now)
		switch step {
		case End:
			return
		case Sleep:
			if at > now {
				c.sleeper.Sleep(time.Duration(at - now))
			}
			now = clock.Now()
			continue
		}
		var done done
		var err error
		if c.run.trace != nil {
			done, err = c.replay(c.run.trace.Op(index))
		} else {
			done, err = c.execute(c.generator.Next())
		}
		if err != nil {
			c.run.fail(err)
			return
		}
		now = c.count(done, at)
	}
}

// count counts an operation that is done, with its latency from `since`, and returns the time of its
// completion.
func (c *client) count(done done, since uint64) uint64 {
	completed := c.run.clock.Now()
	c.slot.mu.Lock()
	interval := c.slot.interval
	interval.latencies.Record(done.kind, completed-min(completed, since))
	interval.misses += done.misses
	interval.userBytes += uint64(done.userBytes)
	c.slot.mu.Unlock()
	return completed
}

// execute does an operation of the workload.
func (c *client) execute(op Op) (done, error) {
	data := c.run.data
	switch {
	case op.Kind == Transacted:
		return c.transaction()
	case op.Key == OfRecord:
		data.Key(op.Record, c.key)
	case op.Key == OfNone:
		data.MissingKey(op.Record, c.key)
	default:
		data.KeyAt(op.Record, c.generator.records.Load(), c.key)
	}
	value := func() []byte { return data.Value(c.generator.random.Uint64()) }
	return c.act(op.Kind, c.key, op.Length, value)
}

// replay does an operation of a trace.
func (c *client) replay(op *TraceOp, key []byte) (done, error) {
	value := func() []byte { return c.run.values.ValueOf(op.length, c.generator.random.Uint64()) }
	return c.act(op.kind, key, op.length, value)
}

// act does an operation on a key. A scan has a length.
func (c *client) act(kind Kind, key []byte, length uint64, value func() []byte) (done, error) {
	done := done{kind: kind}
	if kind == Read || kind == ReadModifyWrite {
		found, err := c.run.store.Get(key)
		if err != nil {
			return done, err
		}
		if !found {
			done.misses = 1
		}
	}
	switch kind {
	case Insert, Update, ReadModifyWrite:
		value := value()
		done.userBytes = len(key) + len(value)
		return done, c.run.store.Put(key, value)
	case Delete:
		done.userBytes = len(key)
		return done, c.run.store.Delete(key)
	case Scan:
		count, err := c.run.store.Scan(key, int(max(length, 1)))
		if count == 0 && length > 0 {
			done.misses = 1
		}
		return done, err
	}
	return done, nil
}

// transaction does the reads, then the scans, then all writes as one batch.
func (c *client) transaction() (done, error) {
	store, data, asked := c.run.store, c.run.data, &c.generator.workload.Transaction
	done := done{kind: Transacted}
	for range asked.Reads {
		data.Key(c.generator.Pick(), c.key)
		found, err := store.Get(c.key)
		if err != nil {
			return done, err
		}
		if !found {
			done.misses++
		}
	}
	for range asked.Scans {
		data.Key(c.generator.Pick(), c.key)
		count, err := store.Scan(c.key, int(asked.ScanLength))
		if err != nil {
			return done, err
		}
		if count == 0 {
			done.misses++
		}
	}
	count := int(asked.Updates + 2*asked.Replaces)
	for len(c.writes) < count {
		c.writes = append(c.writes, Write{Key: data.NewKey()})
	}
	if count == 0 {
		return done, nil
	}
	writes := c.writes[:count]
	for at := range asked.Updates {
		data.Key(c.generator.Pick(), writes[at].Key)
		writes[at].Value = data.Value(c.generator.random.Uint64())
	}
	for at := int(asked.Updates); at < count; at += 2 {
		record := c.generator.Pick()
		data.Key(record, writes[at].Key)
		data.Key(record, writes[at+1].Key)
		writes[at].Delete = true
		writes[at+1].Value = data.Value(c.generator.random.Uint64())
	}
	for at := range writes {
		done.userBytes += len(writes[at].Key) + len(writes[at].Value)
	}
	return done, store.Write(writes)
}
