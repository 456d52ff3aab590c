package embed

import (
	"net/http"
	"net/netip"
	"strings"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate"
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
	fields := gate.ProbeHeaders{
		UserAgent:    first(r.Header, "User-Agent"),
		NetworkProbe: first(r.Header, "K-Network-Probe"),
		NetworkHash:  first(r.Header, "K-Network-Hash"),
	}
	if kind, caller := gate.Classify(fields); kind != gate.Traffic {
		h.gate.probe(w, r, kind, caller, fields)
		return
	}
	x := &exchange{gate: h.gate, w: w, r: r}
	x.begin()
	x.serve(h.next)
}

// probe answers a probe of the platform. Nothing of it is counted, and it
// needs no slot.
func (g *Gate) probe(w http.ResponseWriter, r *http.Request, kind gate.Kind, c gate.Caller, h gate.ProbeHeaders) {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // of a Unix socket there is none
	a, ok := g.gate.ReplyToProbe(kind, c, peer.Addr(), &h, func() (gate.ReadinessResult, bool) { return g.gate.WaitReady(r.Context(), c) })
	if !ok {
		panic(http.ErrAbortHandler) // the caller has left
	}
	g.reply(w, r, &a)
}

// first is the first value of a field, without white space around it; nil when
// absent. Nobody may change it.
func first(h http.Header, name string) []byte {
	values := h[name]
	if len(values) == 0 {
		return nil
	}
	v := strings.Trim(values[0], " \t")
	if v == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(v), len(v))
}
