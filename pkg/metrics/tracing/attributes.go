package tracing

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/queuegate/queuegate/pkg/gate"
)

// attributes are the names of the attributes in one generation of the semantic
// conventions; "" = not defined.
type attributes struct {
	method, path, host, status, version, peer, peerPort          string
	methodOriginal, scheme, port, userAgent, routeTag, errorType string
}

var (
	currentAttributes = attributes{
		"http.request.method", "url.path", "server.address", "http.response.status_code",
		"network.protocol.version", "network.peer.address", "network.peer.port",
		"http.request.method_original", "url.scheme", "server.port", "user_agent.original", "kn.route.tag", "error.type",
	}
	legacyAttributes = attributes{
		method: "http.method", path: "http.path", host: "http.host", status: "http.status_code",
		version: "http.flavor", peer: "net.peer.ip", peerPort: "net.peer.port",
	}
)

// Maximum lengths of attribute values in bytes. They limit the memory of queued spans.
const (
	maxPathBytes      = 1024
	maxHostBytes      = 255
	maxMethodBytes    = 32
	maxUserAgentBytes = 256
	maxRouteTagBytes  = 63
)

// ofServer returns the attributes of the span of the whole request.
func (a *attributes) ofServer(x *gate.Record, failed bool) map[string]any {
	all := a.common(x, failed)
	all[a.status] = int64(x.Status)
	all[a.version] = strings.TrimPrefix(x.Protocol, "HTTP/")
	all["queuegate.outcome"] = x.Outcome.String()
	if x.Peer.IsValid() {
		all[a.peer], all[a.peerPort] = x.Peer.Addr().String(), int64(x.Peer.Port())
	}
	if a.scheme == "" {
		return all
	}
	all[a.scheme] = "http"
	if x.Encrypted {
		all[a.scheme] = "https"
	}
	if x.UserAgent != nil {
		all[a.userAgent] = clip(x.UserAgent, maxUserAgentBytes)
	}
	all[a.routeTag] = x.Route().String()
	if x.Route() == gate.RouteTagged {
		all[a.routeTag] = clip(x.RouteTag, maxRouteTagBytes)
	}
	return all
}

// ofClient returns the attributes of the span of the upstream part.
func (a *attributes) ofClient(x *gate.Record, failed bool) map[string]any {
	all := a.common(x, failed)
	if x.Responded != 0 {
		all[a.status] = int64(x.Status)
	}
	return all
}

func (a *attributes) common(x *gate.Record, failed bool) map[string]any {
	path, _, _ := bytes.Cut(x.Target, []byte{'?'})
	method, host := clip(x.Method, maxMethodBytes), clip(x.Host, maxHostBytes)
	all := map[string]any{a.method: method, a.path: clip(path, maxPathBytes), a.host: host}
	if a.scheme == "" {
		return all
	}
	if known := gate.Methods[x.MethodIndex()]; known != method {
		all[a.method], all[a.methodOriginal] = known, method
	}
	address, port, err := net.SplitHostPort(host)
	if err != nil {
		address = strings.Trim(host, "[]")
	}
	if all[a.host] = address; address == "" {
		delete(all, a.host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		all[a.port] = int64(n)
	}
	if failed {
		all[a.errorType] = strconv.Itoa(x.Status)
		if x.Outcome != gate.Served {
			all[a.errorType] = x.Outcome.String()
		}
	}
	return all
}

// clip returns the first n bytes of b as valid UTF-8.
func clip(b []byte, n int) string {
	if len(b) > n {
		for n > 0 && !utf8.RuneStart(b[n]) {
			n--
		}
		b = b[:n]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
