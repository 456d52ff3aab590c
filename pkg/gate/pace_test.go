package gate

import (
	"testing"
	"time"
)

func TestQuickDelayIsHalfAPercentOfElapsedFrom1To10Milliseconds(t *testing.T) {
	const ms = time.Millisecond
	for elapsed, want := range map[time.Duration]time.Duration{
		-ms: ms, 0: ms, 100 * ms: ms, 400 * ms: 2 * ms, time.Second: 5 * ms, 2 * time.Second: 10 * ms, time.Hour: 10 * ms,
	} {
		for jitter, want := range map[float64]time.Duration{0: want, 1: want * 11 / 10, -1: want * 9 / 10} {
			if got := QuickDelay(elapsed, jitter); got != want {
				t.Errorf("after %v with jitter %v: %v, want %v", elapsed, jitter, got, want)
			}
		}
		for range 1000 {
			if got := time.Duration(QuickPace(int64(elapsed), Jitter())); got < want*9/10 || got > want*11/10 {
				t.Fatalf("after %v: %v, want %v within 10 %%", elapsed, got, want)
			}
		}
	}
}
