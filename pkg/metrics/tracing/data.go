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
	Flags      byte   // of traceparent; bit 0 = sampled
	Tracestate string // key=value,key=value; empty if absent or malformed
}

// Kind is the side of a call that a span represents.
type Kind uint8

// The kinds of spans.
const (
	KindInternal Kind = iota
	KindServer
	KindClient
)

// SpanData is an ended span. It is immutable.
type SpanData struct {
	SpanContext
	ParentSpanID    gate.SpanID // zero = the first span of its trace
	HasRemoteParent bool        // the parent belongs to another service
	Kind            Kind
	Name            string
	StartTime       time.Time      // wall-clock time
	EndTime         time.Time      // not before StartTime
	Attributes      map[string]any // values are string, bool, int64 or float64
	Events          []Event        // in chronological order
	ChildSpanCount  int            // child spans in this process
	Peer            netip.AddrPort // the caller; zero = unknown

	HTTPStatus int    // 0 = none
	Failed     bool   // shown as failed; false for client errors
	Message    string // description of the failure or the client error
}

// Event is an event at an instant within a span.
type Event struct {
	Time time.Time
	Name string
}
