package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// How long a result is cached, and how long a prober waits.
const (
	readyFor       = time.Second
	notReadyFor    = 100 * time.Millisecond
	checkTimeout   = 10 * time.Second
	kubeletTimeout = 900 * time.Millisecond // less than the kubelet's default timeout of 1 s
)

// readiness calls the application's check, once for all waiting probers.
type readiness struct {
	check func(context.Context) error
	took  func(time.Duration) // called with the duration of each check, for the adaptive limit; may be nil
	log   *slog.Logger        // nil = none

	mu         sync.Mutex
	last       gate.ReadinessResult
	expiresAt  time.Time // time at which the cached result expires
	inProgress *checking // nil = none
}

// checking is one call of check in progress.
type checking struct {
	waiters map[*waiter]struct{} // nil once the check has ended
}

// Try returns the cached result while it is valid.
func (r *readiness) Try(gate.Prober) (gate.ReadinessResult, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, time.Now().Before(r.expiresAt)
}

// Await waits for the check in progress, or starts one.
func (r *readiness) Await(c gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	timeout := checkTimeout
	if c == gate.Kubelet {
		timeout = kubeletTimeout
	}
	w := &waiter{notify: notify}
	r.mu.Lock()
	if time.Now().Before(r.expiresAt) {
		last := r.last
		r.mu.Unlock()
		notify(last)
		return func() {}
	}
	defer r.mu.Unlock()
	underWay := r.join()
	underWay.waiters[w] = struct{}{}
	w.timer = time.AfterFunc(timeout, func() {
		if r.remove(underWay, w) {
			notify(gate.ReadinessResult{Reason: "timeout"})
		}
	})
	return func() {
		if r.remove(underWay, w) {
			w.timer.Stop()
		}
	}
}

// waiter is a prober that waits for a check.
type waiter struct {
	notify func(gate.ReadinessResult)
	timer  *time.Timer
}

// remove reports whether w was still waiting.
func (r *readiness) remove(c *checking, w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, waits := c.waiters[w]
	delete(c.waiters, w)
	return waits
}

// join returns the check in progress, or starts a check. The caller holds the lock.
func (r *readiness) join() *checking {
	if r.inProgress == nil {
		r.inProgress = &checking{waiters: map[*waiter]struct{}{}}
		go r.run(r.inProgress)
	}
	return r.inProgress
}

// run continues when a prober disconnects.
func (r *readiness) run(c *checking) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	begun := time.Now()
	result := r.call(ctx)
	if r.took != nil {
		r.took(time.Since(begun))
	}
	validFor := notReadyFor
	if result.Ready {
		validFor = readyFor
	}
	r.mu.Lock()
	r.last, r.expiresAt, r.inProgress = result, time.Now().Add(validFor), nil
	waiters := c.waiters
	c.waiters = nil
	r.mu.Unlock()
	for w := range waiters {
		w.timer.Stop()
		w.notify(result)
	}
}

func (r *readiness) call(ctx context.Context) (result gate.ReadinessResult) {
	result.Reason = "panic"
	err := errors.New("the check ended its goroutine")
	defer func() {
		if v := recover(); v != nil { // no server recovers a panic on this goroutine
			err = fmt.Errorf("panic: %v", v)
		}
		if err != nil && r.log != nil {
			r.log.Warn("not ready", "reason", result.Reason, "error", err)
		}
	}()
	switch err = r.check(ctx); {
	case err == nil:
		return gate.ReadinessResult{Ready: true}
	case errors.Is(err, context.DeadlineExceeded):
		return gate.ReadinessResult{Reason: "timeout"}
	}
	return gate.ReadinessResult{Reason: "not ready"}
}
