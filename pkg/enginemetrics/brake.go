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
	// paceWindow is the length of a measurement of the type pace. After a measurement, the
	// pace is multiplied by paceGrowth or paceDecay. Three growths and two decays together
	// reduce it (1.15³ × 0.8² < 1).
	paceWindow = 500 * time.Millisecond
	paceGrowth = 1.15
	paceDecay  = 0.8
)

// Limits are the conditions under which requests are admitted.
type Limits struct {
	MaxWaiting int     // maximum number of requests in the engine's queue
	MaxKV      float64 // maximum used share of the engine's KV cache, 0 to 1
}

// counts are the gate's own numbers at the time at which it requests a page.
type counts struct {
	inFlight   int    // requests in flight
	uploading  int    // those whose upload is incomplete; the engine does not have them yet
	admissions uint64 // number of requests admitted since the start
}

// brake decides after each page how many further requests may be admitted until the next
// page. The first rule whose condition is true applies:
//
//	condition                    further requests
//	KV > MaxKV                   none until a page with KV ≤ MaxKV − kvHysteresis
//	the page is invalid          as many as have ended since the latest valid page
//	the page has no waiting      any number
//	waiting > MaxWaiting         none
//	otherwise                    MaxWaiting + pace − (waiting + unseen)
//
// In this table, waiting is the queue length on the page, and unseen is the estimated
// number of admitted requests that the page does not show yet. If the page has no metric
// for running requests, unseen is 0. Pace is at least 1; see the type pace. If no page has
// been valid for some time, the Poller turns the brake off.
type brake struct {
	full   bool // the rule "KV > MaxKV" is in force
	unseen unseen
	pace   pace
	page   Page // latest page
	// peak is the largest number of requests in flight at the latest valid page and at the
	// invalid pages after it.
	peak int
	// fullSince is the time since which no page has allowed further requests. 0 = the
	// latest page allows some, or no page has been read since the last pause.
	fullSince time.Duration
}

// room returns the number n of further requests that may be admitted, counted from the
// time at which the gate requested the page p. The parameter c has the gate's numbers at
// that time.
//
// The second result is true while the rule "KV > MaxKV" is in force. The caller must then
// ignore n, and admit a request only while no other is in flight.
func (b *brake) room(p Page, l Limits, c counts, now time.Duration) (n int64, none bool) {
	switch {
	case !p.HasKV || l.MaxKV >= 1 || p.KV <= max(l.MaxKV-kvHysteresis, 0): // MaxKV 1 = no limit
		b.full = false
	case p.KV > l.MaxKV:
		b.full = true
	}
	updated := p != b.page
	b.page, b.peak = p, c.inFlight
	unseen := int64(0)
	if p.HasWaiting && p.HasRunning {
		unseen = b.unseen.add(p, updated, c, now)
	}
	arrived := int64(c.admissions) - int64(c.uploading)
	pace := b.pace.add(unseen, arrived, p.Waiting > 0 || b.full, updated, now)
	switch {
	case !p.HasWaiting:
		n = 1 << 30
	case p.Waiting <= float64(l.MaxWaiting):
		n = int64(l.MaxWaiting) + pace - int64(p.Waiting) - unseen
	}
	switch {
	case n > 0 && !b.full:
		b.fullSince = 0
	case b.fullSince == 0:
		b.fullSince = max(now, 1)
	}
	return n, b.full
}

// roomWithoutPage is like room, for an invalid page.
func (b *brake) roomWithoutPage(c counts) (n int64, none bool) {
	b.pace.skip()
	b.peak = max(b.peak, c.inFlight) // the latest valid page may have allowed some more
	return int64(b.peak - c.inFlight), b.full
}

// pause forgets everything except the rule "KV > MaxKV" and the pace.
func (b *brake) pause() { *b = brake{full: b.full, pace: pace{value: b.pace.value}} }

// pace is the number of requests per page beyond MaxWaiting. The engine may start all of
// them in the same step, and then each of them delays the first tokens of the others.
// Therefore pace is 1 if possible: with MaxWaiting 0, the next request is admitted when the
// page shows the previous one. If that is too slow to keep the engine busy, pace grows. The
// zero value is ready.
type pace struct {
	value float64 // result of the latest measurement; 0 = none yet

	// The current measurement.
	startedAt time.Duration // 0 = there is none
	intervals int64         // number of intervals between two valid pages
	sum       int64         // sum over the intervals: unseen at the start + arrivals in the interval
	busy      bool          // the engine was busy at a page; see add
	updated   bool          // a page differed from the page before

	// The latest page; hasLatest is false if it was invalid.
	hasLatest bool
	unseen    int64
	arrived   int64
}

// add adds a page, and returns the pace, which is at least 1. The parameters are:
//
//   - unseen: the estimated number of requests that the page does not show yet
//   - arrived: the number of requests that have been sent to the engine completely
//   - busy: requests are in the engine's queue, or the rule "KV > MaxKV" is in force
//   - updated: the page differs from the page before
//
// A measurement multiplies the pace by paceGrowth if the engine was never busy and the mean
// number of unseen requests was at least half of the pace. Otherwise it multiplies the
// pace by paceDecay. If no page was updated, the pace does not change, because the engine
// may hang.
func (a *pace) add(unseen, arrived int64, busy, updated bool, now time.Duration) int64 {
	if a.startedAt == 0 {
		a.startedAt = max(now, 1)
	}
	if a.hasLatest {
		a.sum += a.unseen + arrived - a.arrived
		a.intervals++
	}
	a.hasLatest, a.unseen, a.arrived = true, unseen, arrived
	a.busy, a.updated = a.busy || busy, a.updated || updated
	if now-a.startedAt >= paceWindow && a.intervals > 0 {
		switch {
		case !a.updated:
		case !a.busy && 2*float64(a.sum) >= a.value*float64(a.intervals):
			a.value = max(a.value*paceGrowth, 1)
		default:
			a.value = max(a.value*paceDecay, 1)
		}
		a.startedAt, a.sum, a.intervals, a.busy, a.updated = now, 0, 0, false, false
	}
	return max(int64(a.value+0.25), 1) // rounded up from .75
}

// skip excludes an invalid page from the measurement.
func (a *pace) skip() { a.hasLatest = false }

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

	// updatedAt is the time of the latest update. An update is a page that differs from the
	// page before.
	updatedAt time.Duration
	// admitted holds the number of admissions before the latest update and before the
	// second-latest update.
	admitted [2]uint64
}

// add adds the page p and returns the estimate. The parameter c has the gate's numbers
// when p was requested.
func (u *unseen) add(p Page, updated bool, c counts, now time.Duration) int64 {
	shown := int64(min(p.Running+p.Waiting, 1<<30))
	difference := int64(c.inFlight-c.uploading) - shown
	if now-u.windowStart >= unseenWindow {
		u.previous, u.sum, u.count, u.windowStart = u.mean(), 0, 0, now
	}
	u.sum += difference
	u.count++
	if updated {
		u.updatedAt = now
		u.admitted = [2]uint64{c.admissions, u.admitted[0]}
	}
	never := max(min(u.mean(), u.previous), 0)
	if shown == 0 {
		return max(difference-int64(math.Round(never)), 0)
	}
	if now-u.updatedAt >= unseenWindow {
		return 0
	}
	recent := int64(c.admissions - u.admitted[1])
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
