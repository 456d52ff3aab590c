package tracing

import (
	"cmp"
	"net/http"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Names of the spans. The first two are Knative's.
const (
	nameProxy    = "kn.queueproxy.proxy"
	nameWait     = "kn.queueproxy.wait"
	nameUpstream = "kn.queueproxy.upstream"
)

// Span is a sampled request. All methods of a nil Span do nothing. A Span must not be
// used concurrently.
type Span struct {
	tracer   *Tracer
	context  SpanContext // of the proxy span
	parentID gate.SpanID // zero = the gate started the trace
	upstream gate.SpanID
	lines    []byte // stored in room
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

// Lines returns the field lines, each with its CRLF, that replace the received W3C and
// B3 fields: in the same formats, with the gate's upstream span as the sender;
// traceparent if there was none. With Config.Formats, it uses these formats. tracestate
// is not included, because it is forwarded unchanged. The lines do not change. nil =
// forward all fields unchanged.
func (s *Span) Lines() []byte {
	if s == nil {
		return nil
	}
	return s.lines
}

// TraceID returns the trace id; zero for a nil Span.
func (s *Span) TraceID() gate.TraceID {
	if s == nil {
		return gate.TraceID{}
	}
	return s.context.TraceID
}

// End creates the spans and queues them. It never blocks, and keeps no reference to x.
func (s *Span) End(x *gate.Record) {
	if s == nil {
		return
	}
	whole := s.span(s.context.SpanID, nameProxy, x.Arrived, x.Ended)
	whole.ParentSpanID, whole.HasRemoteParent = s.parentID, s.parentID != gate.SpanID{}
	whole.Kind, whole.ChildSpanCount, whole.Peer = KindServer, 1, x.Peer
	whole.setStatus(x)
	whole.Attributes = s.tracer.attributes.ofServer(x, whole.Failed)
	spans := append(make([]SpanData, 0, 3), whole, s.span(newSpanID(), nameWait, x.Arrived, cmp.Or(x.Admitted, x.Ended)))
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

// span returns a child span of the whole request's span.
func (s *Span) span(id gate.SpanID, name string, from, to time.Duration) SpanData {
	c := s.context
	c.SpanID = id
	return SpanData{
		SpanContext: c, ParentSpanID: s.context.SpanID, Name: name,
		StartTime: s.tracer.wall(from), EndTime: s.tracer.wall(max(from, to)),
	}
}

// setStatus records the outcome of a failed request, regardless of the status.
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
