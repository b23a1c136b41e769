// Pebble under the laboratory's load, driven in Go: one run in a process of its own.
//
//	pebble child DIR     one run in this folder: its specification as JSON on standard input, its
//	                     progress as lines of JSON on standard error, the answer on standard output
//	pebble version       the versions of Pebble and Go
//	pebble ops           the calls of a run's first phase, for the tests that compare drivers
//	pebble due           due times of requests, for the same tests
//	pebble percentiles   the percentiles of given latencies, for the same tests
//
// `peers child` starts it for a store of the kind `pebble`. The protocol is that of all children
// (crates/measure/src/child.rs); the parent makes and removes the folder and applies the limits, which
// this process inherits. An interrupt ends the phase; the answer has the report of what was done.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"time"
)

// The main goroutine stays on the main thread: the system watches the parent for that thread.
func init() { runtime.LockOSThread() }

func main() {
	EndWithParent()
	runtime.UnlockOSThread()
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "pebble: %v\n", err)
		os.Exit(1)
	}
}

func command(words []string) error {
	name := ""
	if len(words) > 0 {
		name = words[0]
	}
	switch {
	case name == "child" && len(words) == 2:
		return child(words[1])
	case name == "version" && len(words) == 1:
		_, err := fmt.Println(version())
		return err
	case name == "ops" && len(words) == 1:
		return printOps(os.Stdin, os.Stdout)
	case name == "due" && len(words) == 1:
		return printDue(os.Stdin, os.Stdout)
	case name == "percentiles" && len(words) == 1:
		return printPercentiles(os.Stdin, os.Stdout)
	}
	return fmt.Errorf("usage: pebble child DIR | version | ops | due | percentiles")
}

// child does the run that standard input specifies.
func child(dir string) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	spec, err := ReadSpec(text)
	if err != nil {
		return err
	}
	var stop atomic.Bool
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	go func() {
		<-interrupts
		stop.Store(true)
	}()
	answer, err := json.Marshal(Run(spec, text, dir, &stop, &teller{}))
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(answer)
	return err
}

// teller writes lines to the parent: when a step begins, and at most two per second.
type teller struct{ said time.Time }

func (*teller) say(name string, content ...any) {
	line, err := json.Marshal(map[string][]any{name: content})
	if err == nil {
		fmt.Fprintf(os.Stderr, "%s\n", line)
	}
}

// Begin says that a step begins.
func (t *teller) Begin(name string, number, count int) { t.say("step", name, number, count) }

// Going says how far it is: the share that is done, operations per second now, P99 in microseconds.
func (t *teller) Going(progress *Progress) {
	if time.Since(t.said) <= time.Second/2 {
		return
	}
	t.said = time.Now()
	rate := 0.0
	if count := len(progress.series); count > 0 {
		rate = progress.series[count-1].Throughput()
	}
	t.say("going", progress.done, rate, float64(progress.latencies.Quantile(0.99))/1e3)
}
