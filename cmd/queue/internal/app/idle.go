package app

import (
	"time"

	"go.uber.org/atomic"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
)

// Idle suspends the application when no request needs it. The caller stops and starts
// the application itself. Its methods may be called from any goroutine.
type Idle struct {
	app     *App
	standby *exchange.Standby
	wanted  chan struct{}

	listens     atomic.Bool // the application has listened since its last start
	resumedAt   atomic.Int64
	suspendedAt atomic.Int64
}

// newIdle sets up the gate of a, before its Init.
func newIdle(a *App) *Idle {
	i := &Idle{app: a, wanted: make(chan struct{}, 1)}
	i.standby = exchange.NewStandby(func() {
		select {
		case i.wanted <- struct{}{}:
		default: // a value is already pending
		}
	})
	a.gate.Standby = i.standby
	a.readiness.notify(i.listening)
	a.readiness.idle = i
	i.listens.Store(len(a.readiness.probes.Snapshot()) == 0) // nothing is checked
	return i
}

// Idle returns nil unless the application is suspended when it is idle.
func (a *App) Idle() *Idle { return a.idle }

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
		i.app.log.Info("the application is awake", zap.Duration("waited", time.Duration(now-at)))
	}
}

// Suspend suspends the application if it listens and has been idle for that long, and
// closes its connections. Otherwise it returns the time after which to try again.
func (i *Idle) Suspend(idle time.Duration) (left time.Duration, ok bool) {
	if !i.listens.Load() {
		return idle, false
	}
	now := int64(server.Clock())
	if left, ok = i.standby.Suspend(now, idle); !ok {
		return left, false
	}
	i.listens.Store(false)
	i.suspendedAt.Store(now)
	i.app.readiness.probes.Suspend()
	i.app.readiness.cpus.listening(false)
	i.app.server.CloseIdleUpstreams()
	return 0, true
}

// Wanted receives a value when a request needs the suspended application. A value may be
// left from an earlier suspension.
func (i *Idle) Wanted() <-chan struct{} { return i.wanted }

// Open returns the number of open requests and tunnels.
func (i *Idle) Open() int { return i.standby.Open() }

// Slept returns the time since Suspend.
func (i *Idle) Slept() time.Duration { return server.Clock() - time.Duration(i.suspendedAt.Load()) }

// Resume releases the waiting requests: the application has been started. The checks
// resume when it listens, or after UPSTREAM_WAIT.
func (i *Idle) Resume() {
	now := int64(server.Clock())
	i.resumedAt.Store(now)
	i.standby.Resume(now)
	time.AfterFunc(i.app.live.current().Gate.UpstreamWait, func() {
		if i.resumedAt.CompareAndSwap(now, 0) {
			i.app.readiness.probes.Resume()
		}
	})
}
