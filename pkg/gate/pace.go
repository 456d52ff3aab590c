package gate

import (
	"math/rand/v2"
	"time"
)

// QuickPace returns the delay before the next connection attempt while a request waits
// for the container. elapsed is the time since the first refused attempt. Both are in ns.
func QuickPace(elapsed int64, jitter float64) int64 {
	return int64(QuickDelay(time.Duration(elapsed), jitter))
}

// QuickDelay returns 0.5 % of elapsed, at least 1 ms and at most 10 ms, with jitter
// added.
func QuickDelay(elapsed time.Duration, jitter float64) time.Duration {
	return AddJitter(min(max(elapsed/200, time.Millisecond), 10*time.Millisecond), jitter)
}

// AddJitter returns d changed by jitter times 10 %, for a jitter from -1 to 1. The jitter
// desynchronizes gates that started together.
func AddJitter(d time.Duration, jitter float64) time.Duration {
	return d + time.Duration(float64(d)*0.1*jitter)
}

// Jitter returns a random number from -1 to 1.
func Jitter() float64 { return 2*rand.Float64() - 1 }
