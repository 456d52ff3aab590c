package enginemetrics

import (
	"math"
	"time"
)

const (
	// kvHysteresis is how far KV usage must fall below the threshold before requests
	// are admitted again.
	kvHysteresis = 0.02
	// The brake turns off after silentPeriods polling periods without a valid page, but
	// not before leastSilence has passed.
	leastSilence  = time.Second
	silentPeriods = 10
	// unseenWindow is the time over which unseen averages its differences.
	unseenWindow = time.Second
)

// Limits are the conditions under which requests are admitted.
type Limits struct {
	MaxWaiting int     // maximum number of requests in the engine's queue
	MaxKV      float64 // maximum used share of the engine's KV cache, 0 to 1
}

// brake decides after each page how many further requests may be admitted. The first rule
// whose condition is true applies:
//
//	condition                               further requests
//	no valid page for longer than silence   unlimited
//	KV > MaxKV                              none until KV ≤ MaxKV − kvHysteresis
//	waiting + unseen > MaxWaiting           none until enough requests have ended
//	otherwise                               MaxWaiting + 1 − (waiting + unseen)
//
// In this table, waiting is the queue length on the page, and unseen is the estimated
// number of admitted requests that the page does not show yet. A metric that the page
// does not have limits nothing.
//
// The last rule assumes that the engine may start all of these requests at once. The next
// page shows whether it did.
type brake struct {
	full   bool // the rule "KV > MaxKV" is in force
	unseen unseen
	// fullSince is the time since which no page has allowed further requests. 0 = the
	// latest page allows some, or no page has been read since the last pause.
	fullSince time.Duration
}

// room returns the number n of further requests that may be admitted, counted from the
// time at which the gate requested the page p. Two parameters give the state at that time:
// inFlight is the number of requests in flight without those whose upload is incomplete,
// and admissions is the number of requests admitted since the start.
//
// The second result is true while the rule "KV > MaxKV" is in force. The caller must then
// ignore n, and admit a request only while no other is in flight.
func (b *brake) room(p Page, l Limits, inFlight int, admissions uint64, now time.Duration) (n int64, none bool) {
	switch {
	case !p.HasKV || l.MaxKV >= 1 || p.KV <= max(l.MaxKV-kvHysteresis, 0): // MaxKV 1 = no limit
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
		n -= b.unseen.add(p, inFlight, admissions, now)
	}
	switch {
	case n > 0 && !b.full:
		b.fullSince = 0
	case b.fullSince == 0:
		b.fullSince = max(now, 1)
	}
	return n, b.full
}

// unseen estimates how many admitted requests a page does not show yet. A page can be out
// of date, because servers update it once per step of the engine. A step can be longer
// than the polling period. A request that arrives during a step runs in the next step, so
// the page shows it after at most two updates.
//
// The estimate starts from the difference: the number of requests in flight minus the
// number of requests on the page. The difference also contains requests that the page
// never shows, such as tunnels. Two rules prevent such requests from stopping admission:
//
//   - The mean difference of a window is subtracted: the smaller one of the current and of
//     the previous window. It approximates the number of requests that the page never
//     shows, because new requests (not shown yet) and ended requests (still shown) cancel
//     out on average. While the page shows any requests, the mean is rounded down. So a
//     request on its way to the page does not count as one that the page never shows.
//   - The estimate is at most the number of requests admitted since the second-latest
//     update, and 0 after unseenWindow without an update. This rule does not apply while
//     the page shows no requests, because an idle server does not update its page.
//
// The zero value is ready.
type unseen struct {
	sum, count  int64         // sum and number of the differences in the current window
	previous    float64       // mean difference of the previous window
	windowStart time.Duration // start of the current window

	page Page // latest page
	// updatedAt is the time of the latest update. An update is a page that differs from the
	// page before.
	updatedAt time.Duration
	// admitted holds the number of admissions before the latest update and before the
	// second-latest update.
	admitted [2]uint64
}

// add adds the page p and returns the estimate. The parameters inFlight and admissions
// are the numbers of requests in flight and of admissions when p was requested.
func (u *unseen) add(p Page, inFlight int, admissions uint64, now time.Duration) int64 {
	shown := int64(min(p.Running+p.Waiting, 1<<30))
	difference := int64(inFlight) - shown
	if now-u.windowStart >= unseenWindow {
		u.previous, u.sum, u.count, u.windowStart = u.mean(), 0, 0, now
	}
	u.sum += difference
	u.count++
	if p != u.page {
		u.page, u.updatedAt = p, now
		u.admitted = [2]uint64{admissions, u.admitted[0]}
	}
	never := max(min(u.mean(), u.previous), 0)
	if shown == 0 {
		return max(difference-int64(math.Round(never)), 0)
	}
	if now-u.updatedAt >= unseenWindow {
		return 0
	}
	recent := int64(admissions - u.admitted[1])
	return min(max(difference-int64(never), 0), recent)
}

// mean returns the mean of the differences that add has computed in the current window.
// The comment of the type unseen defines these differences.
func (u *unseen) mean() float64 {
	if u.count == 0 {
		return 0
	}
	return float64(u.sum) / float64(u.count)
}
