package tracing

import (
	"cmp"
	"net/http"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Names of the spans. The first two names are also Knative's.
const (
	nameProxy    = "kn.queueproxy.proxy"
	nameWait     = "kn.queueproxy.wait"
	nameUpstream = "kn.queueproxy.upstream"
)

// Span is a sampled request. All methods of a nil Span do nothing. Its methods must not
// be called concurrently.
type Span struct {
	tracer   *Tracer
	context  SpanContext // context of the span of the whole request
	parentID gate.SpanID // span of the sender; zero = the gate started the trace
	upstream gate.SpanID
	lines    []byte // result of Lines, stored in room
	room     [maxLines]byte
}

func (t *Tracer) begin(fields *gate.TraceFields, c *gate.TraceContext, id gate.TraceID) *Span {
	s := &Span{
		tracer:   t,
		context:  SpanContext{TraceID: id, SpanID: newSpanID(), Flags: 1},
		parentID: c.SpanID,
		upstream: newSpanID(),
	}
	if c.Formats&gate.W3C != 0 {
		s.context.Tracestate = readTracestate(fields.Tracestate)
	}
	if t.isolated {
		return s
	}
	formats := c.Formats
	if t.formats != 0 {
		formats = t.formats
	}
	s.lines = appendLines(s.room[:0], formats, c, id, s.upstream, s.context.SpanID)
	if t.formats != 0 && fields != nil {
		s.lines = appendOthers(s.lines, t.formats, fields)
	}
	return s
}

// Lines returns field lines, each of which ends in CRLF. They replace the received W3C
// and B3 fields, except tracestate. They make the gate's upstream span the parent of
// the container's spans. All calls return the same slice.
//
// The formats of the lines are Config.Formats. If that is 0, they are the formats of the
// received fields, or traceparent if no such field was received. Received fields of
// other formats are included unchanged.
//
// If the result is nil, the caller must forward all received fields unchanged.
func (s *Span) Lines() []byte {
	if s == nil {
		return nil
	}
	return s.lines
}

// TraceID returns the trace id. For a nil Span it is zero.
func (s *Span) TraceID() gate.TraceID {
	if s == nil {
		return gate.TraceID{}
	}
	return s.context.TraceID
}

// End queues the spans of the request. It never blocks, and does not keep x.
func (s *Span) End(x *gate.Record) {
	if s == nil {
		return
	}
	server := s.span(s.context.SpanID, nameProxy, x.Arrived, x.Ended)
	server.ParentSpanID, server.HasRemoteParent = s.parentID, s.parentID != gate.SpanID{}
	server.Kind, server.ChildSpanCount, server.Peer = KindServer, 1, x.Peer
	server.setStatus(x)
	server.Attributes = s.tracer.attributes.ofServer(x, server.Failed)
	spans := append(make([]SpanData, 0, 3), server, s.span(newSpanID(), nameWait, x.Arrived, cmp.Or(x.Admitted, x.Ended)))
	if x.Forwarded != 0 {
		spans[0].ChildSpanCount++
		upstream := s.span(s.upstream, nameUpstream, x.Forwarded, x.Ended)
		upstream.Kind = KindClient
		upstream.setStatus(x)
		upstream.Attributes = s.tracer.attributes.ofClient(x, upstream.Failed)
		if x.Responded != 0 {
			upstream.Events = []Event{{Time: s.tracer.wall(x.Responded), Name: "answered"}}
		}
		spans = append(spans, upstream)
	}
	s.tracer.spans.addAll(spans)
}

// span returns a child of the span of the whole request.
func (s *Span) span(id gate.SpanID, name string, from, to time.Duration) SpanData {
	c := s.context
	c.SpanID = id
	return SpanData{
		SpanContext: c, ParentSpanID: s.context.SpanID, Name: name,
		StartTime: s.tracer.wall(from), EndTime: s.tracer.wall(max(from, to)),
	}
}

// setStatus sets HTTPStatus, Failed and Message. A failure outcome overrides a
// success status.
func (d *SpanData) setStatus(x *gate.Record) {
	fault := x.Outcome.Meaning().Level >= gate.Warn
	d.HTTPStatus, d.Failed = x.Status, x.Status >= 500 || fault && x.Status < 400
	switch {
	case fault:
		d.Message = x.Outcome.String()
	case x.Status >= 400:
		d.Message = cmp.Or(http.StatusText(x.Status), x.Outcome.String())
	}
}
