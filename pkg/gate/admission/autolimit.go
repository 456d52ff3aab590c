package admission

import (
	"math"
	"sync"
	"time"
)

// What the limiter goes by. The values were chosen with the models of containers
// in autolimit_test.go; docs/overload.md has the figures.
const (
	initialLimit    = 4 // first limit, if the range allows
	minSamples      = 20
	minHarmSamples  = 5                              // which can show that a trial does harm
	minWindow       = int64(100 * time.Millisecond)  // shortest
	minTrialTime    = int64(500 * time.Millisecond)  // of short requests, if it is not clear before
	trialPause      = int64(2000 * time.Millisecond) // between trials
	minDownInterval = int64(4 * time.Second)         // least between two that go down
	costMemory      = int64(3 * time.Second)         // of what the kept limit costs
	jumpRatio       = 1.3                            // a cost that is this many times what it was has jumped
	recoveredRatio  = 1.1                            // one within this has come back
	// factors of one trial
	minStep     = 1.05
	largeStep   = 1.4
	maxStep     = 2.0
	maxJumpStep = 4.0 // after a jump
	// variance of a cost that can be relied on while starting
	knownVariance = 0.15 * 0.15
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

	mu            sync.Mutex
	limit         int       // of now
	baseline      limitCost // of the limit that is kept; n = 0: not known
	window        limitCost // of the limit of now, since the latest decision
	countFrom     int64     // later samples count
	trial         trialKind
	step          float64 // factor of the trial
	narrowing     bool    // a higher limit was too high: steps become smaller
	starting      bool    // none was yet
	primed        bool    // the first window, of a container that began empty, is over
	targetCost    float64 // cost before it jumped; 0 = it has not
	nextTrial     int64   // no trial before
	nextDownTrial int64   // none downwards before
	probes        probeTimes
}

// trialKind is what limit is in force.
type trialKind uint8

const (
	noTrial   trialKind = iota // the one that is kept
	trialUp                    // a higher one, on trial
	trialDown                  // a lower one, on trial
)

// NewAutoLimit starts at a small limit.
func NewAutoLimit(r LimitRange) *AutoLimit {
	a := &AutoLimit{bounds: r, limit: min(max(initialLimit, r.Min), r.Max), step: maxStep, starting: true}
	a.window.limit = a.limit
	return a
}

// Limit is the limit of now.
func (a *AutoLimit) Limit() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit
}

// AddSample takes the sample of a request that held a slot: when it ended, how long
// the container took to answer, in ns, or to fail in a way that speaks of
// overload; and how many were in flight. It returns the limit, and whether that
// has moved.
func (a *AutoLimit) AddSample(now, took int64, failed bool, inFlight int) (limit int, moved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now < a.countFrom {
		a.window.peak = max(a.window.peak, inFlight)
		return a.limit, false
	}
	a.window.add(took, failed, inFlight)
	if (a.window.n < minSamples || now-a.countFrom < minWindow) && !a.clearlyTooHigh() {
		return a.limit, false
	}
	before := a.limit
	switch {
	case a.baseline.n > 0 && a.costJumped():
		if a.targetCost == 0 {
			a.targetCost = a.baseline.costPerSuccess()
		}
		a.setBaseline(now)
		a.descend(now)
	case a.trial == noTrial:
		a.updateBaseline(now)
	default:
		if tooHigh, over := a.judge(now); over {
			a.decide(now, tooHigh)
		}
	}
	return a.limit, a.limit != before
}

// updateBaseline looks at a window of the kept limit.
func (a *AutoLimit) updateBaseline(now int64) {
	w := &a.window
	age := float64(now - a.countFrom)
	if a.baseline.n == 0 {
		a.measureBaseline(now, age)
		return
	}
	if age < float64(2*minWindow) || age < 5*w.latency() {
		return
	}
	used := w.reached()
	if now-a.baseline.since > costMemory {
		a.baseline.halve()
		a.baseline.since = now - costMemory/2
	}
	a.baseline.merge(w)
	a.startWindow(now, 0)
	if !used || now < a.nextTrial {
		return
	}
	a.step, a.narrowing, a.targetCost = a.minDetectableStep(), false, 0
	if a.starting {
		a.step = maxStep
	}
	if now >= a.nextDownTrial && a.limit > a.bounds.Min {
		// It takes one of the limit's slots away: the fewer, the less often.
		a.nextDownTrial = now + max(minDownInterval, 60*a.trialTime()/int64(a.limit))
		a.startTrial(now, trialDown)
		return
	}
	a.startTrial(now, trialUp)
}

// measureBaseline takes the first window of a limit whose cost is not known.
func (a *AutoLimit) measureBaseline(now int64, age float64) {
	if age < 3*a.window.latency() {
		return
	}
	if !a.primed {
		a.primed = true
		a.startWindow(now, a.window.settleTime())
		return
	}
	a.setBaseline(now)
	if a.targetCost > 0 {
		a.descend(now)
		return
	}
	a.startTrial(now, trialUp)
}

// costJumped reports whether the cost has risen without doubt, although the limit
// has not, or by more than a higher one can explain.
func (a *AutoLimit) costJumped() bool {
	rise := math.Log(a.window.costPerSuccess() / a.baseline.costPerSuccess())
	explained := 3 * math.Log(max(1, float64(a.limit)/float64(a.baseline.limit)))
	return rise-explained-3*math.Sqrt(a.window.variance()+a.baseline.variance()) > math.Log(jumpRatio)
}

// startWindow starts a window, in ns from now.
func (a *AutoLimit) startWindow(now int64, in float64) {
	a.window = limitCost{limit: a.limit}
	a.countFrom = now + int64(in)
}

// setBaseline makes the limit of now the one that is kept, at the cost of its window.
func (a *AutoLimit) setBaseline(now int64) {
	a.baseline, a.trial = a.window, noTrial
	a.baseline.since = a.countFrom
	a.startWindow(now, 0)
}

// startTrial moves the limit by a step for a trial, or rests where there is no room.
func (a *AutoLimit) startTrial(now int64, kind trialKind) {
	n := a.baseline.limit
	to := min(max(n+1, int(math.Round(float64(n)*a.step))), a.bounds.Max)
	if kind == trialDown {
		to = max(min(n-1, int(float64(min(n, a.baseline.peak))/a.step)), a.bounds.Min)
	}
	if to == n {
		a.revert(now)
		return
	}
	a.step = max(a.step, float64(to)/float64(n))
	a.limit, a.trial = to, kind
	a.startWindow(now, max(a.baseline.settleTime(), a.window.settleTime()))
}

// revert returns to the kept limit and rests.
func (a *AutoLimit) revert(now int64) {
	transition := 0.0
	if a.limit != a.baseline.limit {
		transition = max(a.baseline.settleTime(), a.window.settleTime())
	}
	a.limit, a.trial = a.baseline.limit, noTrial
	a.nextTrial = now + trialPause
	a.startWindow(now, transition)
}

// trialTime is how long a trial goes on that is not clear before.
func (a *AutoLimit) trialTime() int64 { return max(minTrialTime, int64(12*a.baseline.latency())) }

// minDetectableStep is the least that a trial can tell from none.
func (a *AutoLimit) minDetectableStep() float64 {
	samples := float64(a.trialTime()) * float64(a.limit) / a.baseline.latency()
	return min(max(minStep, math.Exp(3*math.Sqrt(a.baseline.variance()*a.baseline.n/samples))), largeStep)
}

// judge compares the limit on trial with the kept one. over is false where more
// has to be seen.
func (a *AutoLimit) judge(now int64) (tooHigh, over bool) {
	low, high := &a.baseline, &a.window
	if a.trial == trialDown {
		low, high = high, low
	}
	by, sigma := excessCost(low, high)
	age, latency, most := float64(now-a.countFrom), a.window.latency(), float64(a.trialTime())
	switch {
	case by > 2.5*sigma:
		return true, true
	case by < -2*sigma && age >= 3*latency && (a.window.variance() < knownVariance || age >= most):
		return false, true
	case age >= max(most, 12*latency) && (math.Abs(by) > sigma || age > 3*most):
		return by > 0, true
	}
	return false, false
}

// clearlyTooHigh reports that a higher limit is too high beyond doubt, which few samples
// show where requests are alike: each one more is slow.
func (a *AutoLimit) clearlyTooHigh() bool {
	if a.trial != trialUp || a.window.n < minHarmSamples {
		return false
	}
	by, sigma := excessCost(&a.baseline, &a.window)
	return by > 5*max(sigma, math.Sqrt(a.baseline.variance()*a.baseline.n/a.window.n))
}

// decide ends a trial: of the two limits, the higher one is too high, or not.
func (a *AutoLimit) decide(now int64, tooHigh bool) {
	switch {
	case a.trial == trialDown && tooHigh:
		a.setBaseline(now)
		a.descend(now)
	case a.trial == trialDown:
		a.revert(now)
		a.nextTrial = now
	case !tooHigh:
		a.ascend(now)
	case a.starting && a.baseline.variance()+a.window.variance() > knownVariance:
		// Few samples of the container's first moments are no reason to give up.
		a.revert(now)
		a.nextTrial = now
	default:
		a.narrowing, a.starting = true, false
		a.step = math.Sqrt(a.step)
		if a.limit == a.baseline.limit+1 || a.step < minStep {
			a.revert(now)
			return
		}
		a.startTrial(now, trialUp)
	}
}

// ascend keeps a higher limit and goes on.
func (a *AutoLimit) ascend(now int64) {
	used, before := a.window.reached(), a.baseline
	a.setBaseline(now)
	// It costs what the lower one did. What was known of that evens out that a
	// window which happens to be cheap ends its trial early.
	before.halve()
	before.peak = a.baseline.peak
	a.baseline.merge(&before)
	if a.narrowing {
		a.step = math.Sqrt(a.step)
	} else {
		a.step = min(a.step*a.step, maxStep)
	}
	if a.step < minStep || !used {
		a.revert(now)
		return
	}
	a.startTrial(now, trialUp)
}

// descend goes on downwards from a kept limit: after a jump until the cost is
// what it was, else as long as that lowers the cost.
func (a *AutoLimit) descend(now int64) {
	if a.targetCost == 0 {
		a.step = min(a.step*a.step, maxStep)
		a.startTrial(now, trialDown)
		return
	}
	if r := a.baseline.costPerSuccess() / a.targetCost; r > recoveredRatio {
		// Where throughput falls as the limit rises, latency grows with its square
		// at the least: the root does not lead too far down.
		a.step = min(max(math.Sqrt(r), recoveredRatio), maxJumpStep)
		a.startTrial(now, trialDown)
		return
	}
	a.targetCost = 0
	a.step, a.narrowing = 1.1, true
	a.startTrial(now, trialUp)
}

// AddProbe takes how long a probe of the container took, in ns, and how many were
// in flight: a limit that was not reached is not the cause. It returns the
// limit, and whether that has moved.
func (a *AutoLimit) AddProbe(now, took int64, inFlight int) (limit int, moved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.probes.risen(took) || a.limit == a.bounds.Min || float64(inFlight) < 0.8*float64(a.limit) {
		return a.limit, false
	}
	if a.targetCost == 0 && a.baseline.n > 0 {
		a.targetCost = a.baseline.costPerSuccess()
	}
	// What the kept limit costs is not true any more.
	transition := max(a.baseline.settleTime(), a.window.settleTime())
	a.limit = max(int(float64(a.limit)/largeStep), a.bounds.Min)
	a.baseline, a.trial, a.starting, a.primed = limitCost{}, noTrial, false, true
	a.startWindow(now, transition)
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
