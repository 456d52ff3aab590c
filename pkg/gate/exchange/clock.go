package exchange

import "time"

// Clock is the time source of code that does not run on a loop. Its methods may be
// called from any goroutine.
type Clock interface {
	// Now returns the time since a fixed instant.
	Now() time.Duration
	// AfterFunc calls f on any goroutine when d has passed, unless stop is called earlier.
	AfterFunc(d time.Duration, f func()) (stop func())
}

type systemClock struct{ began time.Time }

func newSystemClock() Clock { return systemClock{time.Now()} }

func (c systemClock) Now() time.Duration { return time.Since(c.began) }

func (systemClock) AfterFunc(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
