package push

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"

	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// Intervals between messages.
const (
	DefaultInterval  = time.Minute // OpenTelemetry's default
	shortestInterval = 100 * time.Millisecond
)

// Gather reads all metrics, such as (*prometheus.Registry).Gather. It may return both
// metrics and an error.
type Gather func() ([]*dto.MetricFamily, error)

// Config configures a Pusher.
type Config struct {
	Protocol  string // "http/protobuf" or "grpc"
	Endpoint  string // URL or host:port
	Insecure  bool   // an endpoint without a scheme means plaintext
	OTLP      otlp.Options
	Interval  time.Duration // at least 100 ms; 0 = DefaultInterval
	Resource  otlp.Resource
	Gather    Gather
	GoRuntime bool // also send metrics of the Go runtime
	// Failed is called, on the Pusher's goroutine, if a message is lost, if it lacks some
	// metrics, or if the collector rejects a part of it. It may be nil.
	Failed func(error)
}

// Pusher sends all metrics once per interval, until it is closed.
type Pusher struct {
	cfg    Config
	sender otlp.Sender
	start  time.Time

	cancel  context.CancelFunc
	once    sync.Once
	closing chan struct{}
	done    chan struct{}
}

// New starts one goroutine, which ends with Close. The first message is sent after
// one interval.
func New(c Config) (*Pusher, error) {
	s, err := otlp.NewSender(otlp.Metrics, otlp.Destination{Protocol: c.Protocol, Endpoint: c.Endpoint, Insecure: c.Insecure, Options: c.OTLP})
	if err != nil {
		return nil, fmt.Errorf("pushing metrics: %w", err)
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	c.Interval = max(c.Interval, shortestInterval)
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pusher{
		cfg: c, sender: s, start: time.Now(),
		cancel: cancel, closing: make(chan struct{}), done: make(chan struct{}),
	}
	go p.run(ctx)
	return p, nil
}

func (p *Pusher) run(ctx context.Context) {
	defer close(p.done)
	defer p.sender.Close()
	ticker := time.NewTicker(p.cfg.Interval)
	defer ticker.Stop()
	for last := false; !last; {
		select {
		case <-ticker.C:
		case <-p.closing:
			last = true
		}
		if err := p.push(ctx); err != nil && p.cfg.Failed != nil {
			p.cfg.Failed(fmt.Errorf("pushing metrics: %w", err))
		}
	}
}

// push does not retry, because the next message contains the same totals.
func (p *Pusher) push(ctx context.Context) error {
	request, incomplete := p.request(time.Now())
	var response collector.ExportMetricsServiceResponse
	if err := otlp.ExportOnce(ctx, p.sender, request, &response); err != nil {
		return errors.Join(incomplete, err)
	}
	if partial := response.GetPartialSuccess(); partial.GetRejectedDataPoints() > 0 {
		return errors.Join(incomplete,
			fmt.Errorf("the collector rejected %d points: %s", partial.GetRejectedDataPoints(), partial.GetErrorMessage()))
	}
	return incomplete
}

// request returns the message to send. If some metrics cannot be gathered, it returns
// the error, and also a message that contains the other metrics.
func (p *Pusher) request(now time.Time) (*collector.ExportMetricsServiceRequest, error) {
	families, err := p.cfg.Gather()
	if err != nil {
		err = fmt.Errorf("gathering metrics: %w", err)
	}
	s := spanOf(p.start, now)
	scopes := map[string]*metrics.ScopeMetrics{"": {Scope: p.cfg.Resource.Scope()}}
	all := []*metrics.ScopeMetrics{scopes[""]}
	for _, family := range families {
		m := s.message(family)
		if m == nil {
			continue
		}
		name := scope(family)
		if scopes[name] == nil {
			scopes[name] = &metrics.ScopeMetrics{Scope: &common.InstrumentationScope{Name: name}}
			all = append(all, scopes[name])
		}
		scopes[name].Metrics = append(scopes[name].Metrics, m)
	}
	if p.cfg.GoRuntime {
		all = append(all, s.goRuntime())
	}
	return &collector.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource: p.cfg.Resource.Message(), ScopeMetrics: all,
	}}}, err
}

// Close sends the metrics one last time and ends the Pusher. If ctx ends first, it
// returns the error of ctx. On a nil Pusher it does nothing.
func (p *Pusher) Close(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.once.Do(func() { close(p.closing) })
	defer p.cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pushing metrics for a last time: %w", ctx.Err())
	}
}
