package embed

import (
	"net/http"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// responseFields are fields that a handler may have set for an answer that it
// never gave. Others may be for every answer of the server, and stay.
var responseFields = []string{
	"Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length",
	"Content-Location", "Content-Range", "Content-Type", "Etag", "Expires", "Last-Modified", "Trailer", "Transfer-Encoding",
}

// rejectRequest answers in the gate's name.
func (g *Gate) rejectRequest(w http.ResponseWriter, r *http.Request, o gate.Outcome) {
	a := gate.ReplyTo(o)
	if r.ProtoMajor == 2 && wire.IsGRPC(bytesOf(r.Header.Get("Content-Type"))) {
		g.replyGRPC(w, &a)
		return
	}
	g.reply(w, r, &a)
}

// reply sends a.
func (g *Gate) reply(w http.ResponseWriter, r *http.Request, a *gate.Reply) {
	h := g.replyHeader(w)
	for name, value := range a.Fields {
		h[http.CanonicalHeaderKey(name)] = []string{value}
	}
	if a.Body == "" {
		h["Content-Type"] = nil // none would be made up
	}
	h["Content-Length"] = []string{strconv.Itoa(a.Length())}
	w.WriteHeader(a.Status)
	if a.Length() > 0 && r.Method != http.MethodHead {
		_, _ = w.Write(a.AppendBody(nil)) // the client may have left
	}
}

// replyGRPC answers a gRPC call: a head that is the trailers as well (gRPC
// over HTTP/2, Trailers-Only). The fixed texts of outcomes need no escapes.
func (g *Gate) replyGRPC(w http.ResponseWriter, a *gate.Reply) {
	h := g.replyHeader(w)
	h["Content-Type"] = []string{"application/grpc"}
	h["Content-Length"] = nil // none would be made up
	h["Grpc-Status"] = []string{strconv.Itoa(a.Outcome.Meaning().GRPC)}
	h["Grpc-Message"] = []string{a.Body}
	h["K-Gate-Outcome"] = []string{a.Outcome.String()}
	if status := a.Outcome.ProxyStatus(); status != "" {
		h["Proxy-Status"] = []string{status}
	}
	if a.Retry > 0 {
		h["Grpc-Retry-Pushback-Ms"] = []string{strconv.Itoa(a.Retry * 1000)}
	}
	w.WriteHeader(http.StatusOK)
}

// replyHeader returns the header of an answer of the gate's own.
func (g *Gate) replyHeader(w http.ResponseWriter) http.Header {
	h := w.Header()
	for _, name := range responseFields {
		delete(h, name)
	}
	dropGateFields(h)
	g.announceClose(w)
	return h
}

// announceClose tells the client of a draining gate to close; net/http makes a
// GOAWAY of it for HTTP/2.
func (g *Gate) announceClose(w http.ResponseWriter) {
	if g.gate.Drain.Active() {
		w.Header()["Connection"] = []string{"close"}
	}
}
