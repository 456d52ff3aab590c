// Package app is a running gate: it builds the parts from the configuration,
// each after those that it needs, and ties them together.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/http2"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/lines"
	"github.com/queuegate/queuegate/pkg/metrics/push"
)

// App is a gate with all its ports.
type App struct {
	cfg   *config.Config
	build metrics.Build
	log   *zap.Logger
	often *zap.Logger   // for what others can cause as often as they like
	lines *lines.Writer // of both

	// In the order of New: each knows those above it.
	live        *liveSettings
	status      *status // nil: there is no page
	readiness   *readiness
	exporters   *exporters
	observer    *observer
	gate        *exchange.Gate
	http2       *http2.Protocol
	server      *server.Server
	tls         *tlsPort
	pusher      *push.Pusher // nil: figures are not pushed
	ports       []*sidePort
	drainSocket *drainSocket  // while it listens
	left        chan struct{} // closed by Leave
}

// ErrSystem is the cause of an error of New that is not the configuration's.
var ErrSystem = errors.New("refused by the system")

// New builds the parts. Nothing listens yet and nothing is probed.
func New(cfg *config.Config, build metrics.Build, own *Log) (*App, error) {
	followMemoryLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	log := own.Logger
	a := &App{build: build, log: log, often: limited(log), lines: own.lines, left: make(chan struct{})}
	a.live = newLiveSettings(cfg, log)
	cfg = a.live.start()
	a.cfg = cfg
	specs, err := probeSpecs(cfg)
	if err != nil {
		return nil, err
	}
	session, err := upstreamTLS(cfg)
	if err != nil {
		return nil, err
	}
	a.gate = &exchange.Gate{Config: cfg.Gate}
	a.gate.Admission = a.gate.NewAdmission()
	counts := newCounts()
	a.status = newStatus(cfg, specs, a.gate.Admission, counts)
	a.readiness = newReadiness(cfg, specs, a.status, log)
	a.readiness.isBrief = own.terminal != nil
	ends := newEndLog(a.often)
	if t := own.terminal; t != nil && t.hasRequests {
		ends.terminal, ends.all = t, log
	}
	if a.exporters, err = newExporters(cfg, own.terminal, a.resource(), a.often); err != nil {
		return nil, err
	}
	a.observer = newObserver(cfg, counts, a.status, a.exporters, ends)
	a.gate.Readiness, a.gate.Contact, a.gate.Observer = a.readiness.probes, a.readiness, a.observer
	a.gate.States = newStateLog(log)
	if err := a.gate.Init(); err != nil {
		return nil, err
	}
	a.readiness.notifyProbed(func(took time.Duration) { a.gate.AddCheck(server.Clock(), took) })
	if err := a.buildServer(session); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSystem, err)
	}
	if a.tls, err = newTLSPort(cfg, a, log); err != nil {
		return nil, err
	}
	a.tls.isOptional = own.terminal != nil && !cfg.Given("CERT_DIR")
	return a, a.buildPorts()
}

// ListenForTraffic opens the serving port before the gate is built. Connections
// wait in its backlog until Listen.
func ListenForTraffic(cfg *config.Config) (*net.TCPListener, error) {
	return listen(cfg.ListenAddress, cfg.ServingPort, "QUEUE_SERVING_PORT")
}

// Listen begins to probe the container and opens the ports, the serving port
// last: who can reach it can reach the others. traffic is that of
// ListenForTraffic, or nil.
func (a *App) Listen(traffic *net.TCPListener) (err error) {
	a.readiness.start()
	a.live.follow(a.apply)
	for _, p := range a.ports {
		if err := p.open(); err != nil {
			return err
		}
	}
	if a.drainSocket, err = openDrainSocket(a.cfg, a.gate.Drain, a.log); err != nil {
		return err
	}
	if err := a.tls.start(); err != nil {
		return err
	}
	if traffic == nil {
		if traffic, err = ListenForTraffic(a.cfg); err != nil {
			return err
		}
	}
	if err := a.server.Serve(traffic); err != nil {
		return err
	}
	time.AfterFunc(startTime, boundGarbage) // it stops the world, which a start has no time for
	releaseStartMemory(func() bool { return a.observer.counting.LastWindow(server.Clock()).Arrivals > 0 })
	return nil
}

// apply applies the live settings of cfg. It changes nothing if it returns an error.
func (a *App) apply(cfg *config.Config) error {
	next, err := a.exporters.requestLog(cfg)
	if err != nil {
		return err
	}
	if err := a.gate.Apply(&cfg.Gate); err != nil {
		return err
	}
	next()
	return nil
}

// Drain begins to drain. Calls after the first do nothing.
func (a *App) Drain() { a.gate.Drain.Start() }

// Draining is closed when a drain has begun, Served when no request is under way
// any more but tunnels: the container may end.
func (a *App) Draining() <-chan struct{} { return a.gate.Drain.Started() }

// Served is described at Draining.
func (a *App) Served() <-chan struct{} { return a.gate.Drain.Served() }

// Open returns how many requests and tunnels are open.
func (a *App) Open() (requests, tunnels int64) {
	return a.gate.Drain.Requests(), a.gate.Drain.Tunnels()
}

// Leave lets Run go on to the end without a quiet period: the container is gone.
// It may be called once.
func (a *App) Leave() {
	a.gate.Drain.Start()
	close(a.left)
}

// Reload loads the certificates again.
func (a *App) Reload() { a.tls.reload() }

// Run returns when the gate has drained, which Drain, Leave or `queue drain`
// begins, or with an error when ctx ends.
func (a *App) Run(ctx context.Context) error {
	select {
	case <-a.gate.Drain.Started():
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	select {
	case <-a.gate.Drain.Quiet():
		if requests, tunnels := a.Open(); requests+tunnels > 0 {
			a.log.Info("the quiet period is over; waiting for open requests and tunnels",
				zap.Duration("waited", time.Since(began)), zap.Int64("requests", requests), zap.Int64("tunnels", tunnels))
		}
	case <-a.left:
	case <-ctx.Done():
		return ctx.Err()
	}
	a.tls.close()
	return a.server.Shutdown(ctx)
}

// Close lets go of everything. What is left for the request log and for
// collectors has until ctx ends.
func (a *App) Close(ctx context.Context) {
	a.gate.Drain.End()
	a.live.close()
	a.drainSocket.close()
	a.closePorts(ctx)
	a.readiness.close()
	if err := a.exporters.close(ctx, a.pusher); err != nil {
		a.log.Warn("some of what was to be sent is lost", zap.Error(err))
	}
	_ = a.often.Sync() // with the counts that are due
}
