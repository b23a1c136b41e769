//go:build !linux

// Sleeping to a point in time, elsewhere: by Go's own timers.
package main

import "time"

// Sleeper sleeps for one goroutine.
type Sleeper struct{}

// NewSleeper needs nothing.
func NewSleeper() *Sleeper { return &Sleeper{} }

// Sleep sleeps for a time above zero.
func (s *Sleeper) Sleep(length time.Duration) { time.Sleep(length) }

// Close has nothing to release.
func (s *Sleeper) Close() {}

// EndWithParent does nothing: the run goes on to its end.
func EndWithParent() {}
