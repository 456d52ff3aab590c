package wire

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// hops holds the forwarding fields of previous proxies.
type hops struct {
	proto     []byte // X-Forwarded-Proto
	host      []byte // X-Forwarded-Host
	numFor    int32  // non-empty X-Forwarded-For lines
	forwarded bool   // there is a non-empty Forwarded field
}

// makeForwarded reports whether to generate Forwarded from the X-Forwarded fields.
func (p *hops) makeForwarded() bool {
	return !p.forwarded && (p.numFor > 0 || len(p.proto) > 0 || len(p.host) > 0)
}

// appendFor appends an X-Forwarded-For line with the received values and peer.
func (p *hops) appendFor(dst []byte, h *Head, peer netip.Addr) []byte {
	dst = append(dst, forwardedFor...)
	for i := 0; p.numFor > 0 && i < len(h.Fields); i++ {
		if f := &h.Fields[i]; f.kind == field.ForwardedFor && f.valueEnd > f.valueStart {
			dst = append(dst, h.value(f)...)
			dst = append(dst, ", "...)
		}
	}
	dst = peer.AppendTo(dst)
	return append(dst, "\r\n"...)
}

const forwardedFor = "X-Forwarded-For: "

// appendForwarded appends a Forwarded line made from the X-Forwarded fields.
func (p *hops) appendForwarded(dst []byte, h *Head) []byte {
	lines := make([][]byte, 0, p.numFor)
	for i := range h.Fields {
		if f := &h.Fields[i]; f.kind == field.ForwardedFor {
			lines = append(lines, h.value(f))
		}
	}
	mark := len(dst)
	dst = append(dst, "Forwarded: "...)
	empty := len(dst)
	dst = gate.AppendForwarded(dst, gate.ForwardedInput{For: lines, Proto: p.proto, Host: p.host})
	if len(dst) == empty {
		return dst[:mark]
	}
	return append(dst, "\r\n"...)
}
