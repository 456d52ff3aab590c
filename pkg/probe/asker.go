package probe

import (
	"context"
	"time"
)

// Asker is who wants to know.
type Asker struct {
	// Kubelet: user agent kube-probe/. With a period it gets the last raw
	// result, because it applies the thresholds itself, and its tick counts as
	// due. It is answered within 900 ms, or within timeoutSeconds less 100 ms
	// if all containers have a period.
	Kubelet bool
	// Patience shortens the wait. 0 = as long as Options.Wait allows.
	Patience time.Duration
}

// Answer is the answer to an asker.
type Answer struct {
	Ready bool
	// Reason names the containers that are not ready and why, for
	// K-Readiness-Reason: "user-container: refused; sidecar: status 503". At
	// most 256 bytes, safe in a header. Empty when ready.
	Reason string
}

// Ask answers a. An asker is held while a container with an adaptive probe is
// not ready, and until a fresh look is taken where the contract wants one, at
// most until its patience or ctx ends.
func (r *Readiness) Ask(ctx context.Context, a Asker) Answer {
	arrived := time.Now()
	r.mu.Lock()
	answer, wait := r.judge(a, arrived, arrived)
	r.mu.Unlock()
	if wait == nil {
		return answer
	}
	return r.await(ctx, a, arrived)
}

// Try answers a if that needs no wait. If it does, settled is false, what the
// answer needs is under way, and Ask will wait for it.
func (r *Readiness) Try(a Asker) (answer Answer, settled bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	answer, wait := r.judge(a, now, now)
	return answer, wait == nil || r.patience(a) <= 0
}

func (r *Readiness) patience(a Asker) time.Duration {
	patience := r.wait
	if a.Kubelet {
		patience = min(patience, r.kubeletWait)
	}
	if a.Patience > 0 {
		patience = min(patience, a.Patience)
	}
	return patience
}

func (r *Readiness) await(ctx context.Context, a Asker, arrived time.Time) Answer {
	patience := r.patience(a)
	if patience <= 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		answer, _ := r.judge(a, arrived, arrived)
		return answer
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addWaiting(1)
	defer r.addWaiting(-1)
	for {
		answer, wait := r.judge(a, arrived, time.Now())
		if wait == nil {
			return answer
		}
		r.mu.Unlock()
		over := false
		select {
		case <-wait:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			over = true
		}
		r.mu.Lock()
		if over {
			answer, _ = r.judge(a, arrived, time.Now())
			return answer
		}
	}
}

// judge returns the answer for now. If waiting can change it, wait is what to
// wait for, and the answer is the one to give if patience ends. The caller
// holds the lock.
func (r *Readiness) judge(a Asker, arrived, now time.Time) (answer Answer, wait <-chan struct{}) {
	answer.Ready = true
	var reason reason
	for _, c := range r.containers {
		cause, ch := c.verdict(a, arrived, now)
		switch {
		case r.stopped:
			cause, ch = Cause{Kind: CauseStopped}, nil
		case ch != nil && wait == nil:
			wait = ch
		}
		if cause.Kind != CauseNone {
			answer.Ready = false
			reason.add(c.spec.Container, cause)
		}
		// One that is settled and not ready settles the answer.
		if cause.Kind != CauseNone && ch == nil {
			reason.final = true
		}
	}
	if reason.final {
		wait = nil
	}
	answer.Reason = string(reason.text)
	return answer, wait
}

// verdict is why the container is not ready, or the zero Cause. If waiting can
// change that, wait is what to wait for. It may demand an attempt.
func (c *container) verdict(a Asker, arrived, now time.Time) (cause Cause, wait <-chan struct{}) {
	if c.spec.Adaptive() {
		return c.adaptiveVerdict(arrived, now)
	}
	asked := !c.ended.Before(arrived) // an attempt has ended since
	due := c.steady() && c.allowance.due(now.Sub(c.started), a.Kubelet)
	if c.attempts > 0 && (asked || !c.underWay && !due && (c.steady() || !a.Kubelet)) {
		if a.Kubelet {
			return c.raw, nil
		}
		return c.standing(), nil
	}
	if due && !asked {
		c.demand(a.Kubelet)
	}
	if cause = c.standing(); a.Kubelet && (cause.Kind == CauseNone || c.underWay) {
		// Its own probe would have timed out too.
		cause = Cause{Kind: CauseTimeout}
	}
	return cause, c.completed.wait()
}

func (c *container) adaptiveVerdict(arrived, now time.Time) (cause Cause, wait <-chan struct{}) {
	if c.state != Ready {
		return c.standing(), c.changed.wait()
	}
	// The second rule ends the wait even if Freshness is shorter than it takes
	// an asker to wake up.
	age := now.Sub(c.evidence)
	if age <= c.r.freshness || age <= defaultFreshness && !c.evidence.Before(arrived) {
		return Cause{}, nil
	}
	c.demand(false)
	return Cause{Kind: CauseTimeout}, c.completed.wait()
}

// standing is the state with the thresholds applied, as a cause.
func (c *container) standing() Cause {
	if c.state == Ready {
		return Cause{}
	}
	if c.cause.Kind == CauseNone {
		return Cause{Kind: CauseUnknown}
	}
	return c.cause
}

const maxReason = 256

// reason collects "name: cause; name: cause".
type reason struct {
	text  []byte
	final bool
}

func (r *reason) add(container string, cause Cause) {
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
