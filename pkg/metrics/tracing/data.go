package tracing

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// SpanContext is what the services on a request's way know of a span.
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

// SpanData is a span that has ended. Nobody changes it.
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
	Status
	ChildSpanCount int // spans whose parent is this one, in this process
}

// Event is something that happened at one instant of a span.
type Event struct {
	Time time.Time
	Name string
}

// Status is how a span ended. The zero value is success.
type Status struct {
	Code    Code
	Message string // empty for success
}

// Code is one of the canonical codes that gRPC defines.
type Code int32

// The codes that the gate uses.
const (
	CodeOK                Code = 0
	CodeCancelled         Code = 1
	CodeUnknown           Code = 2
	CodeInvalidArgument   Code = 3
	CodeDeadlineExceeded  Code = 4
	CodeNotFound          Code = 5
	CodePermissionDenied  Code = 7
	CodeResourceExhausted Code = 8
	CodeAborted           Code = 10
	CodeUnimplemented     Code = 12
	CodeInternal          Code = 13
	CodeUnavailable       Code = 14
	CodeUnauthenticated   Code = 16
)
