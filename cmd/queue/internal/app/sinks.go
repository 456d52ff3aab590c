package app

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
	"github.com/queuegate/queuegate/pkg/metrics/push"
	"github.com/queuegate/queuegate/pkg/metrics/requestlog"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// sinks are where spans, request lines and figures go that nobody asks for.
// What is off is nil.
type sinks struct {
	tracer    *tracing.Tracer
	log       *requestlog.Log
	logProbes bool
	pusher    *push.Pusher
}

// openSinks opens those that the configuration asks for.
func openSinks(cfg *config.Config, r otlp.Resource, log *zap.Logger) (s sinks, err error) {
	t := cfg.Tracing
	t.Insecure, t.Resource = true, r
	t.Failed = func(err error) { log.Warn("spans were not delivered", zap.Error(err)) }
	s.tracer, err = tracing.New(t)
	if err != nil || !cfg.RequestLog {
		return s, err
	}
	s.logProbes = cfg.RequestLogProbes
	s.log, err = requestlog.New(requestlog.Config{
		Template: cfg.RequestLogTemplate,
		Revision: requestlog.RevisionInfo{
			Name: cfg.Identity.Revision, Namespace: cfg.Identity.Namespace, Service: cfg.Identity.Service, Configuration: cfg.Identity.Configuration,
			PodName: cfg.Identity.Pod, PodIP: cfg.PodIP,
		},
		Writer: os.Stdout,
		Failed: func(err error) { log.Warn("request lines were not written", zap.Error(err)) },
	})
	return s, err
}

// push sends what page shows at an interval.
func (s *sinks) push(cfg *config.Config, r otlp.Resource, page *metrics.Collector, log *zap.Logger) (err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(page)
	s.pusher, err = push.New(push.Config{
		Protocol: cfg.MetricsBackend, Endpoint: cfg.MetricsCollector, Insecure: true, Interval: cfg.MetricsExportInterval,
		Resource: r, Gather: registry.Gather,
		Failed: func(err error) { log.Warn("metrics were not delivered", zap.Error(err)) },
	})
	return err
}

// sinkPatience bounds how long the end waits for collectors and for stdout.
const sinkPatience = 2 * time.Second

// close delivers what is left.
func (s *sinks) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), sinkPatience)
	defer cancel()
	var closing sync.WaitGroup
	var failed [3]error // one that hangs takes no time from the others
	for i, end := range []func(context.Context) error{s.tracer.Close, s.log.Close, s.pusher.Close} {
		closing.Go(func() { failed[i] = end(ctx) })
	}
	closing.Wait()
	return errors.Join(failed[:]...)
}

func (p *App) resource() otlp.Resource {
	cfg := p.cfg
	return otlp.Resource{
		Namespace: cfg.Identity.Namespace, Service: cfg.Identity.Service, Configuration: cfg.Identity.Configuration, Revision: cfg.Identity.Revision,
		Pod: cfg.Identity.Pod, Version: p.build.Version,
	}
}
