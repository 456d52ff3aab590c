package app

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
	"github.com/queuegate/queuegate/pkg/metrics/push"
	"github.com/queuegate/queuegate/pkg/metrics/requestlog"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// exporters send what leaves the gate by itself. What is off is nil.
type exporters struct {
	tracer    *tracing.Tracer
	log       *requestlog.Log
	logProbes bool
}

// newExporters makes those that the configuration asks for, with a request log
// only if hasLog.
func newExporters(cfg *config.Config, hasLog bool, r otlp.Resource, log *zap.Logger) (_ *exporters, err error) {
	e := new(exporters)
	t := cfg.Tracing
	t.Insecure, t.Resource, t.Epoch = true, r, loop.TimeOf(0)
	t.Failed = func(err error) { log.Warn("spans were not delivered", zap.Error(err)) }
	e.tracer, err = tracing.New(t)
	if err != nil || !hasLog {
		return e, err
	}
	e.logProbes = cfg.RequestLogProbes
	e.log, err = requestlog.New(requestlog.Config{
		Template: cfg.RequestLogTemplate,
		Revision: requestlog.RevisionInfo{
			Name: cfg.Identity.Revision, Namespace: cfg.Identity.Namespace, Service: cfg.Identity.Service, Configuration: cfg.Identity.Configuration,
			PodName: cfg.Identity.Pod, PodIP: cfg.PodIP,
		},
		Writer: os.Stdout,
		Failed: func(err error) { log.Warn("request lines were not written", zap.Error(err)) },
	})
	return e, err
}

// newPusher sends the figures at an interval.
func newPusher(cfg *config.Config, r otlp.Resource, figures *metrics.Collector, log *zap.Logger) (*push.Pusher, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(figures)
	return push.New(push.Config{
		Protocol: cfg.MetricsBackend, Endpoint: cfg.MetricsCollector, Insecure: true, Interval: cfg.MetricsExportInterval,
		Resource: r, Gather: registry.Gather,
		Failed: func(err error) { log.Warn("metrics were not delivered", zap.Error(err)) },
	})
}

// close delivers what is left, of the figures too.
func (e *exporters) close(ctx context.Context, pusher *push.Pusher) error {
	var closing sync.WaitGroup
	var failed [3]error // one that hangs takes no time from the others
	for i, end := range []func(context.Context) error{e.tracer.Close, e.log.Close, pusher.Close} {
		closing.Go(func() { failed[i] = end(ctx) })
	}
	closing.Wait()
	return errors.Join(failed[:]...)
}

func (a *App) resource() otlp.Resource {
	cfg := a.cfg
	return otlp.Resource{
		Namespace: cfg.Identity.Namespace, Service: cfg.Identity.Service, Configuration: cfg.Identity.Configuration, Revision: cfg.Identity.Revision,
		Pod: cfg.Identity.Pod, Version: a.build.Version,
	}
}
