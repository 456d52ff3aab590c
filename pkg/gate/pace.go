package gate

import (
	"math/rand/v2"
	"time"
)

// QuickPace is the delay, in ns, between attempts to connect to a container
// while a request is held for it; elapsed is for how long it has refused.
func QuickPace(elapsed int64, jitter float64) int64 {
	return int64(QuickDelay(time.Duration(elapsed), jitter))
}

// QuickDelay is the quick pace: a two hundredth of elapsed, within 1 and 10 ms,
// stretched by jitter.
func QuickDelay(elapsed time.Duration, jitter float64) time.Duration {
	return AddJitter(min(max(elapsed/200, time.Millisecond), 10*time.Millisecond), jitter)
}

// AddJitter makes d longer by up to a tenth for a jitter of 1, shorter for -1, so
// that containers that started together are not tried in step.
func AddJitter(d time.Duration, jitter float64) time.Duration {
	return d + time.Duration(float64(d)*0.1*jitter)
}

// Jitter is a random one, from -1 to 1.
func Jitter() float64 { return 2*rand.Float64() - 1 }
