package wire

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// AppendHead writes the head as the container gets it. Runs of lines that go
// on unchanged are copied in one piece. The framing fields are never copied: they
// are generated from Body and Length, at the position of the first received one.
func (r *Request) AppendHead(dst []byte, peer netip.Addr, defaultHost []byte) []byte {
	dst = growFor(dst, r.Raw)
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, r.Target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	makeForwarded := r.hops.makeForwarded()

	hostDone, forDone, framed := false, false, false
	run := int(r.startEnd) + 2
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.kind == field.Other && !f.drop {
			continue
		}
		switch f.kind {
		case field.ContentLength, field.TransferEncoding:
			dst, run = append(dst, r.Raw[run:f.start]...), int(f.end)
			if !framed {
				dst, framed = r.appendFraming(dst, f), true
			}
		case field.Host:
			hostDone = true
			if f.drop {
				dst, run = append(dst, r.Raw[run:f.start]...), int(f.end)
				dst = r.hosts.appendLine(dst, defaultHost)
			}
		case field.ForwardedFor:
			dst, run = append(dst, r.Raw[run:f.start]...), int(f.end)
			if !forDone {
				dst, forDone = r.hops.appendFor(dst, &r.Head, peer), true
			}
		case field.Trailer:
			if v := r.value(f); f.drop || !allMayTrail(v) {
				dst, run = append(dst, r.Raw[run:f.start]...), int(f.end)
				if !f.drop {
					dst = appendTrailer(dst, v)
				}
			}
		default:
			if f.drop || f.kind == field.Forwarded && makeForwarded {
				dst, run = append(dst, r.Raw[run:f.start]...), int(f.end)
			}
		}
	}
	dst = append(dst, r.Raw[run:len(r.Raw)-2]...)
	if !hostDone {
		dst = r.hosts.appendLine(dst, defaultHost)
	}
	if !forDone {
		dst = r.hops.appendFor(dst, &r.Head, peer)
	}
	if makeForwarded {
		dst = r.hops.appendForwarded(dst, &r.Head)
	}
	dst = append(dst, r.traceLines()...)
	if !framed {
		dst = r.appendFraming(dst, nil)
	}
	if r.te {
		dst = append(dst, "TE: trailers\r\n"...)
	}
	if r.Upgrade {
		dst = r.appendUpgrade(dst)
	}
	return append(dst, "\r\n"...)
}

// growFor allocates the memory for a long head at once, because growing line by
// line produces several times its size in garbage.
func growFor(dst, head []byte) []byte {
	const long = 4 << 10
	if n := len(head) + 512; n > long && n > cap(dst)-len(dst) { // 512 bytes for the fields that the gate adds
		return slices.Grow(dst, n)
	}
	return dst
}

// appendFraming appends the field that delimits the body, or nothing if there is no
// body. The field replaces received; a Content-Length keeps the received case of
// its name.
func (r *Request) appendFraming(dst []byte, received *Field) []byte {
	switch r.Body {
	case BodyChunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case BodyLength:
		dst = r.appendLength(dst, received, r.Length)
	}
	return dst
}

// appendLength appends a Content-Length that replaces received, which may be nil or
// a field of another name.
func (h *Head) appendLength(dst []byte, received *Field, n int64) []byte {
	if received != nil && received.kind == field.ContentLength {
		dst = append(dst, h.name(received)...)
	} else {
		dst = append(dst, "Content-Length"...)
	}
	dst = append(dst, ": "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

// appendUpgrade offers the protocols that may go on.
func (h *Head) appendUpgrade(dst []byte) []byte {
	dst = append(dst, "Connection: Upgrade\r\nUpgrade: "...)
	sep := ""
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.kind != field.Upgrade {
			continue
		}
		options(h.value(f), func(t []byte) bool {
			if !field.EqualFold(t, "h2c") {
				dst = append(append(dst, sep...), t...)
				sep = ", "
			}
			return true
		})
	}
	return append(dst, "\r\n"...)
}
