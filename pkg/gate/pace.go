package gate

import (
	"math/rand/v2"
	"time"
)

// QuickPace is the delay, in ns, between attempts to connect to a container
// while somebody waits for it: a two hundredth of the time that this has
// lasted, within 1 to 10 ms, ±10 %.
func QuickPace(elapsed int64) int64 {
	d := min(max(elapsed/200, int64(time.Millisecond)), int64(10*time.Millisecond))
	return d - d/10 + rand.Int64N(d/5+1)
}
