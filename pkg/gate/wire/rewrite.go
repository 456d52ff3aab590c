package wire

import (
	"net/netip"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// AppendHead writes the head as the container gets it. Runs of lines that go
// on unchanged are copied in one piece.
func (r *Request) AppendHead(dst []byte, peer netip.Addr, defaultHost []byte) []byte {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, r.Target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	makeForwarded := r.hops.makeForwarded()

	hostDone, forDone := false, false
	run := int(r.startEnd) + 2
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.kind == field.Other && !f.drop {
			continue
		}
		replace := f.kind == field.ForwardedFor && !forDone || f.kind == field.Host && f.drop || r.reworded(f)
		hostDone, forDone = hostDone || f.kind == field.Host, forDone || f.kind == field.ForwardedFor
		if !replace && !f.drop && (f.kind != field.Forwarded || !makeForwarded) {
			continue
		}
		dst = append(dst, r.Raw[run:f.start]...)
		run = int(f.end)
		switch {
		case !replace:
		case f.kind == field.Host:
			dst = r.hosts.appendLine(dst, defaultHost)
		case f.kind == field.ForwardedFor:
			dst = r.hops.appendFor(dst, &r.Head, peer)
		default:
			dst = r.appendReworded(dst, f)
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
	if r.addCoding {
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	if r.te {
		dst = append(dst, "TE: trailers\r\n"...)
	}
	if r.Upgrade {
		dst = r.appendUpgrade(dst)
	}
	return append(dst, "\r\n"...)
}

// reworded reports whether a field that may go on does so in the gate's words.
func (r *Request) reworded(f *Field) bool {
	switch f.kind {
	case field.TransferEncoding:
		return true
	case field.ContentLength:
		return r.Raw[f.valueStart] == '0'
	case field.Trailer:
		return !f.drop && !allMayTrail(r.value(f))
	}
	return false
}

func (r *Request) appendReworded(dst []byte, f *Field) []byte {
	switch f.kind {
	case field.TransferEncoding:
		return append(dst, "Transfer-Encoding: chunked\r\n"...)
	case field.ContentLength:
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, r.Length, 10)
		return append(dst, "\r\n"...)
	}
	return appendTrailer(dst, r.value(f))
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
