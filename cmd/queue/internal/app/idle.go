package app

import (
	"context"
	"sync"
	"time"

	"go.uber.org/atomic"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
)

// Idle decides when the application is idle and when it is needed; the caller stops and
// starts it. Its methods may be called concurrently.
type Idle struct {
	app     *App
	standby *exchange.Standby
	wanted  chan struct{}

	mu      sync.Mutex    // guards resumed, and is held while the state changes
	resumed chan struct{} // closed by Resume; nil = not suspended

	byProbes    bool        // probes wake the application (IDLE_WAKE_BY_PROBES)
	listens     atomic.Bool // the application has listened since its last start
	resumedAt   atomic.Int64
	suspendedAt atomic.Int64
}

// newIdle creates the Idle of the gate a, and connects it to the other parts of a. Call
// it before a.gate.Init.
func newIdle(a *App) *Idle {
	i := &Idle{app: a, wanted: make(chan struct{}, 1)}
	i.standby = exchange.NewStandby(i.requestResume)
	a.gate.Standby = i.standby
	if i.byProbes = a.cfg.IdleWakeByProbes; i.byProbes {
		a.gate.Readiness = wakingReadiness{a.gate.Readiness, i}
	}
	a.readiness.notify(i.listening)
	a.readiness.idle = i
	i.listens.Store(len(a.readiness.probes.Snapshot()) == 0) // without checks, the application counts as listening
	return i
}

// Idle returns nil if the application is never suspended.
func (a *App) Idle() *Idle { return a.idle }

func (i *Idle) requestResume() {
	select {
	case i.wanted <- struct{}{}:
	default: // a value is already pending
	}
}

// wake is called for a probe. If the application is suspended and probes wake it, wake
// requests a resume and returns a channel. The channel is closed when the application
// has resumed. In all other cases wake returns nil.
func (i *Idle) wake() <-chan struct{} {
	if i == nil || !i.byProbes || i.standby.Running() {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.resumed == nil { // Resume was called after the check of Running above
		return nil
	}
	i.requestResume()
	return i.resumed
}

// awaitResume calls wake and waits until the application has resumed or ctx ends.
func (i *Idle) awaitResume(ctx context.Context) {
	if resumed := i.wake(); resumed != nil {
		select {
		case <-resumed:
		case <-ctx.Done():
		}
	}
}

// listening is called when the application begins to listen. The first call after Resume
// resumes the checks.
func (i *Idle) listening() {
	now := int64(server.Clock())
	if i.listens.Swap(true) {
		return
	}
	i.standby.Touch(now)
	if at := i.resumedAt.Swap(0); at != 0 {
		i.app.readiness.probes.Resume()
		i.app.log.Info("the application is awake", zap.Duration("waited", rounded(time.Duration(now-at))))
	}
}

// Suspend suspends the application and closes the connections to the application. It does
// this only if the application listens, and no request or tunnel has been open for at
// least the given time. Otherwise ok is false, and the first result is the time after
// which the caller can try again.
func (i *Idle) Suspend(idle time.Duration) (remaining time.Duration, ok bool) {
	if !i.listens.Load() {
		return idle, false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-i.wanted: // discard a value from the last suspension
	default:
	}
	now := int64(server.Clock())
	if remaining, ok = i.standby.Suspend(now, idle); !ok {
		return remaining, false
	}
	i.resumed = make(chan struct{})
	i.listens.Store(false)
	i.suspendedAt.Store(now)
	i.app.readiness.probes.Suspend()
	i.app.readiness.cpus.listening(false)
	i.app.server.CloseIdleUpstreams()
	return 0, true
}

// Wanted receives a value when a request or probe needs the suspended application.
func (i *Idle) Wanted() <-chan struct{} { return i.wanted }

// Open returns the number of open requests and tunnels.
func (i *Idle) Open() int { return i.standby.Open() }

// Slept returns the time since Suspend, rounded for a log line.
func (i *Idle) Slept() time.Duration {
	return rounded(server.Clock() - time.Duration(i.suspendedAt.Load()))
}

// Resume releases the waiting requests, usually because the application runs again. With
// IDLE_WAKE_BY_PROBES, it also resumes the readiness checks at once. Otherwise the checks
// resume when the application listens, or after UPSTREAM_WAIT if it does not listen by
// then.
func (i *Idle) Resume() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := int64(server.Clock())
	i.resumedAt.Store(now)
	i.standby.Resume(now)
	if i.byProbes { // waiting probers need a result
		i.app.readiness.probes.Resume()
	}
	close(i.resumed)
	i.resumed = nil
	time.AfterFunc(i.app.live.current().Gate.UpstreamWait, func() {
		if i.resumedAt.CompareAndSwap(now, 0) {
			i.app.readiness.probes.Resume()
		}
	})
}

// wakingReadiness wakes the suspended application when a prober sends a probe. The
// prober waits until the application has resumed.
type wakingReadiness struct {
	gate.Readiness
	idle *Idle
}

// Try implements gate.Readiness.
func (r wakingReadiness) Try(p gate.Prober) (gate.ReadinessResult, bool) {
	if r.idle.wake() != nil {
		return gate.ReadinessResult{}, false
	}
	return r.Readiness.Try(p)
}

// Await implements gate.Readiness.
func (r wakingReadiness) Await(p gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	resumed := r.idle.wake()
	if resumed == nil {
		return r.Readiness.Await(p, notify)
	}
	var mu sync.Mutex
	var inner func()
	canceled := make(chan struct{})
	stop := sync.OnceFunc(func() { close(canceled) })
	go func() {
		select {
		case <-resumed:
		case <-canceled:
			return
		}
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-canceled:
		default:
			inner = r.Readiness.Await(p, notify)
		}
	}()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stop()
		if inner != nil {
			inner()
		}
	}
}
