package probe

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	// userAgent begins as the kubelet's does: frameworks and log filters look
	// for that.
	userAgent = "kube-probe/1 (queuegate)"
	maxBody   = 10 << 10 // the kubelet's bound
	// maxRedirects is how many are followed; the kubelet gives up at the tenth.
	maxRedirects = 10
)

// httpGet is one configured GET and what was learned of its server.
type httpGet struct {
	scheme  string // "http" or "https"
	host    string
	port    int
	path    string
	headers []Header

	// h2c remembers that the server at the configured address speaks HTTP/2
	// without TLS. A refused connection means a new start and clears it.
	h2c    atomic.Bool
	silent atomic.Uint32 // exchanges in a row that ended without a byte
}

// httpAnswer is the last answer of a chain of redirects.
type httpAnswer struct {
	status      int
	contentType string
	body        []byte // at most maxBody; nil unless asked for
	location    string
}

// httpProber probes with GET; success is 200 to 399.
type httpProber struct{ get httpGet }

func (p *httpProber) Probe(ctx context.Context) Result {
	answer, cause, reached := p.get.do(ctx, nil, false)
	if cause.Kind == CauseNone {
		cause = causeOfStatus(answer.status)
	}
	return Result{Cause: cause, Reached: reached}
}

// hop is one request of a chain of redirects.
type hop struct {
	url     *url.URL
	host    string // Host field
	headers []Header
	keep    bool // keep the body
}

func (h hop) address() string {
	port := h.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[h.url.Scheme]
	}
	return net.JoinHostPort(h.url.Hostname(), port)
}

// do runs the request and follows redirects that stay on the host name, as the
// kubelet does; one that leads elsewhere is the answer. asker's headers go
// along, below the configured ones. The cause is zero if an HTTP answer came,
// whatever its status. reached reports that the configured port accepted.
func (g *httpGet) do(ctx context.Context, asker []Header, keep bool) (answer httpAnswer, cause Cause, reached bool) {
	h := g.first(asker, keep)
	for redirects := 0; ; redirects++ {
		var accepted bool
		if redirects == 0 {
			answer, cause, accepted = g.learn(ctx, h)
			reached = accepted
		} else {
			answer, cause, _ = exchange(ctx, h, g.h2c.Load())
		}
		if cause.Kind != CauseNone || answer.location == "" {
			return answer, cause, reached
		}
		target, err := h.url.Parse(answer.location)
		switch {
		case err != nil:
			return answer, Cause{Kind: CauseMalformed, Detail: "redirect to something that is no URL"}, reached
		case target.Hostname() != h.url.Hostname() || target.Scheme != "http" && target.Scheme != "https":
			return answer, Cause{}, reached
		case redirects == maxRedirects:
			return answer, Cause{Kind: CauseRedirects}, reached
		}
		// A configured Host survives a relative redirect only.
		if relative, _ := url.Parse(answer.location); relative == nil || relative.Host != "" {
			h.host = target.Host
		}
		h.url = target
	}
}

func (g *httpGet) first(asker []Header, keep bool) hop {
	target, err := url.Parse(g.path)
	if err != nil || target.Host != "" || target.Scheme != "" {
		target = &url.URL{Path: g.path}
	}
	target.Scheme = g.scheme
	target.Host = net.JoinHostPort(g.host, strconv.Itoa(g.port))
	if !strings.HasPrefix(target.Path, "/") {
		target.Path, target.RawPath = "/"+target.Path, ""
	}
	h := hop{url: target, host: target.Host, keep: keep}
	set := func(header Header) {
		if strings.EqualFold(header.Name, "Host") {
			if header.Value != "" {
				h.host = header.Value
			}
			return
		}
		h.headers = append(h.headers, header)
	}
	configured := func(name string) bool {
		for _, header := range g.headers {
			if strings.EqualFold(header.Name, name) {
				return true
			}
		}
		return false
	}
	for _, header := range asker {
		if !configured(header.Name) {
			set(header)
		}
	}
	for _, header := range g.headers {
		set(header)
	}
	defaults := [...]Header{{"User-Agent", userAgent}, {"Accept", "*/*"}}
	for _, header := range defaults {
		if !hasHeader(h.headers, header.Name) {
			set(header)
		}
	}
	return h
}

func hasHeader(headers []Header, name string) bool {
	for _, header := range headers {
		if strings.EqualFold(header.Name, name) {
			return true
		}
	}
	return false
}

// learn runs an exchange with the configured server in the protocol that it is
// known to speak, and finds that out where it is not known: a server that
// answers an HTTP/1 request with an HTTP/2 SETTINGS frame is asked again at
// once. One that hangs up without a byte may be such a server too, so HTTP/2 is
// tried after the 1st, 2nd, 4th, 8th ... of these in a row.
func (g *httpGet) learn(ctx context.Context, h hop) (answer httpAnswer, cause Cause, reached bool) {
	known := g.h2c.Load()
	answer, cause, reached = exchange(ctx, h, known)
	switch {
	case !reached:
		if cause.Kind == CauseRefused {
			g.h2c.Store(false)
			g.silent.Store(0)
		}
		return answer, cause, reached
	case cause.Kind == CauseNone:
		g.silent.Store(0)
		return answer, cause, reached
	case known:
		if cause.Kind == CauseMalformed || cause.Kind == CauseClosed || cause.Kind == CauseReset {
			g.h2c.Store(false)
		}
		return answer, cause, reached
	case h.url.Scheme == "https":
		return answer, cause, reached
	}
	try := cause == causeSpeaksHTTP2
	if cause.Detail == detailSilent {
		n := g.silent.Add(1)
		try = n&(n-1) == 0
	}
	if try {
		if second, cause2, _ := exchange(ctx, h, true); cause2.Kind == CauseNone {
			g.h2c.Store(true)
			g.silent.Store(0)
			return second, cause2, true
		}
	}
	return answer, cause, reached
}

var causeSpeaksHTTP2 = Cause{Kind: CauseMalformed, Detail: "the server speaks HTTP/2"}

// detailSilent marks a connection that ended before the first byte.
const detailSilent = "before the first byte"

// exchange opens a connection, sends one request and reads the answer.
func exchange(ctx context.Context, h hop, h2c bool) (answer httpAnswer, cause Cause, reached bool) {
	conn, stop, cause := dial(ctx, h.address())
	if conn == nil {
		return answer, cause, false
	}
	defer stop()
	if h.url.Scheme != "https" {
		if h2c {
			answer, cause = overHTTP2(ctx, conn, h)
			conn.Close()
			return answer, cause, true
		}
		answer, cause = overHTTP1(conn, h)
		go hangUp(conn) // the result does not wait for the other side's end
		return answer, cause, true
	}
	defer conn.Close()
	// The kubelet does not verify certificates either: who can answer on the
	// pod's own loopback has the pod.
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: serverName(h.url.Hostname())})
	if err := secure.HandshakeContext(ctx); err != nil {
		if cause = causeOf(err); cause.Kind == CauseMalformed {
			cause = Cause{Kind: CauseTLS, Detail: "handshake failed"}
		}
		return answer, cause, true
	}
	answer, cause = overHTTP1(secure, h)
	return answer, cause, true
}

// serverName is what may go into SNI: names, not addresses (RFC 6066 section 3).
func serverName(host string) string {
	if net.ParseIP(host) != nil {
		return ""
	}
	return host
}
