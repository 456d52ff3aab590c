package exchange

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// evictedEvent ends the event stream of an evicted request. Clients of model servers
// expect error events in this form.
const evictedEvent = "event: error\ndata: {\"error\":{\"message\":\"evicted by a request of a higher priority\",\"type\":\"overloaded_error\",\"code\":\"evicted\"}}\n\n"

// eventStream is the Sink of a response with server-sent events (text/event-stream,
// WHATWG HTML section 9.2). It forwards the payload unchanged, and notes where the gate
// can insert an event.
type eventStream struct {
	client  Downstream // nil = no event can be inserted
	line    bool       // the current line is not empty
	inEvent bool       // an event has begun and no empty line has ended it
	cr      bool       // the last byte was a CR
}

// begin makes s the sink of res, if an event can be inserted: res must be an event stream
// without a content coding or a known length, and the client must accept chunks.
func (s *eventStream) begin(x *Exchange, res *wire.Response) {
	if x.Protocol == "HTTP/1.0" || res.Body != wire.BodyChunked && res.Body != wire.BodyUntilClose {
		return // without chunks, the client could not detect the truncation
	}
	isStream := false
	for name, value := range res.Each {
		switch {
		case bytes.EqualFold(name, []byte("content-type")):
			value, _, _ = bytes.Cut(value, []byte(";"))
			isStream = bytes.EqualFold(bytes.TrimSpace(value), []byte("text/event-stream"))
		case bytes.EqualFold(name, []byte("content-encoding")):
			return
		}
	}
	if isStream {
		*s = eventStream{client: x.down}
	}
}

func (s *eventStream) end() { s.client = nil }

// Write implements Sink.
func (s *eventStream) Write(p []byte) int {
	n := s.client.Write(p)
	s.note(p[:n])
	return n
}

// Capacity implements Sink.
func (s *eventStream) Capacity() int { return s.client.Capacity() }

// Finish implements Sink.
func (s *eventStream) Finish(trailers []byte) { s.client.Finish(trailers) }

// Flush implements Sink.
func (s *eventStream) Flush() (moved, empty bool) { return s.client.Flush() }

// Broken implements Sink.
func (s *eventStream) Broken() bool { return s.client.Broken() }

// note records whether the payload up to the end of p ends within a line or an event. An
// event ends with two line ends of at most two bytes each, so only the last four bytes of
// p matter.
func (s *eventStream) note(p []byte) {
	if skipped := len(p) - 4; skipped > 0 {
		s.line, s.inEvent, s.cr = true, true, p[skipped-1] == '\r'
		p = p[skipped:]
	}
	for _, c := range p {
		switch {
		case c == '\n' && s.cr: // this LF ends a CRLF
		case c == '\n', c == '\r':
			s.inEvent, s.line = s.line, false
		default:
			s.inEvent, s.line = true, true
		}
		s.cr = c == '\r'
	}
}

// abort sends evictedEvent if the last event is complete and the client accepts more
// bytes. The missing last chunk or END_STREAM tells the client that the response is
// incomplete.
func (s *eventStream) abort() {
	if s.client == nil || s.inEvent {
		return
	}
	if _, empty := s.client.Flush(); !empty || s.client.Capacity() < len(evictedEvent) {
		return
	}
	s.client.Write([]byte(evictedEvent))
	s.client.Flush()
}

// beginEvents is called when the response res begins. If the request may be evicted and
// the response is an event stream, beginEvents prepares the exchange so that abort can
// add evictedEvent to the response.
func (x *Exchange) beginEvents(res *wire.Response) {
	if x.settings.overload.evicts() && x.tracked.joined {
		x.tracked.events.begin(x, res)
	}
}

func (x *Exchange) responseSink() Sink {
	if x.settings.overload.evicts() && x.tracked.events.client != nil {
		return &x.tracked.events
	}
	return x.down
}
