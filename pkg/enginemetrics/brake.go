package enginemetrics

import "time"

const (
	// kvHysteresis is how far KV usage must fall below the threshold until requests are
	// admitted again.
	kvHysteresis = 0.02
	// leastSilence is the shortest time without a valid page after which the brake is
	// off, and silentPeriods the same in periods.
	leastSilence  = time.Second
	silentPeriods = 10
	// unseenWindow is the time over which the usual number of unseen requests is measured.
	unseenWindow = time.Second
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
//	waiting + unseen > MaxWaiting        none until enough requests have ended
//	otherwise                            as many as make their sum MaxWaiting + 1: the engine
//	                                     may start each of them at once, and the next page tells
//	no valid page for the silence        all
//
// A missing metric does not brake.
type brake struct {
	full   bool // KV was above the threshold, and has not fallen enough since
	unseen unseen
	// fullSince is when pages began to leave no room; 0 = the latest one has room.
	fullSince time.Duration
}

// room returns how many requests may be admitted after the page p, which was requested
// with inFlight requests in flight; none reports that none may be, even if requests end.
func (b *brake) room(p Page, l Limits, inFlight int, now time.Duration) (n int64, none bool) {
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
	if p.HasWaiting && p.HasRunning {
		n -= b.unseen.add(int64(inFlight)-int64(min(p.Running+p.Waiting, 1<<30)), now)
	}
	switch {
	case n > 0 && !b.full:
		b.fullSince = 0
	case b.fullSince == 0:
		b.fullSince = max(now, 1)
	}
	return n, b.full
}

// unseen estimates how many requests have been admitted that a page does not show yet:
// servers update their page once per step, which can last longer than a period. Without
// it, each page read during a step would admit more requests.
//
// The difference between the requests in flight and those on the page has other causes,
// too: uploads, tunnels, requests for other paths. They last, so the smallest difference
// of the last one to two unseenWindows is theirs. Requests that have ended and are still
// on the page do not count. The zero value has seen no page.
type unseen struct {
	current, previous int64 // smallest differences of two windows
	since             time.Duration
}

// add adds a difference and returns the estimate.
func (u *unseen) add(difference int64, now time.Duration) int64 {
	difference = max(difference, 0)
	if now-u.since >= unseenWindow {
		u.previous, u.current, u.since = u.current, difference, now
	}
	u.current = min(u.current, difference)
	return difference - min(u.current, u.previous)
}
