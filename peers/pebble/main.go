// The library that the Rust program loads: Pebble's calls with C's types.
//
// Keys and values come as pointer and length and are copied once, by Pebble itself. A call that fails
// answers with a message (to be given back to pebble_free); one that does not with null. Handles are
// numbers: a slot of a fixed array, because looking one up is part of every call.
package main

/*
#include <stdint.h>
#include <stdlib.h>
*/
import "C"

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
)

var (
	instances [256]atomic.Pointer[Instance]
	caches    [16]atomic.Pointer[pebble.Cache]
)

func main() {}

func slice(start *C.uint8_t, length C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(start)), int(length))
}

func message(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}

//export pebble_free
func pebble_free(text *C.char) { C.free(unsafe.Pointer(text)) }

// pebble_version tells the versions of Pebble and Go.
//
//export pebble_version
func pebble_version() *C.char {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/cockroachdb/pebble/v2" {
				version = module.Version
			}
		}
	}
	return C.CString(version + ", " + runtime.Version())
}

//export pebble_cache_new
func pebble_cache_new(bytes C.uint64_t) C.int32_t {
	cache := pebble.NewCache(int64(bytes))
	for n := range caches {
		if caches[n].CompareAndSwap(nil, cache) {
			return C.int32_t(n)
		}
	}
	cache.Unref()
	return -1
}

//export pebble_cache_free
func pebble_cache_free(cache C.int32_t) {
	if old := caches[cache].Swap(nil); old != nil {
		old.Unref()
	}
}

//export pebble_open
func pebble_open(
	path *C.uint8_t, pathLength C.size_t, setup *C.uint8_t, setupLength C.size_t,
	cache C.int32_t, handle *C.int32_t,
) *C.char {
	var parsed Setup
	if err := json.Unmarshal(slice(setup, setupLength), &parsed); err != nil {
		return message(err)
	}
	instance, err := Open(string(slice(path, pathLength)), parsed, caches[cache].Load())
	if err != nil {
		return message(err)
	}
	for n := range instances {
		if instances[n].CompareAndSwap(nil, instance) {
			*handle = C.int32_t(n)
			return nil
		}
	}
	return message(errors.Join(errors.New("too many instances"), instance.db.Close()))
}

//export pebble_close
func pebble_close(handle C.int32_t) *C.char {
	return message(instances[handle].Swap(nil).db.Close())
}

//export pebble_put
func pebble_put(
	handle C.int32_t, key *C.uint8_t, keyLength C.size_t, value *C.uint8_t, valueLength C.size_t,
) *C.char {
	return message(instances[handle].Load().Put(slice(key, keyLength), slice(value, valueLength)))
}

// pebble_nothing has the shape of pebble_put: what a call costs.
//
//export pebble_nothing
func pebble_nothing(
	handle C.int32_t, key *C.uint8_t, keyLength C.size_t, value *C.uint8_t, valueLength C.size_t,
) *C.char {
	return nil
}

//export pebble_delete
func pebble_delete(handle C.int32_t, key *C.uint8_t, keyLength C.size_t) *C.char {
	return message(instances[handle].Load().Delete(slice(key, keyLength)))
}

// pebble_write does many writes as one batch. Each is a byte that is 1 for a put, the lengths of key and
// value in four bytes (little-endian) and the two.
//
//export pebble_write
func pebble_write(handle C.int32_t, row *C.uint8_t, rowLength C.size_t) *C.char {
	instance := instances[handle].Load()
	batch := instance.db.NewBatch()
	defer batch.Close()
	for rest := slice(row, rowLength); len(rest) > 0; {
		keyLength := binary.LittleEndian.Uint32(rest[1:])
		valueLength := binary.LittleEndian.Uint32(rest[5:])
		key, value := rest[9:9+keyLength], rest[9+keyLength:9+keyLength+valueLength]
		var err error
		if rest[0] == 1 {
			err = batch.Set(key, value, nil)
		} else {
			err = batch.Delete(key, nil)
		}
		if err != nil {
			return message(err)
		}
		rest = rest[9+keyLength+valueLength:]
	}
	return message(batch.Commit(instance.writes))
}

// pebble_get puts the length of the value into length, -1 when there is none, and as much of the value
// into room as fits.
//
//export pebble_get
func pebble_get(
	handle C.int32_t, key *C.uint8_t, keyLength C.size_t,
	room *C.uint8_t, roomLength C.size_t, length *C.int64_t,
) *C.char {
	*length = -1
	_, err := instances[handle].Load().Get(slice(key, keyLength), func(value []byte) {
		*length = C.int64_t(len(value))
		copy(slice(room, roomLength), value)
	})
	return message(err)
}

// pebble_scan counts up to limit pairs. As far as they fit into room they are put there, each as the
// lengths of key and value in four bytes (little-endian) and the two; used says how far room is filled.
//
//export pebble_scan
func pebble_scan(
	handle C.int32_t, start *C.uint8_t, startLength C.size_t, limit C.size_t,
	room *C.uint8_t, roomLength C.size_t, used *C.size_t, count *C.size_t,
) *C.char {
	space := slice(room, roomLength)
	filled := 0
	see := func(key, value []byte) {
		if filled+8+len(key)+len(value) > len(space) {
			return
		}
		binary.LittleEndian.PutUint32(space[filled:], uint32(len(key)))
		binary.LittleEndian.PutUint32(space[filled+4:], uint32(len(value)))
		filled += 8
		filled += copy(space[filled:], key)
		filled += copy(space[filled:], value)
	}
	found, err := instances[handle].Load().Scan(slice(start, startLength), int(limit), see)
	*used, *count = C.size_t(filled), C.size_t(found)
	return message(err)
}

//export pebble_flush
func pebble_flush(handle C.int32_t) *C.char { return message(instances[handle].Load().Flush()) }

// pebble_stats answers with JSON.
//
//export pebble_stats
func pebble_stats(handle C.int32_t) *C.char {
	return C.CString(string(toJSON(instances[handle].Load().Stats())))
}

// pebble_marks answers with JSON.
//
//export pebble_marks
func pebble_marks(handle C.int32_t) *C.char {
	return C.CString(string(toJSON(instances[handle].Load().Marks())))
}
