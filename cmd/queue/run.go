package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// maxLoops is the most event loops that are started unless THREADS says
// otherwise: one saturates a core, and few containers keep one busy.
const maxLoops = 4

// serve runs the gate until it has drained, and returns the exit code.
func serve(cfg *Config, warnings []string) int {
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

	ready, err := newReadiness(cfg, log)
	if err != nil {
		log.Error("the gate cannot start", zap.Error(err))
		return exitConfig
	}
	seen := newObserver(cfg)
	g, server, err := newGate(cfg, ready, seen, log)
	if err != nil {
		log.Error("the gate cannot start", zap.Error(err))
		return exitFailed
	}
	ready.start(server.Listening)
	defer ready.close()
	side := &sidePorts{log: log}
	door, err := open(cfg, g, server, ready, seen, side)
	if err != nil {
		log.Error("the gate cannot start", zap.Error(err))
		return exitFailed
	}
	log.Info("serving", zap.Int("port", cfg.ServingPort), zap.Int("userPort", cfg.UserPort))

	code := drain(g, server, signals, log)
	g.Drain.End()
	door.close()
	side.close()
	log.Info("ended", zap.Int("exitCode", code))
	_ = log.Sync()
	return code
}

// open opens all ports, the serving port last: who can reach it can reach the
// others.
func open(cfg *Config, g *gate.Gate, server *http1.Server, ready *readiness, seen *observer, side *sidePorts) (*drainSocket, error) {
	if err := openSidePorts(cfg, g, server, ready, seen, side); err != nil {
		return nil, err
	}
	door, err := openDrainSocket(cfg, g.Drain, side.log)
	if err != nil {
		return nil, err
	}
	traffic, err := listen(cfg.ListenAddress, cfg.ServingPort, "QUEUE_SERVING_PORT")
	if err != nil {
		return nil, err
	}
	return door, server.Serve(traffic)
}

// openSidePorts opens all ports beside the serving port that are not off.
func openSidePorts(cfg *Config, g *gate.Gate, server *http1.Server, ready *readiness, seen *observer, side *sidePorts) error {
	if err := openAdmin(cfg, g, ready, side); err != nil {
		return err
	}
	if err := openProfiling(cfg, side); err != nil {
		return err
	}
	stats := metrics.StatHandler(identity(cfg), seen.counting, http1.Clock)
	if err := side.open(cfg.ListenAddress, cfg.AutoscalerMetricsPort, "AUTOSCALER_METRICS_PORT", stats); err != nil {
		return err
	}
	if cfg.MetricsBackend != "prometheus" {
		return nil
	}
	page, err := seen.collector(cfg, g, server, ready)
	if err != nil {
		return err
	}
	failed := func(err error) { side.log.Warn("a scrape failed", zap.Error(err)) }
	return side.open(cfg.MetricsAddress, cfg.MetricsPort, "METRICS_PORT", metrics.PageHandler(page, failed))
}

func newGate(cfg *Config, ready *readiness, seen *observer, log *zap.Logger) (*gate.Gate, *http1.Server, error) {
	upstream := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(cfg.UserPort))
	g, err := gate.New(gate.Config{
		ConcurrencyLimit:     cfg.ConcurrencyLimit,
		QueueCapacity:        cfg.QueueCapacity,
		HardConcurrency:      cfg.ConcurrencyHard,
		QueueMaxWait:         cfg.QueueMaxWait,
		RequestTimeout:       cfg.RequestTimeout,
		ResponseStartTimeout: cfg.ResponseStartTimeout,
		IdleTimeout:          cfg.IdleTimeout,
		TunnelMax:            cfg.TunnelMax,
		UpstreamWait:         cfg.UpstreamWait,
		UpstreamRestartWait:  cfg.UpstreamRestartWait,
		AnswerHalfClosed:     cfg.ClientHalfClose == "answer",
		DrainQuiet:           cfg.DrainQuiet,
		DrainTunnel:          cfg.DrainTunnel,
		Readiness:            ready,
		Contact:              ready,
		Observer:             seen,
	})
	if err != nil {
		return nil, nil, err
	}
	server, err := http1.NewServer(g, http1.Config{
		Upstream: upstream,
		Loops:    loops(cfg),
		Panicked: func(v any) { log.Error("a request ended in a panic", zap.Any("panic", v)) },
	})
	return g, server, err
}

// loops is the number of event loops: half the processors, so that the
// container has the others, within 1 and maxLoops.
func loops(cfg *Config) int {
	if cfg.Threads > 0 {
		return cfg.Threads
	}
	return min(max(runtime.GOMAXPROCS(0)/2, 1), maxLoops)
}

// listen opens a port and says which setting chose it if that fails.
func listen(address string, port int, setting string) (*net.TCPListener, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listening on port %d (%s): %w", port, setting, err)
	}
	return ln.(*net.TCPListener), nil
}

// drain waits for the end to be asked for and sees it through. A second
// signal cuts it short.
func drain(g *gate.Gate, server *http1.Server, signals <-chan os.Signal, log *zap.Logger) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	finished := make(chan error, 1)
	go func() {
		<-g.Drain.Quiet()
		finished <- server.Shutdown(ctx)
	}()
	for {
		select {
		case <-g.Drain.Started():
			log.Info("draining")
			return await(finished, signals, log)
		case s := <-signals:
			if s != syscall.SIGHUP {
				g.Drain.Start()
			}
		}
	}
}

func await(finished <-chan error, signals <-chan os.Signal, log *zap.Logger) int {
	for {
		select {
		case err := <-finished:
			if err != nil {
				log.Warn("the drain was cut short", zap.Error(err))
				return exitFailed
			}
			return exitOK
		case s := <-signals:
			if s != syscall.SIGHUP {
				log.Warn("second signal: not waiting any longer")
				return exitFailed
			}
		}
	}
}
