package wire

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// AppendHead appends the head for the container over HTTP/1.
func (r *Request) AppendHead(dst []byte, peer netip.Addr, defaultHost []byte) []byte {
	dst = growFor(dst, r.Raw)
	run := 0
	// The received start line cannot be copied if its version is not HTTP/1.1, or if its
	// target has the absolute form, because r.Target is then shorter.
	if int(r.startEnd) != len(r.Method)+len(r.Target)+len("  HTTP/1.1") || r.Raw[r.startEnd-1] != '1' {
		dst = append(append(dst, r.Method...), ' ')
		dst = append(append(dst, r.Target...), " HTTP/1.1"...)
		run = int(r.startEnd)
	}
	o := &outgoing{Head: &r.Head, request: r, chunked: r.Body == BodyChunked, length: r.Length, peer: peer, fallback: defaultHost}
	return o.appendHTTP1(dst, run, r.generated(false))
}

// AppendHead appends the head for the client over HTTP/1. date is used if the response
// has no Date.
func (r *Response) AppendHead(dst []byte, framing Framing, date []byte) []byte {
	dst = growFor(dst, r.Raw)
	dst = append(dst, "HTTP/1.1"...)
	run := len("HTTP/1.1")
	// If the received status line ends with the status, add the space that RFC 9112
	// section 4 requires after it.
	if int(r.startEnd) == len("HTTP/1.1 200") {
		dst, run = append(append(dst, r.Raw[run:r.startEnd]...), ' '), int(r.startEnd)
	}
	o := &outgoing{Head: &r.Head, chunked: framing.Chunked, length: r.Length, timing: framing.Timing, load: framing.Load, fallback: date}
	return o.appendHTTP1(dst, run, r.generated(false, framing))
}

// appendHTTP1 appends the head for HTTP/1. It begins after Raw[:run], because the caller
// has already appended the text for this part. Unchanged lines that follow each other are
// copied in one step. The parameter lines is the set of generated lines to insert.
func (o *outgoing) appendHTTP1(dst []byte, run int, lines parts) []byte {
	h := o.Head
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.out < trailerLine {
			continue
		}
		if run < int(f.start) {
			dst = append(dst, h.Raw[run:f.start]...)
		}
		run = int(f.end)
		if f.out == trailerLine || lines.take(f.out) {
			dst = o.generate(dst, f.out, f)
		}
	}
	dst = append(dst, h.Raw[run:len(h.Raw)-2]...)
	for p := hostLine; lines != 0; p++ {
		if lines.take(p) {
			dst = o.generate(dst, p, nil)
		}
	}
	return append(dst, "\r\n"...)
}

// AppendHTTP2 appends the field block of the head for the container.
func (r *Request) AppendHTTP2(dst []byte, e *h2.Encoder, peer netip.Addr, defaultHost []byte, scheme string) []byte {
	dst = growFor(dst, r.Raw)
	protocol := r.Protocol()
	if protocol != nil {
		dst = e.AppendNamed(dst, h2.NameMethod, []byte("CONNECT"))
		dst = e.AppendNamed(dst, h2.NameProtocol, protocol)
	} else {
		dst = e.AppendNamed(dst, h2.NameMethod, r.Method)
	}
	dst = e.AppendNamed(dst, h2.NameScheme, []byte(scheme))
	dst = e.AppendNamed(dst, h2.NamePath, asciiTarget(r.Target))
	dst = e.AppendNamed(dst, h2.NameAuthority, r.FinalHost(defaultHost))
	o := &outgoing{Head: &r.Head, request: r, extended: protocol != nil, length: r.Length, peer: peer}
	return o.appendHTTP2(dst, e, r.generated(true))
}

// AppendHTTP2 appends the field block of the head for the client. date is used if the
// response has no Date. A 101 becomes a 200 (RFC 8441 section 5).
func (r *Response) AppendHTTP2(dst []byte, e *h2.Encoder, framing Framing, date []byte) []byte {
	status := r.Status
	if status == 101 {
		status = 200
	}
	dst = e.AppendStatus(growFor(dst, r.Raw), status)
	framing.Interim = r.Status < 200
	o := &outgoing{Head: &r.Head, length: r.Length, timing: framing.Timing, load: framing.Load, fallback: date}
	return o.appendHTTP2(dst, e, r.generated(true, framing))
}

func (o *outgoing) appendHTTP2(dst []byte, e *h2.Encoder, lines parts) []byte {
	h := o.Head
	for i := range h.Fields {
		f := &h.Fields[i]
		forwarded := f.out == unchanged || f.out == notExtended && !o.extended
		switch {
		case forwarded && (f.id != 0 || f.sensitive):
			dst = e.AppendField(dst, f.id, h.name(f), h.value(f), f.sensitive)
		case forwarded:
			dst = e.AppendText(dst, h.name(f), h.value(f))
		case f.out == trailerLine || lines.take(f.out):
			dst = o.encode(dst, e, f.out, f)
		}
	}
	for p := hostLine; lines != 0; p++ {
		if lines.take(p) {
			dst = o.encode(dst, e, p, nil)
		}
	}
	return dst
}

func (o *outgoing) encode(dst []byte, e *h2.Encoder, p part, f *Field) []byte {
	var room [128]byte
	lines := room[:0]
	if p == forwardedForLine && o.request.hops.numFor > 0 {
		lines = growFor(lines, o.Raw)
	}
	lines = o.generate(lines, p, f)
	if name := hpackNames[p]; name != 0 && len(lines) > 0 {
		return e.AppendNamed(dst, name, lines[len(name.String())+len(": "):len(lines)-len("\r\n")])
	}
	return AppendLines(dst, e, lines)
}

// AppendLines appends field lines, such as trailers. Each must end in CRLF.
func AppendLines(dst []byte, e *h2.Encoder, lines []byte) []byte {
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte{':'})
		dst = e.AppendText(dst, name, bytes.Trim(value, " \t"))
		lines = rest
	}
	return dst
}

// growFor allocates the memory for a long head at once. Growing it line by line would
// leave several times its size as garbage.
func growFor(dst, head []byte) []byte {
	const long = 4 << 10
	if n := len(head) + 512; n > long && n > cap(dst)-len(dst) { // 512 bytes for fields that the gate adds
		return slices.Grow(dst, n)
	}
	return dst
}
