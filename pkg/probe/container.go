package probe

import (
	"context"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// container is a checked container. Readiness.mu guards the fields after started.
type container struct {
	r       *Readiness
	spec    Spec
	isUser  bool          // Observed applies to this container; see Options.UserPort
	wake    chan struct{} // capacity 1; makes loop test again whether a check is due
	started time.Time     // history and allowance count time from here

	state           State
	stateSince      time.Time
	attemptsInState uint64 // number of checks since the last change of state
	cause           check.Cause
	logLimiter      logLimiter
	attempts        uint64
	reached         uint64

	history   history
	allowance allowance
	successes int // number of consecutive successes
	failures  int // number of consecutive failures
	jitter    float64
	// starting is true at the start, after a refused connection, and after Resume. It
	// becomes false when the container is ready. Only probes with a period use it.
	starting bool

	checkBegan  time.Time // start of the last check
	checkEnded  time.Time // end of the last check; zero = none
	reachedAt   time.Time // start of the last check that reached the application
	lastSuccess time.Time
	// rawCause is the reason why the last check failed; zero = it succeeded. The
	// thresholds of the spec do not affect it. A kubelet gets this result, because it
	// applies the thresholds itself.
	rawCause   check.Cause
	inProgress bool
	// superseded is true if the check in progress began before Observed reported a
	// refused connection. A success of this check does not count.
	superseded bool
	// ignored is true if the check in progress began before Suspend. Its result does not
	// count.
	ignored  bool
	demanded bool // a prober needs a check now

	changed   broadcast // woken by a change of state
	completed broadcast // woken by the end of a check
}

type broadcast struct{ waiters map[*waiter]struct{} }

func (b *broadcast) add(w *waiter) {
	if b.waiters == nil {
		b.waiters = map[*waiter]struct{}{}
	}
	b.waiters[w] = struct{}{}
	w.awaited = b
}

func (b *broadcast) remove(w *waiter) {
	delete(b.waiters, w)
	w.awaited = nil
}

func newContainer(r *Readiness, spec Spec, isUser bool, now time.Time) *container {
	return &container{
		r: r, spec: spec, isUser: isUser,
		wake: make(chan struct{}, 1), started: now,
		stateSince: now, cause: check.Cause{Kind: check.CauseUnknown}, rawCause: check.Cause{Kind: check.CauseUnknown},
		allowance: allowance{period: spec.Period}, starting: true,
	}
}

// loop runs checks until ctx ends. Only loop uses the checker and the pauses.
func (c *container) loop(ctx context.Context) {
	pauses := newPauses(c.r.newAlarm)
	defer pauses.end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pauses.timer.C:
		case <-pauses.fired:
			pauses.set = false
		case <-c.wake:
		}
		for {
			wait := c.begin(time.Now())
			if wait > 0 {
				pauses.begin(wait)
				break
			}
			if !c.attempt(ctx) {
				return
			}
		}
	}
}

// attempt runs one check. It returns false if ctx ended.
func (c *container) attempt(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, c.spec.Timeout)
	from := time.Now()
	result := c.spec.Checker.Check(limited)
	cancel()
	if ctx.Err() != nil {
		return false
	}
	now := time.Now()
	if c.r.onCheck != nil {
		c.r.onCheck(c.spec.Index, now.Sub(from))
	}
	c.end(result, now)
	return true
}

// begin starts a check and returns 0 if a check is due. Otherwise it returns the time
// until the next check.
func (c *container) begin(now time.Time) time.Duration {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.state == Asleep {
		return asleepPause
	}
	if wait := c.nextAt(c.r.waiting > 0).Sub(now); wait > 0 {
		return wait
	}
	if c.startupDone() {
		c.allowance = c.allowance.spend(now.Sub(c.started))
	}
	c.checkBegan, c.inProgress, c.superseded, c.demanded = now, true, false, false
	return 0
}

// startupDone reports whether the probe has a period and the container has finished its
// start. From then on, allowance limits the checks to one per period.
func (c *container) startupDone() bool { return !c.spec.Adaptive() && !c.starting }

// nextAt returns when the next check is due.
func (c *container) nextAt(waiting bool) time.Time {
	delay := c.history.delay(c.checkBegan.Sub(c.started), waiting, c.jitter)
	adaptive := c.spec.Adaptive()
	// With a period, a starting application gets at most one check per 200 ms.
	floor := c.reachedAt.Add(min(c.spec.Period, startingPeriod))
	switch {
	case c.attempts == 0, c.demanded && (adaptive || c.startupDone()):
		return time.Time{}
	case c.startupDone():
		return c.started.Add(c.allowance.next)
	case adaptive && c.history.last != refusing:
		return c.checkEnded.Add(delay)
	case !adaptive && (c.demanded || c.reachedAt.Equal(c.checkBegan) || floor.After(c.checkBegan.Add(delay))):
		return floor
	}
	return c.checkBegan.Add(delay)
}

func (c *container) end(result check.Result, now time.Time) {
	c.r.mu.Lock()
	c.inProgress = false
	c.attempts++
	c.attemptsInState++
	c.checkEnded = now
	if result.Reached {
		c.reached++
		c.reachedAt = c.checkBegan
	}
	if c.state == Asleep || c.ignored {
		c.ignored = false
	} else if c.superseded && result.Cause.Kind == check.CauseNone {
		// This success may be older than the refused connection, so check again.
		c.demanded = true
	} else {
		c.update(result, now)
	}
	c.r.wakeAll(&c.completed)
	changed := len(c.r.changes) > 0
	c.r.evaluateWoken()
	c.r.mu.Unlock()
	if changed {
		c.r.notify()
	}
}

// update requires the lock.
func (c *container) update(result check.Result, now time.Time) {
	c.rawCause = result.Cause
	c.jitter = gate.Jitter()
	if result.Cause.Kind == check.CauseNone {
		c.successes, c.failures = c.successes+1, 0
		c.lastSuccess = now
	} else {
		c.successes, c.failures = 0, c.failures+1
	}
	to := nextState(c.state, &c.spec, result.Cause, c.successes, c.failures)
	c.cause = result.Cause
	seen := evidenceOf(result)
	if to == Failing && result.Cause.Kind == check.CauseNone {
		c.cause = check.Cause{Kind: check.CauseConfirming}
		// The schedule treats this success like a failure, so that checks stay frequent
		// until successThreshold is reached.
		seen = responding
	}
	c.history = c.history.withCheck(seen, now.Sub(c.started))
	switch {
	case to == Down:
		c.starting = true
	case to == Ready && c.starting:
		c.starting = false
		c.allowance.next = c.reachedAt.Add(c.spec.Period).Sub(c.started)
	}
	if to != c.state {
		c.enter(to, now)
	}
}

// enter requires the lock.
func (c *container) enter(to State, now time.Time) {
	c.r.changes = append(c.r.changes, Change{
		Container: c.spec.Container, Index: c.spec.Index,
		From: c.state, To: to, Cause: c.cause,
		After: now.Sub(c.stateSince), Attempts: c.attemptsInState,
		Quiet: !c.logLimiter.allow(now),
	})
	c.state, c.stateSince, c.attemptsInState = to, now, 0
	c.r.wakeAll(&c.changed)
}

// asleepPause is the longest pause of loop while the container is suspended; resume
// ends it.
const asleepPause = 24 * time.Hour

// suspend requires the lock.
func (c *container) suspend(now time.Time) {
	c.ignored = c.inProgress
	c.cause = check.Cause{}
	c.enter(Asleep, now)
	c.r.wakeAll(&c.completed)
}

// resume resets everything except the counters. It requires the lock.
func (c *container) resume(now time.Time) {
	c.cause, c.rawCause = check.Cause{Kind: check.CauseUnknown}, check.Cause{Kind: check.CauseUnknown}
	c.enter(Unknown, now)
	// The change to Unknown is not logged, because the next check soon causes another
	// one.
	c.r.changes[len(c.r.changes)-1].Quiet = true
	c.started, c.history, c.allowance, c.starting = now, history{}, allowance{period: c.spec.Period}, true
	c.successes, c.failures, c.demanded, c.superseded = 0, 0, false, false
	c.checkBegan, c.checkEnded, c.reachedAt, c.lastSuccess = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	c.reschedule()
}

// noteRefused handles a refused connection of a request. A Ready or Failing container
// becomes Down. The caller must hold the lock.
func (c *container) noteRefused(now time.Time) {
	if c.state == Down || c.state == Unknown {
		return
	}
	c.superseded = c.inProgress
	c.update(check.Result{Cause: check.Cause{Kind: check.CauseRefused}}, now)
	c.r.wakeAll(&c.completed)
	c.reschedule()
}

// demand makes a check due now. It requires the lock.
func (c *container) demand() {
	if !c.inProgress && !c.demanded {
		c.demanded = true
		c.reschedule()
	}
}

// reschedule makes the loop compute again when the next check is due.
func (c *container) reschedule() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *container) snapshot() gate.ContainerState {
	s := gate.ContainerState{
		Container: c.spec.Container, Probe: c.spec.String(), State: c.state.String(), Ready: c.state == Ready || c.state == Asleep,
		Attempts: c.attempts, Reached: c.reached,
	}
	if !s.Ready {
		s.Reason = c.stateCause().String()
	}
	return s
}
