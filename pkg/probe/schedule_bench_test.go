package probe

import (
	"testing"
	"time"
)

// BenchmarkSchedule simulates a start-up that refuses connections for a second,
// responds for a second and then succeeds. attempts/op is the number of checks.
func BenchmarkSchedule(b *testing.B) {
	for name, waiting := range map[string]bool{"waited for": true, "no caller waits": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			attempts := 0
			for b.Loop() {
				var h history
				for now := time.Duration(0); h.last != succeeding; now += h.delay(now, waiting, 0) {
					e := refusing
					switch {
					case now >= 2*time.Second:
						e = succeeding
					case now >= time.Second:
						e = responding
					}
					h = h.withCheck(e, now)
					attempts++
				}
			}
			b.ReportMetric(float64(attempts)/float64(b.N), "attempts/op")
		})
	}
}

func BenchmarkDelay(b *testing.B) {
	h := history{}.withCheck(succeeding, time.Second)
	b.ReportAllocs()
	at := time.Second
	for b.Loop() {
		at += time.Second
		h = h.withCheck(succeeding, at)
		if h.delay(at, false, 0.5) <= 0 {
			b.Fatal("no delay after a success")
		}
	}
}
