package tracing

import (
	"bytes"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Names of the spans. The first two are Knative's.
const (
	nameProxy    = "kn.queueproxy.proxy"
	nameWait     = "kn.queueproxy.wait"
	nameUpstream = "kn.queueproxy.upstream"
)

// Span is a sampled request. All methods of a nil Span do nothing. It belongs
// to one request, and to one goroutine at a time.
type Span struct {
	tracer   *Tracer
	context  SpanContext // of the proxy span
	parentID gate.SpanID // zero = a trace of our own
	upstream gate.SpanID
	lines    []byte // in room
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
	s.lines = appendLines(s.room[:0], c, id, s.upstream, s.context.SpanID)
	return s
}

// Lines are the field lines, each with its CRLF, that the container gets in
// the place of those of W3C and B3 that came: the same formats, with our
// upstream span as the sender. traceparent if none came. tracestate is not
// among them: it goes on as it came. They do not change.
func (s *Span) Lines() []byte {
	if s == nil {
		return nil
	}
	return s.lines
}

// TraceID is the trace's id; zero for a nil Span.
func (s *Span) TraceID() gate.TraceID {
	if s == nil {
		return gate.TraceID{}
	}
	return s.context.TraceID
}

// Finish is what is known of a request when it has ended. The slices are
// valid during the call only. Instants are of the wall clock.
type Finish struct {
	Method   []byte
	Target   []byte // the query is left out
	Host     []byte
	Protocol string // HTTP/1.1
	Peer     netip.AddrPort
	Status   int // as the client got it, or as the outcome means it
	Outcome  string
	Error    bool // the outcome is a fault, whatever the status

	Arrived, Ended      time.Time
	Admitted, Forwarded time.Time // zero = never
	Answered            time.Time // zero = the container did not
}

// Longest values of attributes, in bytes. They bound what waits for a
// collector.
const (
	maxPathBytes   = 1024
	maxHostBytes   = 255
	maxMethodBytes = 32
)

// End makes the spans and leaves them to be sent. It never blocks.
func (s *Span) End(f *Finish) {
	if s == nil {
		return
	}
	target, _, _ := bytes.Cut(f.Target, []byte{'?'})
	method, path, host := clip(f.Method, maxMethodBytes), clip(target, maxPathBytes), clip(f.Host, maxHostBytes)
	status := f.spanStatus()
	spans := make([]SpanData, 2, 3)

	proxy := &spans[0]
	*proxy = SpanData{
		SpanContext: s.context, ParentSpanID: s.parentID, HasRemoteParent: s.parentID != gate.SpanID{},
		Kind: KindServer, Name: nameProxy, StartTime: f.Arrived, EndTime: later(f.Arrived, f.Ended),
		Status: status, ChildSpanCount: 1,
		Attributes: map[string]any{
			"http.method": method, "http.path": path, "http.host": host,
			"http.status_code": int64(f.Status), "http.flavor": strings.TrimPrefix(f.Protocol, "HTTP/"),
			"queuegate.outcome": f.Outcome,
		},
	}
	if f.Peer.IsValid() {
		proxy.Attributes["net.peer.ip"] = f.Peer.Addr().String()
		proxy.Attributes["net.peer.port"] = int64(f.Peer.Port())
	}

	admitted := f.Admitted
	if admitted.IsZero() {
		admitted = f.Ended
	}
	spans[1] = s.child(newSpanID(), nameWait, f.Arrived, admitted)

	if !f.Forwarded.IsZero() {
		proxy.ChildSpanCount++
		upstream := s.child(s.upstream, nameUpstream, f.Forwarded, f.Ended)
		upstream.Kind, upstream.Status = KindClient, status
		upstream.Attributes = map[string]any{"http.method": method, "http.path": path, "http.host": host}
		if !f.Answered.IsZero() {
			upstream.Attributes["http.status_code"] = int64(f.Status)
			upstream.Events = []Event{{Time: f.Answered, Name: "answered"}}
		}
		spans = append(spans, upstream)
	}
	s.tracer.spans.addAll(spans)
}

func (s *Span) child(id gate.SpanID, name string, from, to time.Time) SpanData {
	c := s.context
	c.SpanID = id
	return SpanData{
		SpanContext: c, ParentSpanID: s.context.SpanID, Name: name, StartTime: from, EndTime: later(from, to),
	}
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// clip copies at most n bytes of b as UTF-8.
func clip(b []byte, n int) string {
	if len(b) > n {
		for n > 0 && !utf8.RuneStart(b[n]) {
			n--
		}
		b = b[:n]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
