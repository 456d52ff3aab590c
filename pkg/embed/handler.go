package embed

import (
	"net/http"
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Handler puts the gate in front of next. Several handlers may share a gate;
// wrapping a handler that is wrapped already would take two slots for each
// request, and can wait for itself.
//
// next sees a ResponseWriter that passes on what net/http offers:
// http.ResponseController, Flush, Hijack, ReadFrom, full duplex, trailers and
// 1xx. A client that leaves while it waits never reaches next. A panic of next
// is counted as internal-error (http.ErrAbortHandler as upstream-broke-off, or
// client-gone), gives the slot back, and goes on.
//
// A connection that next hijacks keeps its slot until it is closed, whether
// next has returned or not; a panic gives the slot back at once.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return &handler{g, next}
}

type handler struct {
	gate *Gate
	next http.Handler
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := h.gate
	var head head
	head.read(r.Header, len(g.cfg.TrustedSources) > 0)
	arrival := exchange.Arrival{Probe: head.probe, Encrypted: r.TLS != nil}
	if len(g.cfg.TrustedSources) > 0 {
		arrival.Peer = peerOf(r).Addr()
	}
	screening := g.gate.Screen(&arrival)
	if screening.Kind != gate.Traffic {
		g.probe(w, r, screening, &arrival.Probe)
		return
	}
	x := g.exchange(w, r, &head, screening.Trusted)
	x.serve(h.next)
}

// probe answers a probe of the platform. Nothing of it is counted, and it
// needs no slot.
func (g *Gate) probe(w http.ResponseWriter, r *http.Request, s exchange.Screening, h *gate.ProbeHeaders) {
	life := g.getExchange()
	life.Peer = peerOf(r)
	a, ok := life.AnswerProbe(r.Context(), s, h)
	g.putExchange(life)
	if !ok {
		panic(http.ErrAbortHandler) // the caller has left
	}
	g.reply(w, r, &a)
}

// peerOf is where a request comes from; invalid for a Unix socket.
func peerOf(r *http.Request) netip.AddrPort {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer
}
