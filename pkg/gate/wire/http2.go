package wire

import (
	"bytes"
	"crypto/fips140"
	"crypto/rand"
	"crypto/sha1" // RFC 6455 requires SHA-1
	"encoding/base64"
	"strconv"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// A head received over HTTP/2 is converted to the form of an HTTP/1 head, so that the
// same rules for fields and forwarding apply.

func (h *Head) appendField(name, value []byte, kind field.Kind, id h2.Name, sensitive bool) {
	f := Field{start: uint32(len(h.text)), kind: kind, id: id, sensitive: sensitive}
	h.text = append(h.text, name...)
	f.nameEnd = uint32(len(h.text))
	h.text = append(h.text, ": "...)
	f.valueStart = uint32(len(h.text))
	h.text = append(h.text, value...)
	f.valueEnd = uint32(len(h.text))
	h.text = append(h.text, "\r\n"...)
	f.end = uint32(len(h.text))
	h.Fields = append(h.Fields, f)
}

// appendFields appends the regular fields of an HTTP/2 head. It omits the fields of one
// kind, given by the parameter omitted. The value field.Other means that no field is
// omitted. All Cookie fields become one field (RFC 9113 section 8.2.3).
func (h *Head) appendFields(from *h2.Head, omitted field.Kind) {
	cookies := false
	for i := from.Regular; i < len(from.Fields); i++ {
		f := &from.Fields[i]
		switch {
		case f.Kind == omitted && f.Kind != field.Other:
		case f.Name == h2.NameCookie:
			if !cookies {
				cookies = true
				h.appendCookies(from, i)
			}
		default:
			h.appendField(from.NameOf(f), from.ValueOf(f), f.Kind, f.Name, f.Sensitive())
		}
	}
}

func (h *Head) appendCookies(from *h2.Head, first int) {
	h.appendField(from.NameOf(&from.Fields[first]), from.ValueOf(&from.Fields[first]), field.Other, h2.NameCookie, from.Fields[first].Sensitive())
	line := &h.Fields[len(h.Fields)-1]
	for i := first + 1; i < len(from.Fields); i++ {
		f := &from.Fields[i]
		if f.Name != h2.NameCookie {
			continue
		}
		line.sensitive = line.sensitive || f.Sensitive()
		h.text = append(h.text[:line.valueEnd], "; "...)
		h.text = append(h.text, from.ValueOf(f)...)
		line.valueEnd = uint32(len(h.text))
		h.text = append(h.text, "\r\n"...)
		line.end = uint32(len(h.text))
	}
}

// preallocate allocates all memory for the conversion of an HTTP/2 request head at once.
// Memory that grows step by step would leave garbage and unused capacity for each stream.
func (h *Head) preallocate(from *h2.Head) {
	// In from.Size, each field counts 32 bytes in addition to its name and value. In
	// h.text, each field needs only 4 additional bytes, for ": " and CRLF. The start line
	// needs no further bytes, because it is shorter than the pseudo-fields it replaces.
	if n := from.Size - (32-len(": \r\n"))*len(from.Fields); n > cap(h.text) {
		h.text = make([]byte, 0, n)
	}
	if n := len(from.Fields) - from.Regular + 1; n > cap(h.Fields) {
		h.Fields = make([]Field, 0, n)
	}
}

// MemorySize returns the memory in bytes of a head received over HTTP/2.
func (h *Head) MemorySize() int { return len(h.text) + int(unsafe.Sizeof(Field{}))*len(h.Fields) }

func (h *Head) complete() {
	h.text = append(h.text, "\r\n"...)
	h.Raw = h.text
}

// ReadHTTP2 converts the HTTP/2 head h, which must have passed CheckRequest. If endStream is
// true, the request has no body. An extended CONNECT becomes an HTTP/1 upgrade (RFC 8441
// section 5). A CONNECT has no body, so ReadHTTP2 rejects an extended CONNECT with
// Content-Length, Transfer-Encoding or Expect (RFC 9110 section 9.3.6).
func (r *Request) ReadHTTP2(h *h2.Head, endStream bool) error {
	r.Reset()
	method, path, protocol := h.Method(), h.Path(), h.Protocol()
	if string(method) == "CONNECT" {
		if len(protocol) == 0 {
			r.Method = method
			return ErrMethod
		}
		method = []byte("GET")
	}
	r.preallocate(h)
	t := append(append(r.text[:0], method...), ' ')
	at := len(t)
	t = append(append(t, path...), " HTTP/1.1\r\n"...)
	r.text, r.startEnd = t, int32(len(t)-2)
	r.appendField([]byte("host"), h.Authority(), field.Host, h2.NameHost, false)
	r.appendFields(h, field.Host)
	upgrade := len(r.Fields)
	if len(protocol) > 0 {
		r.appendField([]byte("upgrade"), protocol, field.Upgrade, h2.NameUpgrade, false)
		r.addWebSocketKey(protocol)
	}
	r.complete()
	r.HTTP2 = true
	r.Method, r.Target, r.Minor = r.Raw[:at-1], r.Raw[at:at+len(path)], 1
	r.Asterisk = string(path) == "*"
	if !endStream && len(protocol) == 0 {
		r.Body = BodyChunked
	}
	if err := r.readFields(); err != nil {
		return err
	}
	if len(protocol) > 0 {
		if r.hasField(field.ContentLength) || r.hasField(field.TransferEncoding) || r.hasField(field.Expect) {
			return ErrMalformed
		}
		if !r.Upgrade {
			return ErrMethod // extended CONNECT for a protocol that is never forwarded
		}
		r.ensureRare().protocol = r.value(&r.Fields[upgrade])
	}
	return nil
}

func (h *Head) hasField(kind field.Kind) bool {
	for i := range h.Fields {
		if h.Fields[i].kind == kind {
			return true
		}
	}
	return false
}

// addWebSocketKey adds Sec-WebSocket-Key to a WebSocket request that has none. HTTP/2
// clients need not send this field, but a container that speaks HTTP/1.1 requires it (RFC
// 6455 section 4.1). The gate does not check Sec-WebSocket-Accept in the response.
func (r *Request) addWebSocketKey(protocol []byte) {
	if !field.EqualFold(protocol, "websocket") {
		return
	}
	if r.hasField(field.WebSocketKey) {
		return
	}
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	var key [24]byte
	base64.StdEncoding.Encode(key[:], nonce[:])
	r.appendField([]byte("sec-websocket-key"), key[:], field.WebSocketKey, 0, false)
}

// Extend marks an HTTP/1 WebSocket request to be sent as extended CONNECT (RFC 8441
// section 5). It returns the Sec-WebSocket-Accept for the client's 101 (RFC 6455 section
// 4.2.2); nil = r cannot be sent in this form, for example because it has a body.
func (r *Request) Extend() (accept []byte) {
	if !r.Upgrade || r.HTTP2 || r.HasBody() || string(r.Method) != "GET" || !r.offersProtocol(webSocket) {
		return nil
	}
	for i := range r.Fields {
		if f := &r.Fields[i]; f.kind == field.WebSocketKey {
			r.ensureRare().protocol = webSocket
			return acceptOf(r.value(f))
		}
	}
	return nil
}

// acceptOf returns the Sec-WebSocket-Accept for a Sec-WebSocket-Key. FIPS 140-3 does not
// apply, because this SHA-1 has no security function.
func acceptOf(key []byte) (accept []byte) {
	fips140.WithoutEnforcement(func() {
		sum := sha1.Sum(append(bytes.Clone(key), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...))
		accept = base64.StdEncoding.AppendEncode(nil, sum[:])
	})
	return accept
}

var webSocket = []byte("websocket")

// TrailerLines converts the trailers in h to field lines. It omits trailers that must not
// be forwarded. The head h must have passed CheckTrailers.
func TrailerLines(h *h2.Head) (dst []byte) {
	for i := range h.Fields {
		f := &h.Fields[i]
		if name := h.NameOf(f); field.IsAllowedTrailer(name) {
			dst = append(append(dst, name...), ": "...)
			dst = append(append(dst, h.ValueOf(f)...), "\r\n"...)
		}
	}
	return dst
}

// ReadHTTP2 converts the HTTP/2 head h, which must have passed CheckResponse. If endStream is
// true, the response has no body. The parameter method is the method of the request.
func (r *Response) ReadHTTP2(h *h2.Head, endStream bool, method []byte) error {
	r.Reset()
	t := append(r.text[:0], "HTTP/1.1 "...)
	t = strconv.AppendInt(t, int64(h.Status), 10)
	t = append(append(t, ' '), Reason(h.Status)...)
	t = append(t, "\r\n"...)
	r.text, r.startEnd = t, int32(len(t)-2)
	r.appendFields(h, field.Other)
	r.complete()
	r.Minor, r.Status = 1, h.Status
	if err := r.readFields(method); err != nil {
		return err
	}
	switch {
	case endStream:
		r.addLength = r.Body == BodyUntilClose
		r.Body = NoBody
	case r.Body == BodyUntilClose:
		r.Body = BodyChunked
	}
	return nil
}

// ReadSwitched converts the HTTP/2 head h to a 101 for an HTTP/1 client. The status in h
// must be a 2xx, by which the container accepts the extended CONNECT. The parameter
// accept is the Sec-WebSocket-Accept that Request.Extend returned for the request.
func (r *Response) ReadSwitched(h *h2.Head, accept []byte) error {
	r.Reset()
	t := append(r.text[:0], "HTTP/1.1 101 Switching Protocols\r\n"...)
	r.text, r.startEnd = t, int32(len(t)-2)
	r.appendFields(h, field.Other)
	r.appendField([]byte("Upgrade"), webSocket, field.Upgrade, h2.NameUpgrade, false)
	r.appendField([]byte("Sec-WebSocket-Accept"), accept, field.WebSocketAccept, 0, false)
	r.complete()
	r.Minor, r.Status = 1, 101
	return r.readFields([]byte("GET"))
}

// GRPC reports whether the request is a gRPC call, with a content type such as
// application/grpc+proto.
func (r *Request) GRPC() bool {
	if !r.HTTP2 {
		return false
	}
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.id == h2.NameContentType || f.id == 0 && field.EqualFold(r.name(f), "content-type") {
			return IsGRPC(r.value(f))
		}
	}
	return false
}

// IsGRPC reports whether contentType is a gRPC content type.
func IsGRPC(contentType []byte) bool {
	rest, ok := bytes.CutPrefix(contentType, []byte("application/grpc"))
	return ok && (len(rest) == 0 || rest[0] == '+' || rest[0] == ';')
}
