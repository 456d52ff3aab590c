package wire

import (
	"net/netip"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// appendHead writes the head as the container gets it. Runs of lines that go
// on unchanged are copied in one piece.
func (r *Request) AppendHead(dst []byte, peer netip.Addr, defaultHost []byte) []byte {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, r.Target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	makeForwarded := r.makesForwarded()

	hostDone, forDone := false, false
	run := r.startEnd + 2
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.kind == field.Other && !f.drop {
			continue
		}
		replace := f.kind == field.ForwardedFor && !forDone || f.kind == field.Host && f.drop ||
			f.kind == field.TransferEncoding || f.kind == field.Trailer && !f.drop && !allMayTrail(r.value(f)) || f.kind == field.ContentLength && r.Raw[f.valueStart] == '0'
		skip := f.drop || f.kind == field.Forwarded && makeForwarded
		if !replace && !skip {
			hostDone = hostDone || f.kind == field.Host
			continue
		}
		dst = append(dst, r.Raw[run:f.start]...)
		run = int(f.end)
		switch {
		case !replace:
		case f.kind == field.Host:
			dst = r.appendHost(dst, defaultHost)
			hostDone = true
		case f.kind == field.ForwardedFor:
			dst = r.appendForwardedFor(dst, peer)
			forDone = true
		case f.kind == field.Trailer:
			dst = appendTrailer(dst, r.value(f))
		case f.kind == field.TransferEncoding:
			dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
		case f.kind == field.ContentLength:
			dst = append(dst, "Content-Length: "...)
			dst = strconv.AppendInt(dst, r.Length, 10)
			dst = append(dst, "\r\n"...)
		}
	}
	dst = append(dst, r.Raw[run:len(r.Raw)-2]...)
	if !hostDone {
		dst = r.appendHost(dst, defaultHost)
	}
	if !forDone {
		dst = r.appendForwardedFor(dst, peer)
	}
	if makeForwarded {
		dst = r.appendForwarded(dst)
	}
	dst = append(dst, r.traceLines...)
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

// makesForwarded reports whether Forwarded is made from the X-Forwarded fields.
func (r *Request) makesForwarded() bool {
	return !r.forwarded && (r.forwardedFor > 0 || len(r.xProto) > 0 || len(r.xHost) > 0)
}

func (r *Request) appendHost(dst, defaultHost []byte) []byte {
	dst = append(dst, "Host: "...)
	if r.host != nil {
		dst = append(dst, r.host...)
	} else {
		dst = append(dst, defaultHost...)
	}
	return append(dst, "\r\n"...)
}

func (r *Request) appendForwardedFor(dst []byte, peer netip.Addr) []byte {
	dst = append(dst, "X-Forwarded-For: "...)
	for i := 0; r.forwardedFor > 0 && i < len(r.Fields); i++ {
		if f := &r.Fields[i]; f.kind == field.ForwardedFor && f.valueEnd > f.valueStart {
			dst = append(dst, r.value(f)...)
			dst = append(dst, ", "...)
		}
	}
	dst = peer.AppendTo(dst)
	return append(dst, "\r\n"...)
}

func (r *Request) appendForwarded(dst []byte) []byte {
	lines := make([][]byte, 0, r.forwardedFor)
	for i := range r.Fields {
		if f := &r.Fields[i]; f.kind == field.ForwardedFor {
			lines = append(lines, r.value(f))
		}
	}
	mark := len(dst)
	dst = append(dst, "Forwarded: "...)
	empty := len(dst)
	dst = gate.AppendForwarded(dst, gate.ForwardedInput{For: lines, Proto: r.xProto, Host: r.xHost})
	if len(dst) == empty {
		return dst[:mark]
	}
	return append(dst, "\r\n"...)
}

func (r *Request) appendUpgrade(dst []byte) []byte {
	dst = append(dst, "Connection: Upgrade\r\nUpgrade: "...)
	sep := ""
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.kind != field.Upgrade {
			continue
		}
		options(r.value(f), func(t []byte) bool {
			if !field.EqualFold(t, "h2c") {
				dst = append(append(dst, sep...), t...)
				sep = ", "
			}
			return true
		})
	}
	return append(dst, "\r\n"...)
}
