package exchange

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// evictedEvent ends the event stream of an evicted request. It has the form of an error
// event that clients of model servers expect.
const evictedEvent = "event: error\ndata: {\"error\":{\"message\":\"evicted by a request of a higher priority\",\"type\":\"overloaded_error\",\"code\":\"evicted\"}}\n\n"

// eventStream is the Sink of a response with server-sent events (text/event-stream,
// WHATWG HTML section 9.2). The response must have no content coding and no announced
// length. eventStream forwards the payload unchanged, and records whether an event could
// be inserted at the current position.
type eventStream struct {
	client  Downstream // nil = the response is no event stream into which an event could be inserted
	line    bool       // the current line has at least one byte
	inEvent bool       // the bytes since the last empty line are an incomplete event
	cr      bool       // the last byte was a CR
}

// begin makes s the sink of res, the response to x, if an event can be inserted into res.
// That requires an event stream without a content coding and without a known length, and a
// client that accepts chunks.
func (s *eventStream) begin(x *Exchange, res *wire.Response) {
	if x.Protocol == "HTTP/1.0" || res.Body != wire.BodyChunked && res.Body != wire.BodyUntilClose {
		return // without chunks the event would look like the end of the response
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

// note follows the ends of lines and events in the payload. It looks only at the last
// four bytes: an empty line has at most two bytes, and so has the end of the line before
// it.
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

// abort sends evictedEvent if the client accepts it and the last event sent is complete.
// The client still recognizes that the response is incomplete, because its last chunk or
// END_STREAM is missing.
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

// beginEvents prepares x for an eviction that happens while its response res is being sent.
func (x *Exchange) beginEvents(res *wire.Response) {
	if x.settings.overload.evicts() && x.tracked.joined {
		x.tracked.events.begin(x, res)
	}
}

// responseSink returns the Sink to which the response body is written.
func (x *Exchange) responseSink() Sink {
	if x.settings.overload.evicts() && x.tracked.events.client != nil {
		return &x.tracked.events
	}
	return x.down
}
