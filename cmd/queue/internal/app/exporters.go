package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
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

// exporters send data to log readers and collectors. Disabled ones are nil.
type exporters struct {
	tracer    *tracing.Tracer
	log       *requestlog.Log
	logProbes bool
}

// newExporters creates the configured exporters, with a request log only if hasLog.
func newExporters(cfg *config.Config, hasLog bool, r otlp.Resource, log *zap.Logger) (_ *exporters, err error) {
	e := new(exporters)
	t := cfg.Tracing
	t.Protocol, _ = cfg.Exporters()
	t.SamplingRate, t.IgnoresParent = cfg.Sampling()
	t.Formats, t.NoPropagation = cfg.Propagation()
	t.Resource, t.Epoch = r, loop.TimeOf(0)
	if t.Protocol == otlp.ProtocolGRPC || t.Protocol == otlp.ProtocolHTTP {
		to, certificate := cfg.TracesOverOTLP()
		t.Endpoint, t.OTLP = to.Endpoint, to.Options
		t.OTLP.RootCAs = loadRoots(certificate, "traces", log)
	}
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

// newPusher creates the pusher of metrics.
func newPusher(cfg *config.Config, r otlp.Resource, figures *metrics.Collector, log *zap.Logger) (*push.Pusher, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(figures)
	to, certificate := cfg.MetricsOverOTLP()
	to.RootCAs = loadRoots(certificate, "metrics", log)
	return push.New(push.Config{
		Protocol: to.Protocol, Endpoint: to.Endpoint, OTLP: to.Options, Interval: cfg.MetricsExportInterval,
		Resource: r, Gather: registry.Gather, GoRuntime: true,
		Failed: func(err error) { log.Warn("metrics were not delivered", zap.Error(err)) },
	})
}

// loadRoots loads the CA certificates for a collector. Without a file, or with an
// unusable one, it returns nil for the system's CAs, as in queue-proxy.
func loadRoots(file, signal string, log *zap.Logger) *x509.CertPool {
	if file == "" {
		return nil
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(file)
	if err == nil && !roots.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s holds no certificate in PEM", file)
	}
	if err != nil {
		log.Warn("OTEL_EXPORTER_OTLP_CERTIFICATE is ignored for "+signal, zap.Error(err))
		return nil
	}
	return roots
}

// close delivers the remaining data, including metrics.
func (e *exporters) close(ctx context.Context, pusher *push.Pusher) error {
	var closing sync.WaitGroup
	var failed [3]error // concurrently, so that one that hangs does not delay the others
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
		Pod: cfg.Identity.Pod, Version: a.build.Version, ServiceName: cfg.Identity.ServiceName, Attributes: cfg.OTel.ResourceAttributes,
	}
}
