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
	v := r.judge(c, now, now)
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
	return r.judge(c, arrived, time.Now()).result
}

// Await calls notify with the result for c, with a reason of at most 256 bytes. A
// caller waits while a container with an adaptive probe is not ready, and until a
// fresh check has ended if one is needed, at most as long as Options and specs
// allow. For a probe with a period, a kubelet gets the last raw result, because it
// applies the thresholds itself, and its tick counts as due.
//
// notify is called once, with the lock held, unless cancel is called before.
func (r *Readiness) Await(c gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	w := &waiter{r: r, caller: c, arrived: time.Now(), notify: notify}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addWaiting(1)
	w.judge()
	return w.cancel
}

// waiter is a waiting caller, guarded by Readiness.mu.
type waiter struct {
	r       *Readiness
	caller  gate.Prober
	arrived time.Time
	notify  func(gate.ReadinessResult)
	on      *broadcast  // the broadcast that w waits for; nil if woken or over
	timer   *time.Timer // ends the wait
	over    bool
}

// judge settles w, or makes it wait for the next event that can change the result.
func (w *waiter) judge() {
	now := time.Now()
	v := w.r.judge(w.caller, w.arrived, now)
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
	w.over = true
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
	if !w.over {
		if w.on != nil {
			w.on.remove(w)
		}
		w.judge()
	}
}

func (w *waiter) cancel() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if !w.over {
		w.end()
	}
}

// fire wakes the waiters of b. settle evaluates them once the change that woke them
// is complete. The caller holds the lock.
func (r *Readiness) fire(b *broadcast) {
	for w := range b.waiters {
		w.on = nil
		r.woken = append(r.woken, w)
	}
	b.waiters = nil // free the map while there are no waiters
}

// settle evaluates the waiters that fire has woken. The caller holds the lock, and
// releases it next.
func (r *Readiness) settle() {
	woken := r.woken
	r.woken = nil
	for _, w := range woken {
		w.judge()
	}
}

// judgement is the result for now. If waiting can change it, wait is what to
// wait for, and limit is the longest wait since the caller's arrival.
type judgement struct {
	result gate.ReadinessResult
	wait   *broadcast
	limit  time.Duration
}

// judge requires the lock.
func (r *Readiness) judge(c gate.Prober, arrived, now time.Time) judgement {
	j := judgement{result: gate.ReadinessResult{Ready: true}, limit: r.checkWait}
	var reason reason
	final := false
	for _, container := range r.containers {
		v := container.verdict(c, arrived, now)
		if r.stopped {
			v = verdict{cause: check.Cause{Kind: check.CauseStopped}}
		}
		if v.wait != nil && j.wait == nil {
			j.wait = v.wait
		}
		if v.held {
			j.limit = r.wait
		}
		if v.cause.Kind != check.CauseNone {
			j.result.Ready = false
			reason.add(container.spec.Container, v.cause)
			final = final || v.wait == nil // no other container can make up for it
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

// verdict is why one container is not ready, or the zero Cause. If waiting can
// change that, wait is what to wait for: with held, that it becomes ready, else
// that a check ends.
type verdict struct {
	cause check.Cause
	wait  *broadcast
	held  bool
}

// verdict may demand an attempt.
func (c *container) verdict(caller gate.Prober, arrived, now time.Time) verdict {
	if c.spec.Adaptive() {
		return c.adaptiveVerdict(arrived, now)
	}
	kubelet := caller == gate.Kubelet
	fresh := !c.ended.Before(arrived) // an attempt has ended since
	due := c.steady() && c.allowance.due(now.Sub(c.started), kubelet)
	if c.attempts > 0 && (fresh || !c.underWay && !due && (c.steady() || !kubelet)) {
		if kubelet {
			return verdict{cause: c.raw}
		}
		return verdict{cause: c.standing()}
	}
	if due && !fresh {
		c.demand()
	}
	cause := c.standing()
	if kubelet && (cause.Kind == check.CauseNone || c.underWay) {
		// Its own probe would have timed out too.
		cause = check.Cause{Kind: check.CauseTimeout}
	}
	return verdict{cause: cause, wait: &c.completed}
}

func (c *container) adaptiveVerdict(arrived, now time.Time) verdict {
	if c.state != Ready {
		return verdict{cause: c.standing(), wait: &c.changed, held: true}
	}
	// The second rule ends the wait even if Freshness is shorter than it takes
	// a caller to wake up.
	age := now.Sub(c.evidence)
	if age <= c.r.freshness || age <= defaultFreshness && !c.evidence.Before(arrived) {
		return verdict{}
	}
	c.demand()
	return verdict{cause: check.Cause{Kind: check.CauseTimeout}, wait: &c.completed}
}

// standing is the state with the thresholds applied, as a cause.
func (c *container) standing() check.Cause {
	if c.state == Ready {
		return check.Cause{}
	}
	if c.cause.Kind == check.CauseNone {
		return check.Cause{Kind: check.CauseUnknown}
	}
	return c.cause
}

const maxReason = 256

// reason collects "name: cause; name: cause".
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
