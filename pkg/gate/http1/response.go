package http1

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// response is an answer's head, read and decided upon.
type response struct {
	head
	status    int
	line      []byte // status line behind the version, " 200 OK"
	minor     int
	conn      connection
	body      bodyKind
	length    int64
	hasLength bool
	dated     bool
	upgrade   bool
}

func (r *response) reset() {
	h := r.head
	h.reset()
	*r = response{head: h}
}

// decide reads the complete head of an answer to a request with the given
// method, and how its body ends (RFC 9112 section 6.3).
func (r *response) decide(method []byte) error {
	line := r.raw[:r.startEnd]
	if len(line) < len("HTTP/1.1 200") {
		return errMalformed
	}
	minor, err := readVersion(line[:8])
	if err != nil {
		return err
	}
	r.minor = minor
	code := line[9:12]
	if line[8] != ' ' || !isDigit(code[0]) || !isDigit(code[1]) || !isDigit(code[2]) || code[0] == '0' {
		return errMalformed
	}
	if len(line) > 12 && line[12] != ' ' || !isText(line[12:]) {
		return errMalformed
	}
	r.line = line[8:]
	r.status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	r.conn = r.readConnection()
	return r.readFields(method)
}

func (r *response) readFields(method []byte) error {
	codings := 0
	for i := range r.fields {
		f := &r.fields[i]
		switch f.kind {
		case field.ContentLength:
			n, ok := readLength(r.value(f))
			if r.hasLength || !ok {
				return errMalformed
			}
			r.hasLength, r.length = true, n
		case field.TransferEncoding:
			if codings++; codings > 1 || !field.EqualFold(r.value(f), "chunked") {
				return errMalformed
			}
			f.drop = true
		case field.Connection, field.HopByHop, field.TE, field.Gate:
			f.drop = true
		case field.Upgrade:
			f.drop = r.status != 101
			r.upgrade = true
		case field.Date:
			r.dated = r.dated || !f.drop
		}
	}
	if codings > 0 && (r.hasLength || r.minor == 0) {
		return errMalformed
	}
	switch {
	case r.status < 200 || r.status == 204:
		r.dropLength() // RFC 9110 section 8.6
		r.body, r.length, r.hasLength = noBody, 0, false
	case r.status == 304 || bytes.Equal(method, []byte("HEAD")):
		r.body = noBody
	case codings > 0:
		r.body = bodyChunked
	case r.hasLength:
		r.body = bodyLength
	default:
		r.body = bodyUntilClose
	}
	return nil
}

func (r *response) dropLength() {
	for i := range r.fields {
		if r.fields[i].kind == field.ContentLength {
			r.fields[i].drop = true
		}
	}
}

// reusable reports whether the container's connection may carry another
// request once this answer is complete.
func (r *response) reusable() bool {
	return r.body != bodyUntilClose && !r.conn.close && (r.minor > 0 || r.conn.keepAlive)
}

// framing says how the client gets the answer.
type framing struct {
	chunked   bool // Transfer-Encoding: chunked
	close     bool // the connection ends with it
	keepAlive bool // say so to an HTTP/1.0 client
	interim   bool
}

// appendHead writes the head as the client gets it.
func (r *response) appendHead(dst []byte, f framing, date func([]byte) []byte) []byte {
	dst = append(dst, "HTTP/1.1"...)
	dst = append(dst, r.line...)
	if len(r.line) == len(" 200") {
		dst = append(dst, ' ') // RFC 9112 section 4: the space is not optional
	}
	dst = append(dst, "\r\n"...)
	run := r.startEnd + 2
	for i := range r.fields {
		l := &r.fields[i]
		trailer := l.kind == field.Trailer && !allMayTrail(r.value(l))
		if !l.drop && !trailer {
			continue
		}
		dst = append(dst, r.raw[run:l.start]...)
		run = int(l.end)
		if !l.drop {
			dst = appendTrailer(dst, r.value(l))
		}
	}
	dst = append(dst, r.raw[run:len(r.raw)-2]...)
	switch {
	case f.interim && r.status == 101:
		dst = append(dst, "Connection: Upgrade\r\n"...)
	case f.interim:
	default:
		if !r.dated {
			dst = date(dst)
		}
		if f.chunked {
			dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
		}
		if f.close {
			dst = append(dst, "Connection: close\r\n"...)
		} else if f.keepAlive {
			dst = append(dst, "Connection: keep-alive\r\n"...)
		}
	}
	return append(dst, "\r\n"...)
}

// outcomeOf maps the ways in which a request head is refused.
func outcomeOf(err error) gate.Outcome {
	switch err {
	case errTooLarge:
		return gate.HeadTooLarge
	case errLongTarget:
		return gate.TargetTooLong
	case errVersion:
		return gate.VersionNotSupported
	case errCoding:
		return gate.CodingNotImplemented
	case errExpectation:
		return gate.ExpectationFailed
	case errMethod:
		return gate.MethodNotAllowed
	}
	return gate.BadRequest
}
