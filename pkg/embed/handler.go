package embed

import (
	"net/http"
	"net/netip"

	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Handler puts the gate in front of next. Several handlers may share a gate. Do not
// wrap a handler twice: each request would need two slots, so requests could deadlock.
//
// next gets a ResponseWriter with the same optional interfaces as the server's
// (http.Flusher, http.Hijacker, http.CloseNotifier, http.Pusher). If a client
// disconnects while its request is queued, next is not called. A panic of next releases
// the slot and propagates.
//
// A hijacked connection holds its slot until it is closed, even after next has
// returned; a panic releases the slot immediately.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return &handler{g.state(), next}
}

type handler struct {
	gate *core.State
	next http.Handler
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := h.gate
	var head head
	head.read(r.Header, len(g.Gate.TrustedSources) > 0)
	arrival := exchange.Arrival{Probe: head.probe, Encrypted: r.TLS != nil}
	if len(g.Gate.TrustedSources) > 0 {
		arrival.Peer = peerOf(r).Addr()
	}
	screening := g.Gate.Screen(&arrival)
	if screening.Kind != gate.Traffic {
		probe(g, w, r, screening, &arrival.Probe)
		return
	}
	newCall(g, w, r, &head, screening.Trusted).serve(h.next)
}

// probe replies to a probe of the platform. A probe is not counted and needs no slot.
func probe(g *core.State, w http.ResponseWriter, r *http.Request, s exchange.Screening, h *gate.ProbeHeaders) {
	life := g.GetExchange()
	life.Peer = peerOf(r)
	a, ok := life.ProbeReply(r.Context(), s, h)
	g.PutExchange(life)
	if !ok {
		panic(http.ErrAbortHandler) // the prober has disconnected
	}
	reply(g, w, r, &a)
}

// peerOf returns the address of the peer. It is invalid for a Unix socket.
func peerOf(r *http.Request) netip.AddrPort {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer
}
