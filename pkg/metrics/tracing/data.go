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
	Tracestate string // key=value,key=value; empty if there is none, or none that is well-formed
}

// Kind is a span's side of a call.
type Kind uint8

// The kinds of spans.
const (
	KindInternal Kind = iota
	KindServer
	KindClient
)

// SpanData is a span that has ended. It does not change.
type SpanData struct {
	SpanContext
	ParentSpanID    gate.SpanID // zero = the first span of its trace
	HasRemoteParent bool        // the parent is another service's
	Kind            Kind
	Name            string
	StartTime       time.Time      // of the wall clock
	EndTime         time.Time      // not before StartTime
	Attributes      map[string]any // values are string, bool, int64 or float64
	Events          []Event        // in order of time
	ChildSpanCount  int            // spans whose parent is this one, in this process
	Peer            netip.AddrPort // who called; the zero value = not known

	HTTPStatus int    // 0 = none
	Failed     bool   // shown as failed: not for a response that blames the client
	Message    string // what went wrong, or the client's fault
}

// Event is something that happened at one instant of a span.
type Event struct {
	Time time.Time
	Name string
}
