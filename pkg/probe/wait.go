package probe

import (
	"context"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// Try returns the result for c if it is known without waiting. Otherwise ok is
// false and the necessary checks are in progress; call Await to wait for them.
func (r *Readiness) Try(c gate.Prober) (result gate.ReadinessResult, ok bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.evaluate(c, now, now)
	return v.result, v.wait == nil || v.limit <= 0
}

// Wait is the blocking form of Await. If ctx ends first, it returns the result at
// that time.
func (r *Readiness) Wait(ctx context.Context, c gate.Prober) gate.ReadinessResult {
	arrived := time.Now()
	result := make(chan gate.ReadinessResult, 1)
	cancel := r.Await(c, func(v gate.ReadinessResult) { result <- v })
	select {
	case v := <-result:
		return v
	case <-ctx.Done():
	}
	cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.evaluate(c, arrived, time.Now()).result
}

// Await calls notify with the result for c, with a reason of at most 256 bytes. A
// caller waits while a container with an adaptive probe is not ready, and until a
// fresh check has ended if one is needed, at most as long as Options and specs
// allow. For a probe with a period, a kubelet gets the last raw result, because it
// applies the thresholds itself, and its tick counts as due.
//
// notify is called once, with the lock held, unless cancel is called before.
func (r *Readiness) Await(c gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	w := &waiter{r: r, prober: c, arrived: time.Now(), notify: notify}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addWaiting(1)
	w.evaluate()
	return w.cancel
}

// waiter is a waiting caller, guarded by Readiness.mu.
type waiter struct {
	r       *Readiness
	prober  gate.Prober
	arrived time.Time
	notify  func(gate.ReadinessResult)
	on      *broadcast  // the broadcast that w waits for; nil if woken or done
	timer   *time.Timer // ends the wait
	done    bool
}

// evaluate settles w, or makes it wait for the next event that can change the result.
func (w *waiter) evaluate() {
	now := time.Now()
	v := w.r.evaluate(w.prober, w.arrived, now)
	left := v.limit - now.Sub(w.arrived)
	switch {
	case v.wait == nil || left <= 0:
		w.end()
		w.notify(v.result)
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(left, w.expire)
	default:
		w.timer.Reset(left)
	}
	v.wait.add(w)
}

// end removes w from its broadcast and stops its timer.
func (w *waiter) end() {
	w.done = true
	if w.on != nil {
		w.on.remove(w)
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.r.addWaiting(-1)
}

func (w *waiter) expire() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if !w.done {
		if w.on != nil {
			w.on.remove(w)
		}
		w.evaluate()
	}
}

func (w *waiter) cancel() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if !w.done {
		w.end()
	}
}

// wakeAll wakes the waiters of b. settle evaluates them once the change that woke them
// is complete. The caller holds the lock.
func (r *Readiness) wakeAll(b *broadcast) {
	for w := range b.waiters {
		w.on = nil
		r.woken = append(r.woken, w)
	}
	b.waiters = nil // free the map while there are no waiters
}

// evaluateWoken evaluates the waiters that fire has woken. The caller holds the lock, and
// releases it next.
func (r *Readiness) evaluateWoken() {
	woken := r.woken
	r.woken = nil
	for _, w := range woken {
		w.evaluate()
	}
}

// evaluation is the current result. If waiting can change it, wait is the broadcast to
// wait for, and limit is the maximum wait since the prober's arrival.
type evaluation struct {
	result gate.ReadinessResult
	wait   *broadcast
	limit  time.Duration
}

// evaluate computes the result for c. The caller holds the lock.
func (r *Readiness) evaluate(c gate.Prober, arrived, now time.Time) evaluation {
	j := evaluation{result: gate.ReadinessResult{Ready: true}, limit: r.checkWait}
	var reason reason
	final := false
	for _, container := range r.containers {
		v := container.result(c, arrived, now)
		if r.stopped {
			v = containerResult{cause: check.Cause{Kind: check.CauseStopped}}
		}
		if v.wait != nil && j.wait == nil {
			j.wait = v.wait
		}
		if v.untilReady {
			j.limit = r.wait
		}
		if v.cause.Kind != check.CauseNone {
			j.result.Ready = false
			reason.add(container.spec.Container, v.cause)
			final = final || v.wait == nil // no other container can change the result
		}
	}
	if final {
		j.wait = nil
	}
	if c == gate.Kubelet {
		j.limit = min(j.limit, r.kubeletWait)
	}
	j.result.Reason = string(reason.text)
	return j
}

// containerResult is the reason why a container is not ready, or the zero Cause. If
// waiting can change it, wait is the broadcast to wait for: with untilReady, a change
// of state, otherwise the end of a check.
type containerResult struct {
	cause      check.Cause
	wait       *broadcast
	untilReady bool
}

// result returns the container's result for a prober, and may demand a check.
func (c *container) result(caller gate.Prober, arrived, now time.Time) containerResult {
	if c.state == Asleep {
		return containerResult{}
	}
	if c.spec.Adaptive() {
		return c.adaptiveResult(arrived, now)
	}
	kubelet := caller == gate.Kubelet
	fresh := !c.ended.Before(arrived) // an attempt has ended since
	due := c.startupDone() && c.allowance.due(now.Sub(c.started), kubelet)
	if c.attempts > 0 && (fresh || !c.inProgress && !due && (c.startupDone() || !kubelet)) {
		if kubelet {
			return containerResult{cause: c.rawCause}
		}
		return containerResult{cause: c.stateCause()}
	}
	if due && !fresh {
		c.demand()
	}
	cause := c.stateCause()
	if kubelet && (cause.Kind == check.CauseNone || c.inProgress) {
		// the kubelet's own check would also have timed out
		cause = check.Cause{Kind: check.CauseTimeout}
	}
	return containerResult{cause: cause, wait: &c.completed}
}

func (c *container) adaptiveResult(arrived, now time.Time) containerResult {
	if c.state != Ready {
		return containerResult{cause: c.stateCause(), wait: &c.changed, untilReady: true}
	}
	// The second condition ends the wait even if Freshness is shorter than the time in
	// which a prober wakes up.
	age := now.Sub(c.lastSuccess)
	if age <= c.r.freshness || age <= defaultFreshness && !c.lastSuccess.Before(arrived) {
		return containerResult{}
	}
	c.demand()
	return containerResult{cause: check.Cause{Kind: check.CauseTimeout}, wait: &c.completed}
}

// stateCause returns the cause of the state, with the thresholds applied.
func (c *container) stateCause() check.Cause {
	if c.state == Ready {
		return check.Cause{}
	}
	if c.cause.Kind == check.CauseNone {
		return check.Cause{Kind: check.CauseUnknown}
	}
	return c.cause
}

const maxReason = 256

// reason builds "name: cause; name: cause".
type reason struct{ text []byte }

func (r *reason) add(container string, cause check.Cause) {
	token := cause.Token()
	if len(r.text)+len(container)+len(token)+len("; : ") > maxReason-len("; ...") {
		if len(r.text) > 0 && r.text[len(r.text)-1] != '.' {
			r.text = append(r.text, "; ..."...)
		}
		return
	}
	if len(r.text) > 0 {
		r.text = append(r.text, "; "...)
	}
	r.text = append(r.text, container...)
	r.text = append(r.text, ": "...)
	r.text = append(r.text, token...)
}
