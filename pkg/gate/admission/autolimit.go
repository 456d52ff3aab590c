package admission

import (
	"math"
	"sync"
	"time"
)

// What the limiter goes by. The values were chosen with the models of containers
// in autolimit_test.go; docs/overload.md has the figures.
const (
	limitStart   = 4 // first limit, if the range allows
	limitSamples = 20
	limitFew     = 5                              // which can show that a trial does harm
	limitWindow  = int64(100 * time.Millisecond)  // shortest
	limitTrial   = int64(500 * time.Millisecond)  // of short requests, if it is not clear before
	limitRest    = int64(2000 * time.Millisecond) // between trials
	limitDown    = int64(4 * time.Second)         // least between two that go down
	limitMemory  = int64(3 * time.Second)         // of what the kept limit costs
	limitJump    = 1.3                            // a cost that is this many times what it was has jumped
	limitGoal    = 1.1                            // one within this has come back
	// factors of one trial
	limitLeast    = 1.05
	limitWide     = 1.4
	limitGreatest = 2.0
	limitDeepest  = 4.0 // after a jump
	// variance of a cost that can be relied on while starting
	limitKnown = 0.15 * 0.15
)

// AutoLimit finds the concurrency limit of a container. It goes by the cost of a
// request, the time in slots for each success, and tries limits beside the one
// that it keeps for a window each. Of two it keeps the higher one if the cost
// rises by less than the square root of their ratio, else the lower one. So it
// climbs to the limit of the greatest power, throughput divided by latency
// (Kleinrock 1979), which is where throughput ceases to grow with the limit. No
// latency needs to be known as that of a container without load.
//
//   - At first, and after each step that was kept, steps become greater; after
//     one that was not, smaller, until there is none left. Then it rests.
//   - From rest it tries upwards, and now and then downwards.
//   - A cost that jumps at the same limit leads down at once, as long as that
//     lowers the cost and it is not what it was. Where a lower limit costs as
//     much, the limit is not the cause and comes back.
//   - Failures (503, resets, timeouts) count as cost without success.
//   - Probes of the container that take longer than usual lead down as well,
//     even while no request ends.
type AutoLimit struct {
	bounds LimitRange

	mu        sync.Mutex
	limit     int       // of now
	kept      limitCost // of the limit that is kept; n = 0: not known
	window    limitCost // of the limit of now, since the latest decision
	counts    int64     // later samples count
	trial     limitTrialKind
	step      float64 // factor of the trial
	narrowing bool    // a higher limit was too high: steps become smaller
	starting  bool    // none was yet
	primed    bool    // the first window, of a container that began empty, is over
	goal      float64 // cost before it jumped; 0 = it has not
	rest      int64   // no trial before
	down      int64   // none downwards before
	probes    probeTimes
}

// limitTrialKind is what limit is in force.
type limitTrialKind uint8

const (
	limitKept   limitTrialKind = iota // the one that is kept
	limitHigher                       // a higher one, on trial
	limitLower                        // a lower one, on trial
)

// NewAutoLimit starts at a small limit.
func NewAutoLimit(r LimitRange) *AutoLimit {
	a := &AutoLimit{bounds: r, limit: min(max(limitStart, r.Min), r.Max), step: limitGreatest, starting: true}
	a.window.limit = a.limit
	return a
}

// Limit is the limit of now.
func (a *AutoLimit) Limit() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit
}

// Ended takes the sample of a request that held a slot: when it ended, how long
// the container took to answer, in ns, or to fail in a way that speaks of
// overload; and how many were in flight. It returns the limit, and whether that
// has moved.
func (a *AutoLimit) Ended(now, took int64, failed bool, inFlight int) (limit int, moved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now < a.counts {
		a.window.peak = max(a.window.peak, inFlight)
		return a.limit, false
	}
	a.window.add(took, failed, inFlight)
	if (a.window.n < limitSamples || now-a.counts < limitWindow) && !a.harmful() {
		return a.limit, false
	}
	before := a.limit
	switch {
	case a.kept.n > 0 && a.jumped():
		if a.goal == 0 {
			a.goal = a.kept.perSuccess()
		}
		a.keep(now)
		a.descend(now)
	case a.trial == limitKept:
		a.hold(now)
	default:
		if tooHigh, over := a.judge(now); over {
			a.decide(now, tooHigh)
		}
	}
	return a.limit, a.limit != before
}

// hold looks at a window of the kept limit.
func (a *AutoLimit) hold(now int64) {
	w := &a.window
	age := float64(now - a.counts)
	if a.kept.n == 0 {
		a.know(now, age)
		return
	}
	if age < float64(2*limitWindow) || age < 5*w.latency() {
		return
	}
	used := w.used()
	if now-a.kept.since > limitMemory {
		a.kept.fade()
		a.kept.since = now - limitMemory/2
	}
	a.kept.merge(w)
	a.begin(now, 0)
	if !used || now < a.rest {
		return
	}
	a.step, a.narrowing, a.goal = a.leastStep(), false, 0
	if a.starting {
		a.step = limitGreatest
	}
	if now >= a.down && a.limit > a.bounds.Min {
		// It takes one of the limit's slots away: the fewer, the less often.
		a.down = now + max(limitDown, 60*a.trialTime()/int64(a.limit))
		a.try(now, limitLower)
		return
	}
	a.try(now, limitHigher)
}

// know takes the first window of a limit whose cost is not known.
func (a *AutoLimit) know(now int64, age float64) {
	if age < 3*a.window.latency() {
		return
	}
	if !a.primed {
		a.primed = true
		a.begin(now, a.window.transition())
		return
	}
	a.keep(now)
	if a.goal > 0 {
		a.descend(now)
		return
	}
	a.try(now, limitHigher)
}

// jumped reports whether the cost has risen without doubt, although the limit
// has not, or by more than a higher one can explain.
func (a *AutoLimit) jumped() bool {
	rise := math.Log(a.window.perSuccess() / a.kept.perSuccess())
	explained := 3 * math.Log(max(1, float64(a.limit)/float64(a.kept.limit)))
	return rise-explained-3*math.Sqrt(a.window.variance()+a.kept.variance()) > math.Log(limitJump)
}

// begin starts a window, in ns from now.
func (a *AutoLimit) begin(now int64, in float64) {
	a.window = limitCost{limit: a.limit}
	a.counts = now + int64(in)
}

// keep makes the limit of now the one that is kept, at the cost of its window.
func (a *AutoLimit) keep(now int64) {
	a.kept, a.trial = a.window, limitKept
	a.kept.since = a.counts
	a.begin(now, 0)
}

// try moves the limit by a step for a trial, or rests where there is no room.
func (a *AutoLimit) try(now int64, kind limitTrialKind) {
	n := a.kept.limit
	to := min(max(n+1, int(math.Round(float64(n)*a.step))), a.bounds.Max)
	if kind == limitLower {
		to = max(min(n-1, int(float64(min(n, a.kept.peak))/a.step)), a.bounds.Min)
	}
	if to == n {
		a.backToKept(now)
		return
	}
	a.step = max(a.step, float64(to)/float64(n))
	a.limit, a.trial = to, kind
	a.begin(now, max(a.kept.transition(), a.window.transition()))
}

// backToKept returns to the kept limit and rests.
func (a *AutoLimit) backToKept(now int64) {
	transition := 0.0
	if a.limit != a.kept.limit {
		transition = max(a.kept.transition(), a.window.transition())
	}
	a.limit, a.trial = a.kept.limit, limitKept
	a.rest = now + limitRest
	a.begin(now, transition)
}

// trialTime is how long a trial goes on that is not clear before.
func (a *AutoLimit) trialTime() int64 { return max(limitTrial, int64(12*a.kept.latency())) }

// leastStep is the least that a trial can tell from none.
func (a *AutoLimit) leastStep() float64 {
	samples := float64(a.trialTime()) * float64(a.limit) / a.kept.latency()
	return min(max(limitLeast, math.Exp(3*math.Sqrt(a.kept.variance()*a.kept.n/samples))), limitWide)
}

// judge compares the limit on trial with the kept one. over is false where more
// has to be seen.
func (a *AutoLimit) judge(now int64) (tooHigh, over bool) {
	low, high := &a.kept, &a.window
	if a.trial == limitLower {
		low, high = high, low
	}
	by, sigma := beyond(low, high)
	age, latency, most := float64(now-a.counts), a.window.latency(), float64(a.trialTime())
	switch {
	case by > 2.5*sigma:
		return true, true
	case by < -2*sigma && age >= 3*latency && (a.window.variance() < limitKnown || age >= most):
		return false, true
	case age >= max(most, 12*latency) && (math.Abs(by) > sigma || age > 3*most):
		return by > 0, true
	}
	return false, false
}

// harmful reports that a higher limit is too high beyond doubt, which few samples
// show where requests are alike: each one more is slow.
func (a *AutoLimit) harmful() bool {
	if a.trial != limitHigher || a.window.n < limitFew {
		return false
	}
	by, sigma := beyond(&a.kept, &a.window)
	return by > 5*max(sigma, math.Sqrt(a.kept.variance()*a.kept.n/a.window.n))
}

// decide ends a trial: of the two limits, the higher one is too high, or not.
func (a *AutoLimit) decide(now int64, tooHigh bool) {
	switch {
	case a.trial == limitLower && tooHigh:
		a.keep(now)
		a.descend(now)
	case a.trial == limitLower:
		a.backToKept(now)
		a.rest = now
	case !tooHigh:
		a.ascend(now)
	case a.starting && a.kept.variance()+a.window.variance() > limitKnown:
		// Few samples of the container's first moments are no reason to give up.
		a.backToKept(now)
		a.rest = now
	default:
		a.narrowing, a.starting = true, false
		a.step = math.Sqrt(a.step)
		if a.limit == a.kept.limit+1 || a.step < limitLeast {
			a.backToKept(now)
			return
		}
		a.try(now, limitHigher)
	}
}

// ascend keeps a higher limit and goes on.
func (a *AutoLimit) ascend(now int64) {
	used, before := a.window.used(), a.kept
	a.keep(now)
	// It costs what the lower one did. What was known of that evens out that a
	// window which happens to be cheap ends its trial early.
	before.fade()
	before.peak = a.kept.peak
	a.kept.merge(&before)
	if a.narrowing {
		a.step = math.Sqrt(a.step)
	} else {
		a.step = min(a.step*a.step, limitGreatest)
	}
	if a.step < limitLeast || !used {
		a.backToKept(now)
		return
	}
	a.try(now, limitHigher)
}

// descend goes on downwards from a kept limit: after a jump until the cost is
// what it was, else as long as that lowers the cost.
func (a *AutoLimit) descend(now int64) {
	if a.goal == 0 {
		a.step = min(a.step*a.step, limitGreatest)
		a.try(now, limitLower)
		return
	}
	if r := a.kept.perSuccess() / a.goal; r > limitGoal {
		// Where throughput falls as the limit rises, latency grows with its square
		// at the least: the root does not lead too far down.
		a.step = min(max(math.Sqrt(r), limitGoal), limitDeepest)
		a.try(now, limitLower)
		return
	}
	a.goal = 0
	a.step, a.narrowing = 1.1, true
	a.try(now, limitHigher)
}

// Probed takes how long a probe of the container took, in ns, and how many were
// in flight: a limit that was not reached is not the cause. It returns the
// limit, and whether that has moved.
func (a *AutoLimit) Probed(now, took int64, inFlight int) (limit int, moved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.probes.risen(took) || a.limit == a.bounds.Min || float64(inFlight) < 0.8*float64(a.limit) {
		return a.limit, false
	}
	if a.goal == 0 && a.kept.n > 0 {
		a.goal = a.kept.perSuccess()
	}
	// What the kept limit costs is not true any more.
	transition := max(a.kept.transition(), a.window.transition())
	a.limit = max(int(float64(a.limit)/limitWide), a.bounds.Min)
	a.kept, a.trial, a.starting, a.primed = limitCost{}, limitKept, false, true
	a.begin(now, transition)
	return a.limit, true
}

// probeTimes knows how long a probe usually takes.
type probeTimes struct {
	usual float64 // ns
	slow  int     // probes in a row that took longer
}

// risen takes how long a probe took, and reports the second one in a row that
// took clearly longer than usual. What lasts becomes usual.
func (p *probeTimes) risen(took int64) bool {
	t := float64(took)
	if p.usual == 0 {
		p.usual = t
		return false
	}
	slow := t > 2*p.usual+float64(2*time.Millisecond)
	p.usual += (t - p.usual) / 8
	if !slow {
		p.slow = 0
		return false
	}
	p.slow++
	return p.slow%2 == 0
}

// Samples returns the number of requests since the latest decision, and the time
// that the container spent on them.
func (a *AutoLimit) Samples() (n int, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.window.n), time.Duration(a.window.sum)
}
