package enginemetrics

import "time"

const (
	// kvHysteresis is how far KV usage must fall below the threshold until requests are
	// admitted again.
	kvHysteresis = 0.05
	// leastSilence is the shortest time without a valid page after which the brake is
	// off, and silentPeriods the same in periods.
	leastSilence  = time.Second
	silentPeriods = 10
)

// Limits are the conditions under which requests are admitted.
type Limits struct {
	MaxWaiting int     // requests in the engine's queue
	MaxKV      float64 // used share of its KV cache, 0 to 1
}

// brake decides from one page after the other how many requests may be admitted. Its
// rules, with the values of the latest page:
//
//	KV > MaxKV                           none, until KV ≤ MaxKV − kvHysteresis
//	waiting > MaxWaiting                 none until enough requests have ended
//	otherwise                            as many as make waiting MaxWaiting + 1: the engine
//	                                     may start each of them at once, and the next page tells
//	no valid page for the silence        all
//
// A missing metric does not brake.
type brake struct {
	full bool // KV was above the threshold, and has not fallen enough since
	// fullSince is when pages began to leave no room; 0 = the latest one has room.
	fullSince time.Duration
}

// room returns how many requests may be admitted after the page p; none reports that
// none may be, even if requests end.
func (b *brake) room(p Page, l Limits, now time.Duration) (n int64, none bool) {
	switch {
	case !p.HasKV || p.KV <= max(l.MaxKV-kvHysteresis, 0):
		b.full = false
	case p.KV > l.MaxKV:
		b.full = true
	}
	n = int64(l.MaxWaiting) + 1
	if p.HasWaiting {
		n -= int64(min(p.Waiting, 1<<30))
	} else {
		n = 1 << 30
	}
	switch {
	case n > 0 && !b.full:
		b.fullSince = 0
	case b.fullSince == 0:
		b.fullSince = max(now, 1)
	}
	return n, b.full
}
