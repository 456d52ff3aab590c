package embed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// How long a result is used, and how long a caller is held for one.
const (
	readyFor       = time.Second
	notReadyFor    = 100 * time.Millisecond
	checkTimeout   = 10 * time.Second
	kubeletTimeout = 900 * time.Millisecond // the kubelet gives up after 1 s, and then shows no status
)

// readiness calls the application's check, once for all callers at the same
// time.
type readiness struct {
	check func(context.Context) error

	mu       sync.Mutex
	last     gate.ReadinessResult
	until    time.Time // last is used until then; zero = there is none
	underWay *checking // nil = none
}

// checking is one call of check.
type checking struct {
	done   chan struct{}
	result gate.ReadinessResult // once done is closed
}

// Try returns the last result while that is fresh.
func (r *readiness) Try(gate.Caller) (gate.ReadinessResult, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, time.Now().Before(r.until)
}

// Wait waits for the check under way, or for a new one.
func (r *readiness) Wait(ctx context.Context, c gate.Caller) gate.ReadinessResult {
	timeout := checkTimeout
	if c == gate.Kubelet {
		timeout = kubeletTimeout
	}
	underWay := r.join()
	if underWay == nil {
		result, _ := r.Try(c)
		return result
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-underWay.done:
		return underWay.result
	case <-timer.C:
		return gate.ReadinessResult{Reason: "timeout"}
	case <-ctx.Done():
		return gate.ReadinessResult{Reason: "caller gone"}
	}
}

// join returns the check under way, or begins one; nil if the last result is
// fresh.
func (r *readiness) join() *checking {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) {
		return nil
	}
	if r.underWay == nil {
		r.underWay = &checking{done: make(chan struct{})}
		go r.run(r.underWay)
	}
	return r.underWay
}

// run belongs to no caller: one that leaves takes nothing from the others.
func (r *readiness) run(c *checking) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	c.result = r.call(ctx)
	fresh := notReadyFor
	if c.result.Ready {
		fresh = readyFor
	}
	r.mu.Lock()
	r.last, r.until, r.underWay = c.result, time.Now().Add(fresh), nil
	r.mu.Unlock()
	close(c.done)
}

func (r *readiness) call(ctx context.Context) (result gate.ReadinessResult) {
	result.Reason = "panic"
	defer func() { _ = recover() }() // there is no server around this goroutine that would contain it
	switch err := r.check(ctx); {
	case err == nil:
		return gate.ReadinessResult{Ready: true}
	case errors.Is(err, context.DeadlineExceeded):
		return gate.ReadinessResult{Reason: "timeout"}
	}
	return gate.ReadinessResult{Reason: "not ready"}
}
