package probe

import (
	"context"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// Try returns the result for c if it is known without waiting. Otherwise ok is false,
// and the necessary checks have been requested. Call Await to wait for them.
func (r *Readiness) Try(c gate.Prober) (result gate.ReadinessResult, ok bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.evaluate(c, now, now)
	return v.result, v.wait == nil || v.limit <= 0
}

// Wait is like Await, but blocks. If ctx ends first, it returns the current result.
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

// Await calls notify with the result for the prober c. If a container with an adaptive
// probe is not ready, the prober waits until it is ready. If the last check of a
// container is too old, the prober waits for a new check. The Options and the timeouts in
// the Specs limit the wait.
//
// If a probe has a period, the kubelet gets the result of its last check, regardless of
// the thresholds. The kubelet applies the thresholds itself.
//
// Await calls notify once, possibly before it returns. The lock of r is held while notify
// runs. After cancel has returned, notify is not called.
func (r *Readiness) Await(c gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	w := &waiter{r: r, prober: c, arrived: time.Now(), notify: notify}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addWaiting(1)
	w.evaluate()
	return w.cancel
}

// waiter is a waiting prober. Readiness.mu guards it.
type waiter struct {
	r       *Readiness
	prober  gate.Prober
	arrived time.Time
	notify  func(gate.ReadinessResult)
	awaited *broadcast  // broadcast that w waits for; nil = none
	timer   *time.Timer // ends the wait at its limit
	done    bool
}

// evaluate notifies the prober if the result is final or the time limit has passed.
// Otherwise it makes w wait for the next event that can change the result.
func (w *waiter) evaluate() {
	now := time.Now()
	v := w.r.evaluate(w.prober, w.arrived, now)
	remaining := v.limit - now.Sub(w.arrived)
	switch {
	case v.wait == nil || remaining <= 0:
		w.end()
		w.notify(v.result)
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(remaining, w.expire)
	default:
		w.timer.Reset(remaining)
	}
	v.wait.add(w)
}

// end marks w as done, removes it from its broadcast and stops its timer.
func (w *waiter) end() {
	w.done = true
	if w.awaited != nil {
		w.awaited.remove(w)
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
		if w.awaited != nil {
			w.awaited.remove(w)
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

// wakeAll moves the waiters of b to r.woken. The caller holds the lock and later calls
// evaluateWoken.
func (r *Readiness) wakeAll(b *broadcast) {
	for w := range b.waiters {
		w.awaited = nil
		r.woken = append(r.woken, w)
	}
	b.waiters = nil // free the map
}

// evaluateWoken requires the lock.
func (r *Readiness) evaluateWoken() {
	woken := r.woken
	r.woken = nil
	for _, w := range woken {
		w.evaluate()
	}
}

// evaluation is the result that a prober would get at this moment.
type evaluation struct {
	result gate.ReadinessResult
	wait   *broadcast    // wakes the prober when the result may change; nil = final result
	limit  time.Duration // maximum wait, counted from the arrival of the prober
}

// evaluate requires the lock.
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
			// If a wait cannot make this container ready, it cannot make the pod ready
			// either. So the result is final, regardless of the other containers.
			final = final || v.wait == nil
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

// containerResult is the readiness of one container, as one prober gets it.
type containerResult struct {
	cause check.Cause // zero = ready
	wait  *broadcast  // wakes the prober when the result may change; nil = final result
	// untilReady means that the prober waits for the container to become ready, so that
	// Options.Wait limits the wait. Otherwise the prober waits for the end of a check.
	untilReady bool
}

// result may make a check due.
func (c *container) result(caller gate.Prober, arrived, now time.Time) containerResult {
	if c.state == Asleep {
		return containerResult{}
	}
	if c.spec.Adaptive() {
		return c.adaptiveResult(arrived, now)
	}
	kubelet := caller == gate.Kubelet
	isFresh := !c.checkEnded.Before(arrived) // a check has ended since the prober arrived
	due := c.startupDone() && c.allowance.due(now.Sub(c.started), kubelet)
	if c.attempts > 0 && (isFresh || !c.inProgress && !due && (c.startupDone() || !kubelet)) {
		if kubelet {
			return containerResult{cause: c.rawCause}
		}
		return containerResult{cause: c.stateCause()}
	}
	if due && !isFresh {
		c.demand()
	}
	cause := c.stateCause()
	if kubelet && (cause.Kind == check.CauseNone || c.inProgress) {
		// The kubelet gets this result if the wait ends before the check. If the kubelet
		// checked the container itself, that check would also exceed its timeout.
		cause = check.Cause{Kind: check.CauseTimeout}
	}
	return containerResult{cause: cause, wait: &c.completed}
}

func (c *container) adaptiveResult(arrived, now time.Time) containerResult {
	if c.state != Ready {
		return containerResult{cause: c.stateCause(), wait: &c.changed, untilReady: true}
	}
	// A success counts for the duration Freshness. If it came after the prober's arrival,
	// it counts for at least 1 s. Without this minimum, if Freshness were very short,
	// each success would be too old at once, and the prober would wait forever.
	age := now.Sub(c.lastSuccess)
	if age <= c.r.freshness || age <= defaultFreshness && !c.lastSuccess.Before(arrived) {
		return containerResult{}
	}
	c.demand()
	return containerResult{cause: check.Cause{Kind: check.CauseTimeout}, wait: &c.completed}
}

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

// reason builds "name: cause; name: cause", at most maxReason bytes.
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
