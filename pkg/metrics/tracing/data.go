package tracing

import (
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// SpanContext identifies a span across services.
type SpanContext struct {
	TraceID    gate.TraceID
	SpanID     gate.SpanID
	Flags      byte   // flags of traceparent; bit 0 means sampled
	Tracestate string // key=value,key=value; empty if tracestate was absent or malformed
}

// Kind says which side of a call a span represents.
type Kind uint8

// The kinds of spans.
const (
	KindInternal Kind = iota
	KindServer
	KindClient
)

// SpanData is a span that has ended. It must not be modified.
type SpanData struct {
	SpanContext
	ParentSpanID    gate.SpanID // zero = the span is the first one of its trace
	HasRemoteParent bool        // the parent span belongs to another service
	Kind            Kind
	Name            string
	StartTime       time.Time      // wall-clock time
	EndTime         time.Time      // not before StartTime
	Attributes      map[string]any // each value is a string, bool, int64 or float64
	Events          []Event        // in chronological order
	ChildSpanCount  int            // number of child spans in this process
	Peer            netip.AddrPort // address of the caller; zero = unknown

	HTTPStatus int    // 0 = none
	Failed     bool   // false for a client error
	Message    string // description of the failure or of the client's error
}

// Event is an event within a span.
type Event struct {
	Time time.Time
	Name string
}
