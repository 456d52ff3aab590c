// Package app is a running gate: it builds the parts from the configuration and
// ties them together.
package app

import (
	"errors"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/gate/http2"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// App is a gate with all its ports.
type App struct {
	cfg     *config.Config
	build   metrics.Build
	log     *zap.Logger
	often   *zap.Logger // for what may happen as often as others like
	ready   *readiness
	seen    *observer
	gate    *gate.Gate
	server  *http1.Server
	streams *http2.Server
	secure  *tlsPort
	side    *sidePorts
	door    *drainSocket
}

// ErrConfig is the cause of an error of New that another configuration mends.
var ErrConfig = errors.New("wrong configuration")

// New builds the parts. Nothing listens yet and nothing is probed.
func New(cfg *config.Config, build metrics.Build, log *zap.Logger) (p *App, err error) {
	p = &App{cfg: cfg, build: build, log: log, often: limited(log), side: &sidePorts{log: log}}
	if p.ready, err = newReadiness(p.cfg, p.log); err != nil {
		return nil, configError{err}
	}
	p.seen = newObserver(p.cfg)
	p.seen.status = newStatus(p.cfg, p.ready, p.seen)
	p.ready.status = p.seen.status
	p.seen.ends = newEndLog(p.often)
	if p.seen.sinks, err = openSinks(p.cfg, p.resource(), p.often); err != nil {
		return nil, configError{err}
	}
	session, err := upstreamTLS(p.cfg)
	if err != nil {
		return nil, configError{err}
	}
	if err := p.makeEngines(session); err != nil {
		return nil, err
	}
	if p.secure, err = newTLSPort(p.cfg, p.server, p.streams.Serve, p.log); err != nil {
		return nil, configError{err}
	}
	return p, nil
}

// configError is an error that is ErrConfig too.
type configError struct{ error }

func (configError) Is(target error) bool { return target == ErrConfig }
func (e configError) Unwrap() error      { return e.error }

// Listen begins to probe the container and opens the ports.
func (p *App) Listen() error {
	p.ready.start(func() {
		p.server.Listening()
		p.streams.Listening()
	})
	if err := p.open(); err != nil {
		return err
	}
	settle(func() bool { return p.seen.counting.LastWindow(http1.Clock()).Arrivals > 0 })
	return nil
}

// Close lets go of everything, what is left for logs and collectors last.
func (p *App) Close() {
	p.gate.Drain.End()
	p.door.close()
	p.side.close()
	p.ready.close()
	if err := p.seen.sinks.close(); err != nil {
		p.log.Warn("some of what was to be sent is lost", zap.Error(err))
	}
	p.seen.ends.close()
	_ = p.often.Sync() // with the counts that are due
}
