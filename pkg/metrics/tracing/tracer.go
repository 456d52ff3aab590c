package tracing

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// Config configures a Tracer.
type Config struct {
	Protocol string       // "none" or empty, "stdout", "zipkin", "http/protobuf" or "grpc"
	Endpoint string       // URL or host:port, for zipkin, http/protobuf and grpc
	Insecure bool         // an endpoint without a scheme means plaintext
	OTLP     otlp.Options // for http/protobuf and grpc
	// SamplingRate is the share of requests that are sampled, from 0 to 1. It does not
	// apply to a request if the sender has already made the decision.
	SamplingRate  float64
	Debug         bool // sample every request, regardless of the sender's decision
	IgnoresParent bool // apply SamplingRate, regardless of the sender's decision

	// Formats are the trace context formats that are read and written. Fields of
	// other formats are forwarded unchanged. 0 = read all formats, and write the
	// received formats.
	Formats       gate.TraceFormats
	NoPropagation bool // ignore the received trace context and forward it unchanged
	Resource      otlp.Resource

	LegacyAttributes bool      // use the names of earlier semantic conventions
	Epoch            time.Time // wall-clock time at which the clock of gate.Record was 0

	Output   io.Writer   // for stdout; nil = os.Stdout
	Exporter Exporter    // used instead of Protocol, Endpoint and Output; may be nil
	Failed   func(error) // called with errors of sending, on the Tracer's goroutine; may be nil
}

// Tracer starts spans and sends spans that have ended. A nil Tracer samples nothing.
// Its methods may be called concurrently.
type Tracer struct {
	sampler    sampler
	noParent   bool
	formats    gate.TraceFormats
	isolated   bool
	attributes *attributes
	epoch      time.Time
	spans      *batcher
}

// New starts one goroutine, which ends with Close. It returns nil if c has neither a
// protocol nor an exporter.
func New(c Config) (*Tracer, error) {
	if c.Exporter != nil {
		return newTracer(&c, c.Exporter), nil
	}
	if c.Protocol == "" || c.Protocol == "none" {
		return nil, nil
	}
	e, err := newExporter(&c)
	if err != nil {
		return nil, fmt.Errorf("tracing to %s: %w", c.Protocol, err)
	}
	return newTracer(&c, e), nil
}

func newTracer(c *Config, e Exporter) *Tracer {
	t := &Tracer{
		sampler: newSampler(c.SamplingRate), noParent: c.Debug || c.IgnoresParent, formats: c.Formats, isolated: c.NoPropagation,
		attributes: &currentAttributes, epoch: c.Epoch, spans: newBatcher(e, c.Failed),
	}
	if c.LegacyAttributes {
		t.attributes = &legacyAttributes
	}
	if c.Debug {
		t.sampler = newSampler(1)
	}
	return t
}

func newExporter(c *Config) (Exporter, error) {
	switch c.Protocol {
	case "stdout":
		if c.Output == nil {
			c.Output = os.Stdout
		}
		return &lineExporter{c.Output, c.Resource.Name()}, nil
	case "zipkin":
		u, err := otlp.ParseEndpoint(c.Endpoint, zipkinPath, c.Insecure)
		if err != nil {
			return nil, err
		}
		return &zipkinExporter{otlp.NewHTTP(u, "application/json"), c.Resource.Name()}, nil
	case otlp.ProtocolHTTP, otlp.ProtocolGRPC:
		s, err := otlp.NewSender(otlp.Traces, otlp.Destination{Protocol: c.Protocol, Endpoint: c.Endpoint, Insecure: c.Insecure, Options: c.OTLP})
		if err != nil {
			return nil, err
		}
		return newOTLPExporter(s, &c.Resource), nil
	}
	return nil, fmt.Errorf("unknown protocol: want none, stdout, zipkin, http/protobuf or grpc")
}

// Start returns the span of a request whose head is complete. If the request is not
// sampled, it returns nil and does not allocate. fields may be nil.
//
// The sender's decision applies, unless Debug or IgnoresParent is set.
func (t *Tracer) Start(fields *gate.TraceFields) *Span {
	if t == nil {
		return nil
	}
	c := t.context(fields)
	if c.Sampling == gate.Unsampled && !t.noParent {
		return nil
	}
	id := c.TraceID
	if id == (gate.TraceID{}) {
		id = newTraceID()
	}
	if (c.Sampling != gate.Sampled || t.noParent) && !t.sampler(id) {
		return nil
	}
	return t.begin(fields, &c, id)
}

// context returns the received trace context. Fields of formats outside Config.Formats
// are ignored.
func (t *Tracer) context(fields *gate.TraceFields) gate.TraceContext {
	switch {
	case t.isolated || fields == nil:
		return gate.TraceContext{}
	case t.formats == 0:
		return fields.Context()
	}
	counting := *fields
	if t.formats&gate.W3C == 0 {
		counting.Traceparent, counting.Tracestate = nil, nil
	}
	if t.formats&gate.B3Single == 0 {
		counting.B3 = nil
	}
	if t.formats&gate.B3Multi == 0 {
		counting.TraceID, counting.SpanID, counting.ParentSpanID, counting.Sampled, counting.Flags = nil, nil, nil, nil, nil
	}
	return counting.Context()
}

// wall converts a time on the clock of gate.Record to wall-clock time.
func (t *Tracer) wall(at time.Duration) time.Time { return t.epoch.Add(at) }

// ExportSpan queues a span of another part of the program. It never blocks. The caller
// must not modify s afterwards.
func (t *Tracer) ExportSpan(s *SpanData) {
	if t != nil {
		t.spans.add(s)
	}
}

// Dropped returns the number of spans that were lost because the queue was full or
// the collector did not accept them.
func (t *Tracer) Dropped() int64 {
	if t == nil {
		return 0
	}
	return t.spans.dropped.Load()
}

// Close sends the queued spans. Later spans are dropped. If ctx ends first, Close
// returns the error of ctx.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.spans.close(ctx)
}
