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
	result, wait := r.judge(c, now, now)
	return result, wait == nil || r.timeout(c) <= 0
}

// Wait returns the result for c, with a reason of at most 256 bytes. A caller
// is held while a container with an adaptive probe is not ready, and until a
// fresh check has ended where the contract wants one, at most as long as
// Options allow or until ctx ends. With a period a kubelet gets the last raw
// result, because it applies the thresholds itself, and its tick counts as due.
func (r *Readiness) Wait(ctx context.Context, c gate.Caller) gate.ReadinessResult {
	arrived := time.Now()
	timer := time.NewTimer(r.timeout(c))
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addWaiting(1)
	defer r.addWaiting(-1)
	for over := false; ; {
		result, wait := r.judge(c, arrived, time.Now())
		if wait == nil || over {
			return result
		}
		r.mu.Unlock()
		select {
		case <-wait:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			over = true
		}
		r.mu.Lock()
	}
}

// timeout is the longest time that c is held.
func (r *Readiness) timeout(c gate.Caller) time.Duration {
	if c == gate.Kubelet {
		return min(r.wait, r.kubeletWait)
	}
	return r.wait
}

// judge returns the result for now. If waiting can change it, wait is what to
// wait for, and the result is the one if time runs out. The caller holds the
// lock.
func (r *Readiness) judge(caller gate.Caller, arrived, now time.Time) (result gate.ReadinessResult, wait <-chan struct{}) {
	result.Ready = true
	var reason reason
	for _, c := range r.containers {
		cause, ch := c.verdict(caller, arrived, now)
		switch {
		case r.stopped:
			cause, ch = check.Cause{Kind: check.CauseStopped}, nil
		case ch != nil && wait == nil:
			wait = ch
		}
		if cause.Kind != check.CauseNone {
			result.Ready = false
			reason.add(c.spec.Container, cause)
		}
		// One that is final and not ready makes the result final.
		if cause.Kind != check.CauseNone && ch == nil {
			reason.final = true
		}
	}
	if reason.final {
		wait = nil
	}
	result.Reason = string(reason.text)
	return result, wait
}

// verdict is why the container is not ready, or the zero Cause. If waiting can
// change that, wait is what to wait for. It may demand an attempt.
func (c *container) verdict(caller gate.Caller, arrived, now time.Time) (cause check.Cause, wait <-chan struct{}) {
	if c.spec.Adaptive() {
		return c.adaptiveVerdict(arrived, now)
	}
	kubelet := caller == gate.Kubelet
	asked := !c.ended.Before(arrived) // an attempt has ended since
	due := c.steady() && c.allowance.due(now.Sub(c.started), kubelet)
	if c.attempts > 0 && (asked || !c.underWay && !due && (c.steady() || !kubelet)) {
		if kubelet {
			return c.raw, nil
		}
		return c.standing(), nil
	}
	if due && !asked {
		c.demand(kubelet)
	}
	if cause = c.standing(); kubelet && (cause.Kind == check.CauseNone || c.underWay) {
		// Its own probe would have timed out too.
		cause = check.Cause{Kind: check.CauseTimeout}
	}
	return cause, c.completed.wait()
}

func (c *container) adaptiveVerdict(arrived, now time.Time) (cause check.Cause, wait <-chan struct{}) {
	if c.state != Ready {
		return c.standing(), c.changed.wait()
	}
	// The second rule ends the wait even if Freshness is shorter than it takes
	// a caller to wake up.
	age := now.Sub(c.evidence)
	if age <= c.r.freshness || age <= defaultFreshness && !c.evidence.Before(arrived) {
		return check.Cause{}, nil
	}
	c.demand(false)
	return check.Cause{Kind: check.CauseTimeout}, c.completed.wait()
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
type reason struct {
	text  []byte
	final bool
}

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
