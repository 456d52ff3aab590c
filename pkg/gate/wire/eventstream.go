package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// EventStreamType is the media type of server-sent events (HTML Standard, section 9.2).
const EventStreamType = "text/event-stream"

// EventStreamHead is the head of an event stream that the gate begins before the
// container has responded. X-Accel-Buffering keeps nginx from buffering the stream. All
// loops share this variable, so it must not be changed.
var EventStreamHead = newResponse("HTTP/1.1 200 OK\r\nContent-Type: " + EventStreamType + "\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n\r\n")

// newResponse parses a head made by the gate.
func newResponse(head string) *Response {
	r := new(Response)
	if complete, err := r.ScanResponse([]byte(head)); !complete || err != nil {
		panic("BUG: incomplete or malformed head")
	}
	if err := r.Parse([]byte("GET")); err != nil {
		panic("BUG: malformed head")
	}
	return r
}

// IsEventStream reports whether r is a 200 with server-sent events and without a content
// coding, so that its body can follow EventStreamHead.
func (r *Response) IsEventStream() bool {
	stream := false
	for i := range r.Fields {
		f := &r.Fields[i]
		switch name := r.name(f); {
		case f.kind != field.Other:
		case field.EqualFold(name, "content-type"):
			mediaType, _, _ := bytes.Cut(r.value(f), []byte{';'})
			stream = field.EqualFold(bytes.TrimRight(mediaType, " \t"), EventStreamType)
		case field.EqualFold(name, "content-encoding") && !field.EqualFold(r.value(f), "identity"):
			return false
		}
	}
	return r.Status == 200 && stream
}

// DropAcceptEncoding removes Accept-Encoding, so that the container does not encode its
// response.
func (r *Request) DropAcceptEncoding() {
	for i := range r.Fields {
		if f := &r.Fields[i]; f.kind == field.Other && field.EqualFold(r.name(f), "accept-encoding") {
			f.out = dropped
		}
	}
}
