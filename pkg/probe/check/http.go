package check

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
)

const (
	// userAgent has the same prefix as the kubelet's, because frameworks and log
	// filters recognize it.
	userAgent = "kube-probe/1 (queuegate)"
	maxBody   = 10 << 10 // the same limit as the kubelet
	// maxRedirects is the maximum number of redirects that a check follows. The kubelet
	// follows one less: it fails at the tenth redirect.
	maxRedirects = 10
)

// HTTP checks with a GET request. A status from 200 to 399 is a success.
type HTTP struct {
	Address string // host:port
	TLS     bool
	Path    string // including the query
	Headers []Header

	// h2c means that the server at Address speaks HTTP/2 without TLS. A refused
	// connection clears it, because the container may have restarted. A connection that
	// the server closes, and a malformed response, clear it too.
	h2c atomic.Bool
	// emptyCloses counts the connections that the server closed or reset before its first
	// byte. A response or a refused connection sets it to 0.
	emptyCloses atomic.Uint32
}

// Response is the response to the last request of a chain of redirects.
type Response struct {
	Status      int
	ContentType string
	Body        []byte // at most 10 KiB
	location    string
}

// Check implements Checker.
func (g *HTTP) Check(ctx context.Context) Result {
	response, cause, reached := g.do(ctx, nil, false)
	if cause.Kind == CauseNone {
		cause = CauseOfStatus(response.Status)
	}
	return Result{Cause: cause, Reached: reached}
}

// Get sends the request and returns its response. It adds each header field in fallback
// that Headers does not contain. A response with an error status, such as 500, is not a
// failure: its cause is zero.
func (g *HTTP) Get(ctx context.Context, fallback []Header) (Response, Cause) {
	response, cause, _ := g.do(ctx, fallback, true)
	return response, cause
}

// hop is one request in a chain of redirects.
type hop struct {
	url      *url.URL
	host     string
	headers  []Header
	keepBody bool // Response.Body is needed
}

func (h hop) address() string {
	port := h.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[h.url.Scheme]
	}
	return net.JoinHostPort(h.url.Hostname(), port)
}

// do runs the request and follows redirects to the same host name, as the kubelet does.
// It returns a redirect to another host as the response. reached reports whether
// Address accepted a connection.
func (g *HTTP) do(ctx context.Context, fallback []Header, keep bool) (response Response, cause Cause, reached bool) {
	h := g.firstHop(fallback, keep)
	for redirects := 0; ; redirects++ {
		var accepted bool
		if redirects == 0 {
			response, cause, accepted = g.exchangeDetecting(ctx, h)
			reached = accepted
		} else {
			response, cause, _ = exchange(ctx, h, g.h2c.Load())
		}
		if cause.Kind != CauseNone || response.location == "" {
			return response, cause, reached
		}
		target, err := h.url.Parse(response.location)
		switch {
		case err != nil:
			return response, Cause{Kind: CauseMalformed, Detail: "redirect to something that is no URL"}, reached
		case target.Hostname() != h.url.Hostname() || target.Scheme != "http" && target.Scheme != "https":
			return response, Cause{}, reached
		case redirects == maxRedirects:
			return response, Cause{Kind: CauseRedirects}, reached
		}
		// The configured Host applies only if the redirect is relative.
		if relative, _ := url.Parse(response.location); relative == nil || relative.Host != "" {
			h.host = target.Host
		}
		h.url = target
	}
}

func (g *HTTP) firstHop(fallback []Header, keep bool) hop {
	target, err := url.Parse(g.Path)
	if err != nil || target.Host != "" || target.Scheme != "" {
		target = &url.URL{Path: g.Path}
	}
	target.Scheme = "http"
	if g.TLS {
		target.Scheme = "https"
	}
	target.Host = g.Address
	if !strings.HasPrefix(target.Path, "/") {
		target.Path, target.RawPath = "/"+target.Path, ""
	}
	h := hop{url: target, host: target.Host, keepBody: keep}
	set := func(header Header) {
		if strings.EqualFold(header.Name, "Host") {
			if header.Value != "" {
				h.host = header.Value
			}
			return
		}
		h.headers = append(h.headers, header)
	}
	for _, header := range fallback {
		if !hasHeader(g.Headers, header.Name) {
			set(header)
		}
	}
	for _, header := range g.Headers {
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

// exchangeDetecting sends the request over HTTP/2 if h2c is set, otherwise over HTTP/1.
// It repeats a failed HTTP/1 request over HTTP/2 in two cases.
//
//  1. The server has responded with HTTP/2 SETTINGS.
//  2. The server has closed the connection before its first byte. A server that speaks
//     only HTTP/2 may do this, but so may a failing server. A failing server should get
//     few extra connections. So only the first, second, fourth, eighth such close and so
//     on is followed by an attempt over HTTP/2. The field emptyCloses counts the closes.
func (g *HTTP) exchangeDetecting(ctx context.Context, h hop) (response Response, cause Cause, reached bool) {
	known := g.h2c.Load()
	response, cause, reached = exchange(ctx, h, known)
	switch {
	case !reached:
		if cause.Kind == CauseRefused {
			g.h2c.Store(false)
			g.emptyCloses.Store(0)
		}
		return response, cause, reached
	case cause.Kind == CauseNone:
		g.emptyCloses.Store(0)
		return response, cause, reached
	case known:
		if cause.Kind == CauseMalformed || cause.Kind == CauseClosed || cause.Kind == CauseReset {
			g.h2c.Store(false)
		}
		return response, cause, reached
	case h.url.Scheme == "https":
		return response, cause, reached
	}
	try := cause == causeSpeaksHTTP2
	if cause.Detail == detailEmptyClose {
		n := g.emptyCloses.Add(1)
		try = n&(n-1) == 0
	}
	if try {
		if second, cause2, _ := exchange(ctx, h, true); cause2.Kind == CauseNone {
			g.h2c.Store(true)
			g.emptyCloses.Store(0)
			return second, cause2, true
		}
	}
	return response, cause, reached
}

var causeSpeaksHTTP2 = Cause{Kind: CauseMalformed, Detail: "the server speaks HTTP/2"}

// detailEmptyClose is the Detail of a connection that was closed before the first byte.
const detailEmptyClose = "before the first byte"

func exchange(ctx context.Context, h hop, h2c bool) (response Response, cause Cause, reached bool) {
	conn, stop, cause := dial(ctx, h.address())
	if conn == nil {
		return response, cause, false
	}
	defer stop()
	if h.url.Scheme != "https" {
		if h2c {
			response, cause = overHTTP2(ctx, conn, h)
			conn.Close()
			return response, cause, true
		}
		response, cause = overHTTP1(conn, h)
		go closeOrderly(conn) // waits up to peerCloseTimeout
		return response, cause, true
	}
	defer conn.Close()
	// The kubelet does not verify certificates either. A process that listens on the
	// pod's loopback already controls the pod.
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: serverName(h.url.Hostname())})
	if err := secure.HandshakeContext(ctx); err != nil {
		if cause = causeOf(err); cause.Kind == CauseMalformed {
			cause = Cause{Kind: CauseTLS, Detail: "handshake failed"}
		}
		return response, cause, true
	}
	response, cause = overHTTP1(secure, h)
	return response, cause, true
}

// serverName returns the name for SNI, or "" for an address, which SNI does not allow
// (RFC 6066 section 3).
func serverName(host string) string {
	if net.ParseIP(host) != nil {
		return ""
	}
	return host
}
