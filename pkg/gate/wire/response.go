package wire

import (
	"bytes"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// Response is a parsed response head.
type Response struct {
	Head
	Status        int
	Minor         int
	Conn          Connection
	Body          BodyKind
	Length        int64
	hasLength     bool // a Content-Length may be forwarded; its value is Length
	announcesBody bool // a field announces a body
	// addLength is set if the container has ended the stream together with the head, and
	// sent no Content-Length. Over HTTP/1, the gate then adds Content-Length: 0.
	addLength      bool
	receivedLength []byte // received Content-Length, compared with repeated ones
	hasDate        bool
	// keepAlive is the timeout in the Keep-Alive field plus 1 ns, so that 0 means that
	// the container has announced no timeout.
	keepAlive time.Duration
	repair    repair
}

// Reset empties r and keeps its memory.
func (r *Response) Reset() {
	h := r.Head
	h.reset()
	*r = Response{Head: h}
}

// Parse parses the complete head of a response, and determines how its body is delimited
// (RFC 9112 section 6.3). This depends on the method of the request.
func (r *Response) Parse(method []byte) error {
	line := r.Raw[:r.startEnd]
	if len(line) < len("HTTP/1.1 200") {
		return ErrMalformed
	}
	minor, err := readVersion(line[:8])
	if err != nil {
		return err
	}
	r.Minor = minor
	code := line[9:12]
	if line[8] != ' ' || !field.IsDigit(code[0]) || !field.IsDigit(code[1]) || !field.IsDigit(code[2]) || code[0] == '0' {
		return ErrMalformed
	}
	if len(line) > 12 && line[12] != ' ' || !field.IsText(line[12:]) {
		return ErrMalformed
	}
	r.Status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	ok := false
	if r.Conn, ok = r.readConnection(); !ok {
		return ErrMalformed
	}
	return r.readFields(method)
}

func (r *Response) readFields(method []byte) error {
	codings, announced := 0, 0
	for i := range r.Fields {
		f := &r.Fields[i]
		switch f.kind {
		case field.ContentLength:
			f.out = framingLine
			if !r.readLength(r.value(f)) {
				return ErrMalformed
			}
		case field.TransferEncoding:
			if codings++; codings > 1 || !field.EqualFold(r.value(f), "chunked") {
				return ErrMalformed
			}
			f.out = dropped
		case field.HopByHop:
			f.out = dropped
			if name := r.name(f); len(name) == len("keep-alive") {
				r.readKeepAlive(r.value(f))
			}
		case field.Connection, field.TE, field.Gate:
			f.out = dropped
		case field.Upgrade, field.WebSocketAccept:
			if r.Status == 101 {
				f.out = max(f.out, notHTTP2) // RFC 8441 section 5
			} else if f.kind == field.Upgrade {
				f.out = dropped
			}
		case field.Trailer:
			announced += countElements(r.value(f))
			f.announce(r.value(f), announced)
		case field.Date:
			r.hasDate = r.hasDate || f.out == unchanged
		}
	}
	if codings > 0 && (r.hasLength || r.Minor == 0) {
		return ErrMalformed
	}
	r.announcesBody = codings > 0 || r.Length > 0
	switch {
	case r.Status < 200 || r.Status == 204 || r.Status < 300 && string(method) == "CONNECT":
		// Such a response has no body, and must be forwarded without Content-Length (RFC
		// 9110 sections 8.6 and 9.3.6).
		r.Body, r.Length, r.hasLength = NoBody, 0, false
	case r.Status == 304 || bytes.Equal(method, []byte("HEAD")):
		r.Body = NoBody
	case codings > 0:
		r.Body = BodyChunked
	case r.hasLength:
		r.Body = BodyLength
	default:
		r.Body = BodyUntilClose
	}
	return nil
}

// KeepAlive returns the idle timeout that the container has announced; false = none.
func (r *Response) KeepAlive() (time.Duration, bool) { return r.keepAlive - 1, r.keepAlive > 0 }

// readKeepAlive parses the parameter timeout of Keep-Alive, in seconds (RFC 2068 section
// 19.7.1.1).
func (r *Response) readKeepAlive(v []byte) {
	if countElements(v) > maxOptions {
		return
	}
	eachOption(v, func(t []byte) bool {
		name, seconds, _ := bytes.Cut(t, []byte{'='})
		n, ok := field.ReadLength(bytes.Trim(seconds, " \t\""))
		if field.EqualFold(bytes.TrimRight(name, " \t"), "timeout") && ok && n < 1<<20 {
			r.keepAlive = time.Duration(n)*time.Second + 1
		}
		return true
	})
}

// maxLengthBytes is the maximum length of a parsed Content-Length value.
const maxLengthBytes = 1 << 10

// readLength parses Content-Length. Repeated values must be identical (RFC 9112 section
// 6.3).
func (r *Response) readLength(v []byte) bool {
	if len(v) > maxLengthBytes {
		return false
	}
	for {
		one, rest, list := bytes.Cut(v, []byte{','})
		one = bytes.Trim(one, " \t")
		n, ok := field.ReadLength(one)
		if !ok || r.hasLength && !bytes.Equal(one, r.receivedLength) {
			return false
		}
		r.hasLength, r.Length, r.receivedLength = true, n, one
		if !list {
			return true
		}
		v = rest
	}
}

// AnnouncesBody reports whether the head announces a body that its status or the method
// forbids (RFC 9112 section 6.3). If the container sent that body, the gate would read it
// as the response to the next request.
func (r *Response) AnnouncesBody() bool { return r.announcesBody && r.Body == NoBody }

// Offers reports whether the gate may accept a response with status 101. The Upgrade
// fields of the response must name at least one protocol. The request must have offered
// every named protocol to the container. A field may have at most maxOptions elements.
func (r *Request) Offers(res *Response) bool {
	named := false
	for i := range res.Fields {
		f := &res.Fields[i]
		if f.kind != field.Upgrade {
			continue
		}
		if countElements(res.value(f)) > maxOptions || !eachOption(res.value(f), func(t []byte) bool {
			named = true
			return r.offersProtocol(t)
		}) {
			return false
		}
	}
	return named
}

func (r *Request) offersProtocol(name []byte) bool {
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.kind == field.Upgrade && !eachOption(r.value(f), func(t []byte) bool {
			return !equalFold(t, name) || field.EqualFold(t, "h2c")
		}) {
			return true
		}
	}
	return false
}

// Reusable reports whether the upstream connection may carry another request.
func (r *Response) Reusable() bool {
	return r.Body != BodyUntilClose && !r.Conn.Close && (r.Minor > 0 || r.Conn.KeepAlive)
}

// OutcomeOf returns the outcome for an error from parsing a request head.
func OutcomeOf(err error) gate.Outcome {
	switch err {
	case ErrTooLarge:
		return gate.HeadTooLarge
	case ErrLongTarget:
		return gate.TargetTooLong
	case ErrVersion:
		return gate.VersionNotSupported
	case ErrCoding:
		return gate.CodingNotImplemented
	case ErrExpectation:
		return gate.ExpectationFailed
	case ErrMethod:
		return gate.MethodNotAllowed
	}
	return gate.BadRequest
}
