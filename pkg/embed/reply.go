package embed

import (
	"net/http"
	"strconv"

	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// responseFields are fields that a local reply removes, because the handler may have
// set them for a response that it did not write. Other fields stay, because a server
// may add them to every response.
var responseFields = []string{
	"Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length",
	"Content-Location", "Content-Range", "Content-Type", "Etag", "Expires", "Last-Modified", "Trailer", "Transfer-Encoding",
}

// rejectRequest sends the local reply a. A gRPC call over HTTP/2 gets it as a gRPC
// status.
func rejectRequest(g *core.State, w http.ResponseWriter, r *http.Request, a *gate.Reply) {
	if r.ProtoMajor == 2 && wire.IsGRPC(bytesOf(r.Header.Get("Content-Type"))) {
		replyGRPC(g, w, a)
		return
	}
	reply(g, w, r, a)
}

// reply sends the local reply a.
func reply(g *core.State, w http.ResponseWriter, r *http.Request, a *gate.Reply) {
	h := replyHeader(g, w)
	for name, value := range a.Fields {
		h[http.CanonicalHeaderKey(name)] = []string{value}
	}
	if a.Body == "" {
		h["Content-Type"] = nil // nil prevents net/http from detecting a type
	}
	h["Content-Length"] = []string{strconv.Itoa(a.Length())}
	w.WriteHeader(a.Status)
	if a.Length() > 0 && r.Method != http.MethodHead {
		_, _ = w.Write(a.AppendBody(nil)) // the client may have disconnected
	}
}

// replyGRPC replies to a gRPC call with a Trailers-Only response (gRPC over HTTP/2),
// which has the gRPC status in its header. It does not percent-encode Grpc-Message,
// because the fixed texts of outcomes need no encoding.
func replyGRPC(g *core.State, w http.ResponseWriter, a *gate.Reply) {
	h := replyHeader(g, w)
	h["Content-Type"] = []string{"application/grpc"}
	h["Content-Length"] = nil // nil prevents net/http from setting a length
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

// replyHeader returns the header for a local reply.
func replyHeader(g *core.State, w http.ResponseWriter) http.Header {
	h := w.Header()
	for _, name := range responseFields {
		delete(h, name)
	}
	dropGateFields(h)
	announceClose(g, w)
	return h
}

// announceClose asks the client of a draining gate to close the connection. net/http
// turns the field into a GOAWAY for HTTP/2.
func announceClose(g *core.State, w http.ResponseWriter) {
	if g.Gate.Drain.Active() {
		w.Header()["Connection"] = []string{"close"}
	}
}
