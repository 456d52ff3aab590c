package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/gate/http2"
)

// process is a running gate: all that has to be known of each other.
type process struct {
	cfg     *config.Config
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

// serve runs the gate until it has drained, and returns the exit code.
func serve(cfg *config.Config, warnings []string) int {
	log, err := newLogger(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "queue:", err)
		return exitConfig
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)

	p := &process{cfg: cfg, log: log, often: limited(log), side: &sidePorts{log: log}}
	if code, err := p.start(); err != nil {
		log.Error("the gate cannot start", zap.Error(err))
		_ = log.Sync()
		return code
	}
	settle(func() bool { return p.seen.counting.LastWindow(http1.Clock()).Arrivals > 0 })
	log.Info("serving", zap.Int("port", cfg.ServingPort), zap.Int("userPort", cfg.UserPort))
	code := p.drain(signals)
	p.end()
	log.Info("ended", zap.Int("exitCode", code))
	_ = log.Sync()
	return code
}

// start makes the parts and opens the ports. With an error comes the exit code.
func (p *process) start() (code int, err error) {
	if p.ready, err = newReadiness(p.cfg, p.log); err != nil {
		return exitConfig, err
	}
	p.seen = newObserver(p.cfg)
	p.seen.status = newStatus(p.cfg, p.ready, p.seen)
	p.ready.status = p.seen.status
	p.seen.ends = newEndLog(p.often)
	if p.seen.sinks, err = openSinks(p.cfg, p.often); err != nil {
		return exitConfig, err
	}
	session, err := upstreamTLS(p.cfg)
	if err != nil {
		return exitConfig, err
	}
	if err := p.makeEngines(session); err != nil {
		return exitFailed, err
	}
	if p.secure, err = newTLSPort(p.cfg, p.server, p.streams.Serve, p.log); err != nil {
		return exitConfig, err
	}
	p.ready.start(func() {
		p.server.Listening()
		p.streams.Listening()
	})
	return exitFailed, p.open()
}

// end lets go of everything, what is left for logs and collectors last.
func (p *process) end() {
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
