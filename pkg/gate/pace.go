package gate

import (
	"math/rand/v2"
	"time"
)

// QuickPace is the delay in ns between connection attempts while a request waits for
// the container; elapsed is the time in ns since the first refusal.
func QuickPace(elapsed int64, jitter float64) int64 {
	return int64(QuickDelay(time.Duration(elapsed), jitter))
}

// QuickDelay is 0.5 % of elapsed, at least 1 ms and at most 10 ms, with jitter.
func QuickDelay(elapsed time.Duration, jitter float64) time.Duration {
	return AddJitter(min(max(elapsed/200, time.Millisecond), 10*time.Millisecond), jitter)
}

// AddJitter changes d by jitter times 10 %, so that attempts to containers that started
// together are not synchronized.
func AddJitter(d time.Duration, jitter float64) time.Duration {
	return d + time.Duration(float64(d)*0.1*jitter)
}

// Jitter returns a random number from -1 to 1.
func Jitter() float64 { return 2*rand.Float64() - 1 }
