// The benchmark's keys are the laboratory's: these are the first of `peers keys --count 4`.
package main

import "testing"

func TestKeysAreTheLaboratorys(t *testing.T) {
	for record, wanted := range []string{
		"user16294208416658607535",
		"user10451216379200822465",
		"user10905525725756348110",
		"user02092789425003139053",
	} {
		key := []byte("user00000000000000000000")
		if putKey(key, uint64(record)); string(key) != wanted {
			t.Errorf("record %d has key %s, not %s", record, key, wanted)
		}
	}
}
