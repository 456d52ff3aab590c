package census

import (
	"context"
	"net/http"
	"strings"

	"go.opencensus.io/trace"
	"go.opencensus.io/trace/tracestate"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// Export adapts an OpenCensus exporter for tracing.Config. After the Tracer has exported
// its last span, it calls the exporter's method Flush, if the exporter has one.
func Export(e trace.Exporter) tracing.Exporter { return &exporter{e} }

type exporter struct{ target trace.Exporter }

// Export implements tracing.Exporter. OpenCensus exporters do not report lost spans.
// The result lost therefore counts only spans that are not exported because ctx ended.
func (e *exporter) Export(ctx context.Context, batch []*tracing.SpanData) (lost int, err error) {
	for i, s := range batch {
		if err := ctx.Err(); err != nil {
			return len(batch) - i, err
		}
		e.target.ExportSpan(spanData(s))
	}
	return 0, nil
}

func (e *exporter) Close() {
	if f, ok := e.target.(interface{ Flush() }); ok {
		f.Flush()
	}
}

// Send returns an OpenCensus exporter that passes spans of the program to the gate's
// Tracer. Register it with trace.RegisterExporter. The exporter omits links, message
// events and attributes of annotations. If t is nil, the exporter does nothing.
func Send(t *tracing.Tracer) trace.Exporter { return &sender{t} }

type sender struct{ tracer *tracing.Tracer }

func (s *sender) ExportSpan(data *trace.SpanData) { s.tracer.ExportSpan(fromSpanData(data)) }

// spanData converts a span. Both spans share the read-only map of attributes.
func spanData(s *tracing.SpanData) *trace.SpanData {
	to := &trace.SpanData{
		SpanContext: trace.SpanContext{
			TraceID: trace.TraceID(s.TraceID), SpanID: trace.SpanID(s.SpanID),
			TraceOptions: trace.TraceOptions(s.Flags), Tracestate: readTracestate(s.Tracestate),
		},
		ParentSpanID: trace.SpanID(s.ParentSpanID), HasRemoteParent: s.HasRemoteParent,
		Name: s.Name, StartTime: s.StartTime, EndTime: s.EndTime, Attributes: s.Attributes,
		Status: trace.Status{Code: statusCode(s), Message: s.Message}, ChildSpanCount: s.ChildSpanCount,
	}
	switch s.Kind {
	case tracing.KindServer:
		to.SpanKind = trace.SpanKindServer
	case tracing.KindClient:
		to.SpanKind = trace.SpanKindClient
	}
	for _, e := range s.Events {
		to.Annotations = append(to.Annotations, trace.Annotation{Time: e.Time, Message: e.Name})
	}
	return to
}

func fromSpanData(s *trace.SpanData) *tracing.SpanData {
	to := &tracing.SpanData{
		SpanContext: tracing.SpanContext{
			TraceID: gate.TraceID(s.TraceID), SpanID: gate.SpanID(s.SpanID),
			Flags: byte(s.TraceOptions), Tracestate: tracestateText(s.Tracestate),
		},
		ParentSpanID: gate.SpanID(s.ParentSpanID), HasRemoteParent: s.HasRemoteParent,
		Name: s.Name, StartTime: s.StartTime, EndTime: s.EndTime, Attributes: s.Attributes,
		Message: s.Message, ChildSpanCount: s.ChildSpanCount,
	}
	switch s.SpanKind {
	case trace.SpanKindServer:
		to.Kind = tracing.KindServer
	case trace.SpanKindClient:
		to.Kind = tracing.KindClient
	}
	status, _ := s.Attributes["http.status_code"].(int64) // key that OpenCensus' own HTTP plugin uses
	to.HTTPStatus, to.Failed = int(status), s.Code != trace.StatusCodeOK && (status < 400 || status > 499)
	for _, a := range s.Annotations {
		to.Events = append(to.Events, tracing.Event{Time: a.Time, Name: a.Message})
	}
	return to
}

// statusCodes are the gRPC codes that correspond to HTTP statuses.
var statusCodes = map[int]int32{
	http.StatusBadRequest:          trace.StatusCodeInvalidArgument,
	http.StatusUnauthorized:        trace.StatusCodeUnauthenticated,
	http.StatusForbidden:           trace.StatusCodePermissionDenied,
	http.StatusNotFound:            trace.StatusCodeNotFound,
	http.StatusConflict:            trace.StatusCodeAborted,
	http.StatusTooManyRequests:     trace.StatusCodeResourceExhausted,
	499:                            trace.StatusCodeCancelled, // the client disconnected
	http.StatusInternalServerError: trace.StatusCodeInternal,
	http.StatusNotImplemented:      trace.StatusCodeUnimplemented,
	http.StatusServiceUnavailable:  trace.StatusCodeUnavailable,
	http.StatusGatewayTimeout:      trace.StatusCodeDeadlineExceeded,
}

// statusCode returns the gRPC code that corresponds to the HTTP status of a span. If no
// code corresponds, the result is Unknown for a failure, and OK otherwise.
func statusCode(s *tracing.SpanData) int32 {
	if code, known := statusCodes[s.HTTPStatus]; known {
		return code
	}
	if s.HTTPStatus >= 400 || s.Failed {
		return trace.StatusCodeUnknown
	}
	return trace.StatusCodeOK
}

// readTracestate parses a tracestate. It returns nil if OpenCensus does not accept it.
func readTracestate(text string) *tracestate.Tracestate {
	if text == "" {
		return nil
	}
	var entries []tracestate.Entry
	for member := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(member, "=")
		entries = append(entries, tracestate.Entry{Key: key, Value: value})
	}
	state, err := tracestate.New(nil, entries...)
	if err != nil {
		return nil
	}
	return state
}

func tracestateText(t *tracestate.Tracestate) string {
	var members []string
	for _, e := range t.Entries() {
		members = append(members, e.Key+"="+e.Value)
	}
	return strings.Join(members, ",")
}
