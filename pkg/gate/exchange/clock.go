package exchange

import "time"

// Clock is the time of what does not run on a loop. Its methods may be called
// from any goroutine.
type Clock interface {
	// Now is the time since some instant.
	Now() time.Duration
	// After calls f when d has passed, on any goroutine, unless stop is called
	// before.
	After(d time.Duration, f func()) (stop func())
}

// systemClock is the Clock of a gate that is given none.
type systemClock struct{ began time.Time }

func newSystemClock() Clock { return systemClock{time.Now()} }

func (c systemClock) Now() time.Duration { return time.Since(c.began) }

func (systemClock) After(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
