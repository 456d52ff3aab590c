package embed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// How long an answer is used, and how long somebody waits for one.
const (
	yesFor          = time.Second
	noFor           = 100 * time.Millisecond
	checkPatience   = 10 * time.Second
	kubeletPatience = 900 * time.Millisecond // it gives up after 1 s, and then shows no reason
)

// readiness asks the application, once for all who ask at the same time.
type readiness struct {
	check func(context.Context) error

	mu      sync.Mutex
	last    gate.ReadinessResult
	until   time.Time // last is used until then; zero = there is none
	running *look     // nil = none
}

// look is one call of check.
type look struct {
	done   chan struct{}
	answer gate.ReadinessResult // once done is closed
}

// Try answers from the last look while that is fresh.
func (r *readiness) Try(gate.Caller) (gate.ReadinessResult, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, time.Now().Before(r.until)
}

// Wait waits for the look under way, or for a new one.
func (r *readiness) Wait(ctx context.Context, who gate.Caller) gate.ReadinessResult {
	patience := checkPatience
	if who == gate.Kubelet {
		patience = kubeletPatience
	}
	l := r.join()
	if l == nil {
		a, _ := r.Try(who)
		return a
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.done:
		return l.answer
	case <-timer.C:
		return gate.ReadinessResult{Reason: "timeout"}
	case <-ctx.Done():
		return gate.ReadinessResult{Reason: "asker gone"}
	}
}

// join returns the look under way, or begins one; nil if the last answer is
// fresh.
func (r *readiness) join() *look {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) {
		return nil
	}
	if r.running == nil {
		r.running = &look{done: make(chan struct{})}
		go r.run(r.running)
	}
	return r.running
}

// run belongs to no asker: one that leaves takes nothing from the others.
func (r *readiness) run(l *look) {
	ctx, cancel := context.WithTimeout(context.Background(), checkPatience)
	defer cancel()
	l.answer = r.ask(ctx)
	fresh := noFor
	if l.answer.Ready {
		fresh = yesFor
	}
	r.mu.Lock()
	r.last, r.until, r.running = l.answer, time.Now().Add(fresh), nil
	r.mu.Unlock()
	close(l.done)
}

func (r *readiness) ask(ctx context.Context) (a gate.ReadinessResult) {
	a.Reason = "panic"
	defer func() { _ = recover() }() // there is no server around this goroutine that would contain it
	switch err := r.check(ctx); {
	case err == nil:
		return gate.ReadinessResult{Ready: true}
	case errors.Is(err, context.DeadlineExceeded):
		return gate.ReadinessResult{Reason: "timeout"}
	}
	return gate.ReadinessResult{Reason: "not ready"}
}
