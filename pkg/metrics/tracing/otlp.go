package tracing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// otlpExporter sends spans to the trace service of an OTLP collector.
type otlpExporter struct {
	sender   otlp.Sender
	resource *resource.Resource
	scope    *common.InstrumentationScope
}

func newOTLPExporter(s otlp.Sender, r *otlp.Resource) *otlpExporter {
	return &otlpExporter{s, r.Message(), r.Scope()}
}

func (e *otlpExporter) Export(ctx context.Context, batch []*SpanData) (int, error) {
	spans := make([]*tracepb.Span, len(batch))
	for i, s := range batch {
		spans[i] = toOTLP(s)
	}
	request := &collector.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   e.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: e.scope, Spans: spans}},
	}}}
	var response collector.ExportTraceServiceResponse
	if err := otlp.Export(ctx, e.sender, request, &response); err != nil {
		return len(batch), err
	}
	if rejected := int(response.GetPartialSuccess().GetRejectedSpans()); rejected > 0 {
		return min(rejected, len(batch)), fmt.Errorf("the collector rejected %d of them: %s", rejected, response.GetPartialSuccess().GetErrorMessage())
	}
	return 0, nil
}

func (e *otlpExporter) Close() { e.sender.Close() }

// Bits of a span's flags that OTLP adds to those of W3C.
const (
	flagRemoteKnown = 0x100
	flagRemote      = 0x200
)

func toOTLP(s *SpanData) *tracepb.Span {
	p := &tracepb.Span{
		TraceId: s.TraceID[:], SpanId: s.SpanID[:], Name: otlp.Text(s.Name), Kind: otlpKind(s.Kind),
		TraceState: otlp.Text(s.Tracestate), Flags: uint32(s.Flags) | flagRemoteKnown,
		StartTimeUnixNano: nanoseconds(s.StartTime), EndTimeUnixNano: nanoseconds(s.EndTime),
		Status: &tracepb.Status{},
	}
	if s.ParentSpanID != (gate.SpanID{}) {
		p.ParentSpanId = s.ParentSpanID[:]
	}
	if s.HasRemoteParent {
		p.Flags |= flagRemote
	}
	for _, key := range slices.Sorted(maps.Keys(s.Attributes)) {
		p.Attributes = append(p.Attributes, otlp.Attribute(key, s.Attributes[key]))
	}
	for _, e := range s.Events {
		p.Events = append(p.Events, &tracepb.Span_Event{TimeUnixNano: nanoseconds(e.Time), Name: otlp.Text(e.Name)})
	}
	if s.Failed {
		p.Status.Code, p.Status.Message = tracepb.Status_STATUS_CODE_ERROR, otlp.Text(s.Message)
	}
	return p
}

func otlpKind(kind Kind) tracepb.Span_SpanKind {
	switch kind {
	case KindServer:
		return tracepb.Span_SPAN_KIND_SERVER
	case KindClient:
		return tracepb.Span_SPAN_KIND_CLIENT
	}
	return tracepb.Span_SPAN_KIND_INTERNAL
}

func nanoseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}
