package admission

import (
	"math"
	"sync"
	"time"
)

// Parameters of AutoLimit. The values were chosen with the container models in
// autolimit_test.go; docs/overload.md shows the results.
const (
	initialLimit    = 4                              // the first limit, if the range includes it
	minSamples      = 20                             // number of samples needed for a decision
	minHarmSamples  = 5                              // number of samples after which a clearly harmful trial may end
	minWindow       = int64(100 * time.Millisecond)  // minimum duration of a window
	minTrialTime    = int64(500 * time.Millisecond)  // minimum duration of a trial whose result is inconclusive
	trialPause      = int64(2000 * time.Millisecond) // pause after a trial
	minDownInterval = int64(4 * time.Second)         // minimum time between two trials of a lower limit
	// If too few requests end during a trial of a lower limit, CheckStall ends the
	// trial. The next regular trial of a lower limit then begins after stalledDownPause
	// at the earliest.
	stalledDownPause = int64(60 * time.Second)
	costMemory       = int64(3 * time.Second) // age at which baseline samples lose half their weight
	jumpRatio        = 1.3                    // an increase of the cost by this factor counts as a jump
	recoveredRatio   = 1.1                    // a cost within this factor of its value before the jump counts as recovered
	maxSampleRatio   = 20.0                   // one sample counts as at most this multiple of the mean time
	// A limit counts as stalled if all its slots are in use and no sample arrives for a
	// certain time. This time is firstStall while the latency of the baseline is
	// unknown. After that it is ten times the latency, but at least minStall.
	firstStall = int64(5 * time.Second)
	minStall   = int64(time.Second)
	// A step is the factor by which one trial raises or lowers the limit.
	minStep     = 1.05
	largeStep   = 1.4
	maxStep     = 2.0
	maxJumpStep = 4.0 // maximum step of a trial that lowers the limit after a cost jump
	// A cost counts as known if the variance of its logarithm is at most knownVariance.
	// This value corresponds to a standard error of 15 %.
	knownVariance = 0.15 * 0.15
)

// AutoLimit finds the concurrency limit of a container. It compares two limits: the
// baseline, and a higher or lower limit on trial. For each limit it measures the cost,
// which is the time that requests spend in slots divided by the number of successes.
// AutoLimit adopts the higher limit if its cost is higher by a factor of less than the
// square root of the ratio of the limits. Otherwise it adopts the lower limit. So it
// converges to the limit with the greatest power, which is throughput divided by
// latency (Kleinrock 1979).
//
//   - Each trial changes the limit by a factor, the step. The step grows until a trial
//     rejects a limit. From then on each step is the square root of the previous one.
//     When it becomes smaller than minStep, trials pause.
//   - After the pause, AutoLimit tries a higher limit again, and occasionally a lower
//     one.
//   - If the cost rises suddenly and a change of the limit cannot explain it, AutoLimit
//     lowers the limit step by step until the cost has recovered. If a lower limit does
//     not lower the cost, the limit is not the cause, and AutoLimit undoes that step.
//   - A failure (503, reset, timeout) adds to the cost but not to the successes.
//   - Readiness checks that take longer than usual also lower the limit, even while no
//     request ends.
//   - Long requests, such as tunnels, must not freeze the limit. A limit has stalled if
//     all slots are in use, requests are queued and no sample arrives. Then a trial of
//     a lower limit ends. In other cases the limit grows by one slot at a time, up to
//     twice the baseline.
//   - One sample counts as at most maxSampleRatio times the mean, so that one long
//     request does not distort the cost.
type AutoLimit struct {
	bounds LimitRange

	mu            sync.Mutex
	limit         int       // in force
	baseline      limitCost // cost of the baseline limit; n = 0: not known
	window        limitCost // cost of the limit in force since the latest decision
	countFrom     int64     // samples before this instant are ignored
	trial         trialKind
	step          float64 // factor by which a trial changes the limit
	narrowing     bool    // a trial has found a limit too high, so steps shrink
	starting      bool    // no trial has found a limit too high yet
	primed        bool    // the first window, which began with an empty container, is over
	targetCost    float64 // cost before it jumped; 0 = no jump
	nextTrial     int64   // earliest instant of the next trial
	nextDownTrial int64   // earliest instant of the next trial of a lower limit
	checks        checkTimes
	sampledAt     int64 // time of the latest sample, change of the limit or check for a stall; 0 = none yet
}

// trialKind tells which limit is in force.
type trialKind uint8

const (
	noTrial   trialKind = iota // the baseline limit
	trialUp                    // a higher limit, on trial
	trialDown                  // a lower limit, on trial
)

// NewAutoLimit returns an AutoLimit that starts at a small limit within r.
func NewAutoLimit(r LimitRange) *AutoLimit {
	a := &AutoLimit{bounds: r, limit: min(max(initialLimit, r.Min), r.Max), step: maxStep, starting: true}
	a.window.limit = a.limit
	return a
}

// Limit returns the limit in force.
func (a *AutoLimit) Limit() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit
}

// AddSample adds a request that held a slot and ended at now. The parameter took is the
// time in ns until its response or failure. The parameter failed is true if the request
// failed in a way that indicates an overloaded container. The parameter inFlight is the
// number of requests in flight. AddSample returns the limit in force and whether it
// changed.
func (a *AutoLimit) AddSample(now, took int64, failed bool, inFlight int) (limit int, moved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sampledAt = now
	if now < a.countFrom {
		a.window.peak = max(a.window.peak, inFlight)
		return a.limit, false
	}
	if a.baseline.n > 0 {
		took = min(took, int64(maxSampleRatio*a.baseline.latency()))
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
		if tooHigh, isDecided := a.judge(now); isDecided {
			a.decide(now, tooHigh)
		}
	}
	return a.limit, a.limit != before
}

// updateBaseline adds a window at the baseline limit and starts a trial if one is due.
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
	if now-a.baseline.began > costMemory {
		a.baseline.halve()
		a.baseline.began = now - costMemory/2
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
		// Trials of a lower limit take slots away, so they are less frequent at small
		// limits.
		a.nextDownTrial = now + max(minDownInterval, 60*a.trialTime()/int64(a.limit))
		a.startTrial(now, trialDown)
		return
	}
	a.startTrial(now, trialUp)
}

// measureBaseline handles a window of a limit whose cost is not known yet.
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

// costJumped reports whether the cost has risen significantly, beyond what an increase
// of the limit can explain.
func (a *AutoLimit) costJumped() bool {
	rise := math.Log(a.window.costPerSuccess() / a.baseline.costPerSuccess())
	explained := 3 * math.Log(max(1, float64(a.limit)/float64(a.baseline.limit)))
	return rise-explained-3*math.Sqrt(a.window.variance()+a.baseline.variance()) > math.Log(jumpRatio)
}

// startWindow discards the samples of the current window and begins a new one after the
// given delay in ns. Samples that arrive during the delay are ignored.
func (a *AutoLimit) startWindow(now int64, delay float64) {
	a.window = limitCost{limit: a.limit}
	a.countFrom = now + int64(delay)
}

// setBaseline makes the limit in force the baseline. The cost measured in the current
// window becomes the baseline's cost. A trial in progress ends, and a new window begins.
func (a *AutoLimit) setBaseline(now int64) {
	a.baseline, a.trial = a.window, noTrial
	a.baseline.began = a.countFrom
	a.startWindow(now, 0)
}

// startTrial raises or lowers the limit by the factor step. If the bounds permit no other
// limit, it returns to the baseline limit and pauses trials.
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

// revert returns to the baseline limit and pauses trials.
func (a *AutoLimit) revert(now int64) {
	transition := 0.0
	if a.limit != a.baseline.limit {
		transition = max(a.baseline.settleTime(), a.window.settleTime())
	}
	a.limit, a.trial = a.baseline.limit, noTrial
	a.nextTrial = now + trialPause
	a.startWindow(now, transition)
}

// trialTime is the duration after which an inconclusive trial ends.
func (a *AutoLimit) trialTime() int64 { return max(minTrialTime, int64(12*a.baseline.latency())) }

// minDetectableStep is the smallest step whose effect a trial can detect.
func (a *AutoLimit) minDetectableStep() float64 {
	samples := float64(a.trialTime()) * float64(a.limit) / a.baseline.latency()
	return min(max(minStep, math.Exp(3*math.Sqrt(a.baseline.variance()*a.baseline.n/samples))), largeStep)
}

// judge compares the limit on trial with the baseline. The result isDecided is false if
// the trial needs more samples.
func (a *AutoLimit) judge(now int64) (tooHigh, isDecided bool) {
	low, high := &a.baseline, &a.window
	if a.trial == trialDown {
		low, high = high, low
	}
	excess, sigma := excessCost(low, high)
	age, latency, most := float64(now-a.countFrom), a.window.latency(), float64(a.trialTime())
	switch {
	case excess > 2.5*sigma:
		return true, true
	case excess < -2*sigma && age >= 3*latency && (a.window.variance() < knownVariance || age >= most):
		return false, true
	case age >= max(most, 12*latency) && (math.Abs(excess) > sigma || age > 3*most):
		return excess > 0, true
	}
	return false, false
}

// clearlyTooHigh reports whether a higher limit on trial is too high beyond doubt. Few
// samples suffice if all requests take similar times.
func (a *AutoLimit) clearlyTooHigh() bool {
	if a.trial != trialUp || a.window.n < minHarmSamples {
		return false
	}
	excess, sigma := excessCost(&a.baseline, &a.window)
	return excess > 5*max(sigma, math.Sqrt(a.baseline.variance()*a.baseline.n/a.window.n))
}

// decide ends a trial, which has compared the baseline with the limit on trial. The
// parameter tooHigh is the result: it is true if the higher one of these two limits is
// above the limit of greatest power. The lower one then becomes or stays the baseline.
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
		// The higher limit seems to be too high, but the result is uncertain because a
		// starting container has served few requests. Return to the baseline for one
		// window, then try a higher limit again without a pause.
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

// ascend makes the higher limit the baseline and tries the next one.
func (a *AutoLimit) ascend(now int64) {
	used, before := a.window.reached(), a.baseline
	a.setBaseline(now)
	// The measured cost of the new baseline is too low on average, because a trial ends
	// early if its first requests happen to be cheap. To reduce this error, add the
	// samples of the old baseline at half their weight. They are comparable, because the
	// cost per request is about the same at both limits.
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

// descend is called while the limit may be too high: after a cost jump, after slow
// readiness checks, and after a trial that has found the lower limit better. It starts a
// trial of a lower limit. But if the cost had risen and has now recovered, descend starts
// a trial of a higher limit instead.
func (a *AutoLimit) descend(now int64) {
	if a.targetCost == 0 {
		a.step = min(a.step*a.step, maxStep)
		a.startTrial(now, trialDown)
		return
	}
	if r := a.baseline.costPerSuccess() / a.targetCost; r > recoveredRatio {
		// r is the factor by which the cost exceeds its value before the jump. In the
		// container models, latency grows at most with the square of the limit, so the
		// limit is too high by a factor of at least the square root of r. A step of
		// this size therefore does not lower the limit too far.
		a.step = min(max(math.Sqrt(r), recoveredRatio), maxJumpStep)
		a.startTrial(now, trialDown)
		return
	}
	a.targetCost = 0
	a.step, a.narrowing = 1.1, true
	a.startTrial(now, trialUp)
}

// AddCheck adds a readiness check that took the given time in ns and ended at now. It
// lowers the limit if the checks have become slow and nearly all slots are in use. The
// parameter inFlight is the number of requests in flight. If it is far below the limit,
// the limit cannot be the cause of slow checks and does not change. AddCheck returns
// the limit in force and whether it changed.
func (a *AutoLimit) AddCheck(now, took int64, inFlight int) (limit int, moved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.checks.risen(took) || a.limit == a.bounds.Min || float64(inFlight) < 0.8*float64(a.limit) {
		return a.limit, false
	}
	if a.targetCost == 0 && a.baseline.n > 0 {
		a.targetCost = a.baseline.costPerSuccess()
	}
	// The cost of the baseline is no longer valid.
	transition := max(a.baseline.settleTime(), a.window.settleTime())
	a.limit = max(int(float64(a.limit)/largeStep), a.bounds.Min)
	a.baseline, a.trial, a.starting, a.primed = limitCost{}, noTrial, false, true
	a.startWindow(now, transition)
	return a.limit, true
}

// CheckStall changes the limit if it has stalled (see AutoLimit). It also ends a trial
// of a lower limit that still has too few samples after a long time. The caller calls
// it at least once per StallCheck while requests are queued. The parameter inFlight is
// the number of slots in use. CheckStall returns the limit in force and whether it
// changed.
func (a *AutoLimit) CheckStall(now int64, inFlight int) (limit int, moved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sampledAt == 0 {
		a.sampledAt = now
	}
	undecided := a.trial == trialDown && a.window.n < minSamples && now-a.countFrom > max(2*minStall, 3*a.trialTime())
	if !undecided && (now-a.sampledAt < a.stallTime() || inFlight < a.limit || a.checks.slow > 0) {
		return a.limit, false
	}
	a.sampledAt = now
	before := a.limit
	if a.trial == trialDown {
		a.revert(now)
		a.nextDownTrial = now + stalledDownPause
		return a.limit, a.limit != before
	}
	a.limit = max(a.limit, min(a.limit+1, a.bounds.Max, 2*max(a.baseline.limit, initialLimit)))
	if a.limit != before {
		if a.baseline.n > 0 {
			a.trial = trialUp
		}
		a.startWindow(now, 0)
	}
	return a.limit, a.limit != before
}

// StallCheck is the interval of CheckStall in ns.
const StallCheck = minStall

// stallTime returns the duration after which a limit counts as stalled if all slots are
// in use and no sample arrives.
func (a *AutoLimit) stallTime() int64 {
	if a.baseline.n == 0 {
		return firstStall
	}
	return max(minStall, int64(10*a.baseline.latency()))
}

// checkTimes tracks the usual duration of a readiness check.
type checkTimes struct {
	usual float64 // moving average of the durations, in ns; 0 = no check yet
	slow  int     // consecutive checks that took longer
}

// risen adds a check that took the given time in ns. Among consecutive checks that took
// more than twice the usual time plus 2 ms, it returns true for the second, the fourth
// and so on, so that a single slow check has no effect. The usual time is a moving
// average, so it adapts to a lasting increase.
func (p *checkTimes) risen(took int64) bool {
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

// Samples returns the number of requests since the latest decision and the total time
// that the container spent on them.
func (a *AutoLimit) Samples() (n int, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.window.n), time.Duration(a.window.sum)
}
