package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LimitRange is the range of a concurrency limit that finds itself.
type LimitRange struct{ Min, Max int }

// DefaultLimitRange is that of a limit of which no bounds are said.
var DefaultLimitRange = LimitRange{Min: 1, Max: 1000}

// ParseLimitRange reads "MIN-MAX", each from 1 to MaxLimit.
func ParseLimitRange(s string) (LimitRange, error) {
	low, high, ok := strings.Cut(s, "-")
	least, errLow := strconv.Atoi(low)
	most, errHigh := strconv.Atoi(high)
	if !ok || errLow != nil || errHigh != nil || least < 1 || most < least || most > MaxLimit {
		return LimitRange{}, fmt.Errorf("%q is not MIN-MAX with 1 <= MIN <= MAX <= %d", s, MaxLimit)
	}
	return LimitRange{Min: least, Max: most}, nil
}

// What the limiter goes by. The values were chosen with the model of a container
// in autolimit_test.go; docs/overload.md has the figures.
const (
	limitStart     = 4   // first limit, if the range allows
	limitTolerance = 1.1 // latency beyond this much of the base is congestion
	limitAim       = 1.05
	limitSamples   = 20 // fewest of a window
	limitWindow    = int64(100 * time.Millisecond)
	limitLongest   = int64(time.Second) // of a window that is long enough otherwise
	limitRecheck   = int64(30 * time.Second)
	// latencies that are known this well, as a share of the mean, end a window
	limitPrecision      = 0.03
	limitStartPrecision = 0.08
	// share of failures, beyond the usual, that is congestion
	limitFailures = 0.1
)

// AutoLimit finds the concurrency limit of a container: the most requests in
// flight at which its latency has not begun to rise. It compares the mean
// latency in windows with a base, the latency without congestion:
//
//   - at first the limit doubles with each window, until the latency rises;
//   - a latency significantly above limitTolerance times the base brings it
//     down, by half at most, and below what was in flight; so does a share of
//     failures (503, resets, timeouts) that is significantly above the usual;
//   - a latency near the base lets it grow, if the limit was used at all;
//   - twice a minute half the limit is tried for a window, which tells the base;
//   - if the limit has come down and the latency has not, or it cannot come down
//     further, the latency is not of the limit's making: it is the new base.
//
// That is a gradient limiter (Envoy's adaptive concurrency, Netflix's
// gradient) whose baseline is tested instead of remembered.
type AutoLimit struct {
	bounds LimitRange

	mu       sync.Mutex
	limit    float64
	base     float64 // latency without congestion, ns; 0 = not known yet
	weight   float64 // samples in base, while starting
	failures float64 // usual share of failures
	window   limitWindowSums
	recheck  int64   // when the base is tested again
	tested   float64 // limit to go back to after a test; 0 = none is under way
	starting bool
	growth   float64
	// the latest descent: the limit and the latency, or failures, it came from
	from         float64
	fromLatency  float64
	fromFailures float64
}

// limitWindowSums is what has been seen since a moment.
type limitWindowSums struct {
	since        int64 // later samples count
	n, failed    int
	sum, squares float64
	peak         int
}

// NewAutoLimit starts at a small limit.
func NewAutoLimit(r LimitRange) *AutoLimit {
	return &AutoLimit{bounds: r, limit: float64(min(max(limitStart, r.Min), r.Max)), starting: true, growth: 1}
}

// Limit is the limit of now.
func (a *AutoLimit) Limit() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.limit)
}

// Ended takes the sample of a request that held a slot: when it ended, how long
// the container took to answer, in ns, or that it failed in a way that speaks of
// overload; and how many were in flight. It returns the limit, and whether that
// has moved.
func (a *AutoLimit) Ended(now, took int64, failed bool, inFlight int) (limit int, moved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &a.window
	w.peak = max(w.peak, inFlight)
	if now < w.since {
		return 0, false
	}
	if failed {
		w.failed++
	} else {
		w.n++
		w.sum += float64(took)
		w.squares += float64(took) * float64(took)
	}
	if w.n+w.failed < limitSamples {
		return 0, false
	}
	seen := a.look(now)
	if !seen.enough {
		return 0, false
	}
	before := int(a.limit)
	a.window = limitWindowSums{since: now}
	a.decide(now, seen)
	a.limit = min(max(a.limit, float64(a.bounds.Min)), float64(a.bounds.Max))
	if int(a.limit) != before {
		a.window.since = now + int64(2*seen.latency) // what was begun under the old limit says little of the new one
	}
	return int(a.limit), int(a.limit) != before
}

// sight is what a window says.
type sight struct {
	enough   bool
	latency  float64 // mean, ns
	margin   float64 // two standard errors of it
	failures float64 // share
	congested,
	clearly bool // no doubt, even before the window is over
	used bool // the limit was nearly reached
	peak float64
	n    float64
}

// look reads the window as it stands.
func (a *AutoLimit) look(now int64) sight {
	w := &a.window
	all := float64(w.n + w.failed)
	s := sight{failures: float64(w.failed) / all, peak: float64(w.peak), n: float64(w.n)}
	s.used = s.peak >= 0.8*math.Floor(a.limit)
	deviation := 0.0
	if w.n > 0 {
		s.latency = w.sum / s.n
		deviation = math.Sqrt(max(0, w.squares/s.n-s.latency*s.latency)) / math.Sqrt(s.n)
	}
	s.margin = 2 * deviation
	failing := s.failures-2*math.Sqrt(s.failures*(1-s.failures)/all) > a.failures+limitFailures
	slow := a.base > 0 && s.latency-s.margin > a.base*limitTolerance
	s.congested = failing || slow
	s.clearly = a.tested == 0 && (failing || slow && s.latency-3*deviation > 1.5*a.base)

	age := now - w.since
	precision := limitPrecision
	if a.starting {
		precision = limitStartPrecision
	}
	switch {
	case age < limitWindow:
	case s.clearly:
		s.enough = true
	case float64(age) < 5*s.latency:
	default:
		s.enough = deviation <= precision*s.latency || float64(age) >= max(float64(limitLongest), 20*s.latency)
	}
	return s
}

// decide moves the limit after a window.
func (a *AutoLimit) decide(now int64, s sight) {
	switch {
	case s.n == 0 && a.base == 0:
		return // failures alone, from the start: nothing to compare with
	case a.base == 0:
		a.base, a.weight, a.recheck = s.latency, s.n, now+limitRecheck
		return
	case a.tested > 0:
		a.base, a.failures = (a.base+s.latency)/2, (a.failures+s.failures)/2
		a.limit, a.tested, a.recheck = a.tested, 0, now+limitRecheck
		return
	case s.used && !s.congested && now >= a.recheck && a.limit >= 2:
		a.tested, a.limit = a.limit, math.Floor(a.limit/2)
		return
	case s.congested && int(a.limit) <= a.bounds.Min:
		// There is no lower limit, so the limit is not the cause.
		a.base, a.failures = max(s.latency, 1), s.failures
		a.from, a.fromLatency, a.fromFailures = 0, 0, 0
		return
	case s.congested:
		a.descend(s)
		return
	}
	a.failures = min(a.failures, (a.failures+s.failures)/2)
	if s.latency+s.margin < a.base {
		a.base = (a.base + s.latency) / 2
	}
	if s.used && s.latency < a.base*limitAim+s.margin/2 {
		a.grow(s)
	}
}

// grow raises the limit: it doubles while starting, and then grows the faster
// the longer nothing speaks against it.
func (a *AutoLimit) grow(s sight) {
	a.from, a.fromLatency, a.fromFailures = 0, 0, 0
	if a.starting {
		a.base = (a.base*a.weight + s.latency*s.n) / (a.weight + s.n)
		a.weight += s.n
		a.limit *= 2
		return
	}
	a.limit += max(a.limit*0.05, 0.5) * a.growth
	a.growth = min(a.growth*1.5, 8)
}

// descend lowers the limit, unless it turns out that it has no influence.
func (a *AutoLimit) descend(s sight) {
	before := a.limit
	a.starting, a.growth = false, 1
	if a.from == 0 {
		a.from = min(a.limit, s.peak)
	}
	a.fromLatency, a.fromFailures = max(a.fromLatency, s.latency), max(a.fromFailures, s.failures)
	factor := 0.8 // for failures
	if s.latency > a.base*limitTolerance {
		factor = max(0.5, math.Pow(a.base*limitAim/s.latency, 0.7))
	}
	a.limit = min(a.limit, s.peak) * factor
	if before > 0.75*a.from || s.clearly && before > 0.3*a.from {
		return
	}
	if s.latency > 0.87*a.fromLatency && s.failures >= 0.8*a.fromFailures {
		a.base, a.failures, a.limit = max(s.latency, 1), s.failures, a.from
	}
	a.from, a.fromLatency, a.fromFailures = 0, 0, 0
}
