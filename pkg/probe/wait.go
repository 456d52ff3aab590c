package probe

import (
	"context"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// Try returns the result for c if that needs no wait. If it does, ok is false,
// what the result needs is under way, and Wait will wait for it.
func (r *Readiness) Try(c gate.Caller) (result gate.ReadinessResult, ok bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.judge(c, now, now)
	return v.result, v.wait == nil || v.limit <= 0
}

// Wait returns the result for c, with a reason of at most 256 bytes. A caller
// is held while a container with an adaptive probe is not ready, and until a
// fresh check has ended where the contract wants one, at most as long as
// Options and specs allow or until ctx ends. With a period a kubelet gets the
// last raw result, because it applies the thresholds itself, and its tick
// counts as due.
func (r *Readiness) Wait(ctx context.Context, c gate.Caller) gate.ReadinessResult {
	arrived := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addWaiting(1)
	defer r.addWaiting(-1)
	for {
		now := time.Now()
		v := r.judge(c, arrived, now)
		left := v.limit - now.Sub(arrived)
		if v.wait == nil || left <= 0 || ctx.Err() != nil {
			return v.result
		}
		r.mu.Unlock()
		timer.Reset(left)
		select {
		case <-v.wait:
		case <-timer.C:
		case <-ctx.Done():
		}
		r.mu.Lock()
	}
}

// judgement is the result for now. If waiting can change it, wait is what to
// wait for, and limit is the longest wait since the caller's arrival.
type judgement struct {
	result gate.ReadinessResult
	wait   <-chan struct{}
	limit  time.Duration
}

// judge requires the lock.
func (r *Readiness) judge(c gate.Caller, arrived, now time.Time) judgement {
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
	wait  <-chan struct{}
	held  bool
}

// verdict may demand an attempt.
func (c *container) verdict(caller gate.Caller, arrived, now time.Time) verdict {
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
	return verdict{cause: cause, wait: c.completed.wait()}
}

func (c *container) adaptiveVerdict(arrived, now time.Time) verdict {
	if c.state != Ready {
		return verdict{cause: c.standing(), wait: c.changed.wait(), held: true}
	}
	// The second rule ends the wait even if Freshness is shorter than it takes
	// a caller to wake up.
	age := now.Sub(c.evidence)
	if age <= c.r.freshness || age <= defaultFreshness && !c.evidence.Before(arrived) {
		return verdict{}
	}
	c.demand()
	return verdict{cause: check.Cause{Kind: check.CauseTimeout}, wait: c.completed.wait()}
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
