package enginemetrics

import (
	"math"
	"time"
)

const (
	// kvHysteresis is how far KV usage must fall below the threshold before requests
	// are admitted again.
	kvHysteresis = 0.02
	// The brake is off after silentPeriods periods without a valid page, at least
	// leastSilence.
	leastSilence  = time.Second
	silentPeriods = 10
	unseenWindow  = time.Second
)

// Limits are the conditions under which requests are admitted.
type Limits struct {
	MaxWaiting int     // maximum number of requests in the engine's queue
	MaxKV      float64 // maximum used share of the engine's KV cache, 0 to 1
}

// brake decides after each page how many requests may be admitted. The first matching
// rule applies:
//
//	no valid page for longer than silence   all
//	KV > MaxKV                              none, until KV ≤ MaxKV − kvHysteresis
//	waiting + unseen > MaxWaiting           none until enough requests have ended
//	otherwise                               MaxWaiting + 1 − (waiting + unseen)
//
// The last rule assumes that the engine may start all of these requests at once; the next
// page shows whether it did. An absent metric does not limit requests.
type brake struct {
	full   bool // the rule "KV > MaxKV" is in force
	unseen unseen
	// fullSince is the time of the first of the latest pages without room; 0 = the
	// latest page has room.
	fullSince time.Duration
}

// room returns how many requests may be admitted after p was requested. inFlight is the
// number of requests in flight at that time, without incomplete uploads. If none is true,
// no request may be admitted while another is in flight.
func (b *brake) room(p Page, l Limits, inFlight int, now time.Duration) (n int64, none bool) {
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

// unseen estimates how many admitted requests a page does not show yet. Servers update
// their page once per step, which can be longer than a period.
//
// The input is the number of requests in flight minus the number of requests on the page.
// New requests that the page does not show yet and ended requests that it still shows
// cancel out on average, so the mean difference of a window approximates the number of
// requests that the page never shows, such as tunnels. The estimate is the difference
// minus the smaller mean of the current and the previous window.
// The zero value is ready.
type unseen struct {
	sum, count int64         // differences of the current window
	previous   int64         // mean difference of the previous window
	since      time.Duration // start of the current window
}

// add adds a difference and returns the estimate of unseen requests.
func (u *unseen) add(difference int64, now time.Duration) int64 {
	if now-u.since >= unseenWindow {
		u.previous, u.sum, u.count, u.since = u.mean(), 0, 0, now
	}
	u.sum += difference
	u.count++
	return max(difference-min(max(u.mean(), 0), max(u.previous, 0)), 0)
}

// mean returns the mean difference of the current window, rounded.
func (u *unseen) mean() int64 {
	if u.count == 0 {
		return 0
	}
	return int64(math.Round(float64(u.sum) / float64(u.count)))
}
