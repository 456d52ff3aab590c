package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/atomic"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
	"github.com/queuegate/queuegate/pkg/metrics/push"
	"github.com/queuegate/queuegate/pkg/metrics/requestlog"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// exporters send data to log readers and collectors. A disabled exporter is nil.
type exporters struct {
	tracer *tracing.Tracer
	// log is the request log; nil = off. probeLog is the same log, or nil if probes are
	// not logged.
	log, probeLog atomic.Pointer[requestlog.Log]

	// written is the request log that has been opened; nil = the log was never on. When
	// the log is switched off, written stays open, because requests in progress still
	// write their lines and the log may be switched on again.
	written  atomic.Pointer[requestlog.Log]
	terminal *terminal   // nil = the gate's own log is not on a terminal
	ownLog   *zap.Logger // the gate's own log
}

// newExporters creates the configured exporters.
func newExporters(cfg *config.Config, term *terminal, r otlp.Resource, log *zap.Logger) (_ *exporters, err error) {
	e := &exporters{terminal: term, ownLog: log}
	t := cfg.Tracing
	t.Protocol, _ = cfg.Exporters()
	t.SamplingRate, t.IgnoresParent = cfg.Sampling()
	t.Formats, t.NoPropagation = cfg.Propagation()
	t.Resource, t.Epoch = r, loop.TimeOf(0)
	if t.Protocol == otlp.ProtocolGRPC || t.Protocol == otlp.ProtocolHTTP {
		to, files := cfg.TracesOverOTLP()
		t.Endpoint, t.OTLP = to.Endpoint, to.Options
		loadTLS(&t.OTLP, files, "traces", log)
	}
	t.Failed = func(err error) { log.Warn("spans were not delivered", zap.Error(err)) }
	e.tracer, err = tracing.New(t)
	if err != nil {
		return e, err
	}
	next, err := e.requestLog(cfg)
	if err != nil {
		return e, err
	}
	next()
	return e, nil
}

// requestLog prepares the request log of the configuration cfg. The current log stays in
// use until the caller calls the returned function, which switches to the prepared log.
func (e *exporters) requestLog(cfg *config.Config) (next func(), err error) {
	if !cfg.RequestLog || e.terminal != nil && e.terminal.replacesLog {
		return func() {
			e.log.Store(nil)
			e.probeLog.Store(nil)
		}, nil
	}
	log := e.written.Load()
	if log == nil {
		log, err = requestlog.New(requestlog.Config{
			Template: cfg.RequestLogTemplate,
			Revision: requestlog.RevisionInfo{
				Name: cfg.Identity.Revision, Namespace: cfg.Identity.Namespace, Service: cfg.Identity.Service, Configuration: cfg.Identity.Configuration,
				PodName: cfg.Identity.Pod, PodIP: cfg.PodIP,
			},
			Writer: os.Stdout,
			Failed: func(err error) { e.ownLog.Warn("request lines were not written", zap.Error(err)) },
		})
	} else {
		err = requestlog.Check(cfg.RequestLogTemplate)
	}
	if err != nil {
		return nil, err
	}
	return func() {
		e.written.Store(log)
		_ = log.SetTemplate(cfg.RequestLogTemplate) // checked above
		e.log.Store(log)
		if !cfg.RequestLogProbes {
			log = nil
		}
		e.probeLog.Store(log)
	}, nil
}

// newPusher creates the pusher of metrics.
func newPusher(cfg *config.Config, r otlp.Resource, figures *metrics.Collector, log *zap.Logger) (*push.Pusher, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(figures)
	to, files := cfg.MetricsOverOTLP()
	loadTLS(&to.Options, files, "metrics", log)
	return push.New(push.Config{
		Protocol: to.Protocol, Endpoint: to.Endpoint, OTLP: to.Options, Interval: cfg.MetricsExportInterval,
		Resource: r, Gather: registry.Gather, GoRuntime: true,
		Failed: func(err error) { log.Warn("metrics were not delivered", zap.Error(err)) },
	})
}

// loadTLS sets the CA certificates that verify a collector, from the first valid file in
// files.Certificates. It sets the gate's client certificate from the first valid pair in
// files.Clients. Without a valid CA file, the system's CAs verify the collector. Without
// a valid pair, the gate sends no client certificate.
func loadTLS(o *otlp.Options, files config.TLSFiles, signal string, log *zap.Logger) {
	for _, file := range files.Certificates {
		roots := x509.NewCertPool()
		text, err := os.ReadFile(file)
		if err == nil && !roots.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s has no certificate in PEM", file)
		}
		if err == nil {
			o.RootCAs = roots
			break
		}
		log.Warn("OTEL_EXPORTER_OTLP_CERTIFICATE is ignored for "+signal, zap.Error(err))
	}
	for _, file := range files.Clients {
		certificate, err := tls.LoadX509KeyPair(file.Certificate, file.Key)
		if err == nil {
			o.Certificates = []tls.Certificate{certificate}
			break
		}
		log.Warn("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE is ignored for "+signal, zap.Error(err))
	}
}

func (e *exporters) close(ctx context.Context, pusher *push.Pusher) error {
	var closing sync.WaitGroup
	// Concurrently, because an exporter may hang.
	var failed [3]error
	for i, end := range []func(context.Context) error{e.tracer.Close, e.written.Load().Close, pusher.Close} {
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
