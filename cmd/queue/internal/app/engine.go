package app

import (
	"context"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/enginemetrics"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// engine reads the metrics of the model server behind the gate. It is nil without
// ENGINE_METRICS, and its methods then do nothing.
type engine struct {
	poller *enginemetrics.Poller
	stop   context.CancelFunc
	wait   sync.WaitGroup
}

func newEngine(cfg *config.Config, g *exchange.Gate, log *zap.Logger) *engine {
	if cfg.EngineMetrics == "" {
		return nil
	}
	page, err := url.Parse(cfg.EngineMetrics)
	if err != nil {
		panic("BUG: ENGINE_METRICS was not checked: " + err.Error())
	}
	return &engine{stop: func() {}, poller: enginemetrics.New(enginemetrics.Config{
		URL: page, Period: cfg.EngineMetricsPeriod, Limits: engineLimits(cfg),
		Admission: g.Admission, Uploads: func() int { return int(g.Uploads.Load()) },
		Silent: func(err error) {
			if err == nil {
				log.Info("the engine's metrics are valid again and limit admission", zap.String("url", cfg.EngineMetrics))
				return
			}
			log.Warn("the engine's metrics (ENGINE_METRICS) are invalid: admission ignores them, and the other limits apply", zap.String("url", cfg.EngineMetrics), zap.Error(err))
		},
	})}
}

func engineLimits(cfg *config.Config) enginemetrics.Limits {
	return enginemetrics.Limits{MaxWaiting: cfg.EngineMaxWaiting, MaxKV: cfg.EngineMaxKV}
}

func (e *engine) start() {
	if e == nil {
		return
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	e.wait.Go(func() { e.poller.Run(ctx) })
}

func (e *engine) close() {
	if e == nil {
		return
	}
	e.stop()
	e.wait.Wait()
}

// apply applies the live settings.
func (e *engine) apply(cfg *config.Config) {
	if e != nil {
		e.poller.SetLimits(engineLimits(cfg))
	}
}

func (e *engine) stats() func() gate.EngineStats {
	if e == nil {
		return nil
	}
	return e.poller.Stats
}

// readiness returns r, wrapped by roomReadiness if READINESS_ROOM is set.
func (e *engine) readiness(cfg *config.Config, r gate.Readiness) gate.Readiness {
	if e == nil || cfg.ReadinessRoom == 0 {
		return r
	}
	return &roomReadiness{r, e.poller.FullFor, cfg.ReadinessRoom}
}

// roomReadiness wraps the readiness of the container. When the model server has been full
// for longer than limit, probes get the result noRoom instead of the container's
// result.
type roomReadiness struct {
	gate.Readiness
	fullFor func() time.Duration
	limit   time.Duration
}

// noRoom is the result of probes when the model server has been full for too long.
var noRoom = gate.ReadinessResult{Reason: "engine: no room"}

// Try implements gate.Readiness.
func (r *roomReadiness) Try(p gate.Prober) (gate.ReadinessResult, bool) {
	if r.fullFor() > r.limit {
		return noRoom, true
	}
	return r.Readiness.Try(p)
}

// Await implements gate.Readiness.
func (r *roomReadiness) Await(p gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	if r.fullFor() > r.limit {
		notify(noRoom)
		return func() {}
	}
	return r.Readiness.Await(p, notify)
}
