package probe

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// userAgent begins as the kubelet's does: frameworks and log filters look
	// for that.
	userAgent = "kube-probe/1 (queuegate)"
	maxBody   = 10 << 10 // the kubelet's bound
	// maxRedirects is how many are followed; the kubelet gives up at the tenth.
	maxRedirects = 10
	// maxHead bounds head and body together as read from the wire.
	maxHead    = 1 << 20
	maxInterim = 8
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
		hangUp(conn)
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

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// wire reads at most left bytes of conn and keeps the first error.
type wire struct {
	conn net.Conn
	left int
	err  error
}

func (w *wire) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, io.EOF
	}
	n, err := w.conn.Read(b[:min(len(b), w.left)])
	w.left -= n
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// overHTTP1 writes the request and reads the final answer with its body, which
// is read to its end or to maxBody.
func overHTTP1(conn net.Conn, h hop) (httpAnswer, Cause) {
	// A failed write does not matter if an answer is there to be read.
	_, writeErr := conn.Write(h.head())
	from := &wire{conn: conn, left: maxHead}
	reader := readers.Get().(*bufio.Reader)
	reader.Reset(from)
	defer func() {
		reader.Reset(nil)
		readers.Put(reader)
	}()

	if start, err := reader.Peek(9); !bytes.HasPrefix(start, []byte("HTTP/")) {
		switch {
		case looksLikeHTTP2(start):
			return httpAnswer{}, causeSpeaksHTTP2
		case len(start) >= 2 && start[0] == 0x15 && start[1] == 0x03:
			return httpAnswer{}, Cause{Kind: CauseTLS, Detail: "the server speaks TLS"}
		case len(start) == 0:
			if writeErr != nil && !errors.Is(err, io.EOF) {
				err = writeErr
			}
			cause := causeOf(err)
			if cause.Kind == CauseClosed || cause.Kind == CauseReset {
				cause.Detail = detailSilent
			}
			return httpAnswer{}, cause
		case err != nil && causeOf(err).Kind != CauseClosed:
			return httpAnswer{}, causeOf(err)
		default:
			return httpAnswer{}, Cause{Kind: CauseMalformed, Detail: "not HTTP"}
		}
	}
	response, cause := readResponse(reader, from)
	if response == nil {
		return httpAnswer{}, cause
	}
	defer response.Body.Close()
	return readAnswer(response, h.keep)
}

// readResponse reads heads until a final one.
func readResponse(reader *bufio.Reader, from *wire) (*http.Response, Cause) {
	for range maxInterim {
		response, err := http.ReadResponse(reader, nil)
		switch {
		case err != nil && from.left <= 0:
			return nil, Cause{Kind: CauseMalformed, Detail: "head too large"}
		case err != nil && from.err != nil:
			// The parser takes a line that broke off for a whole one.
			return nil, causeOf(from.err)
		case err != nil:
			return nil, causeOf(err)
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, Cause{Kind: CauseMalformed, Detail: "switches protocols unasked"}
		case response.StatusCode >= 200:
			return response, Cause{}
		}
	}
	return nil, Cause{Kind: CauseMalformed, Detail: "no final answer"}
}

// readAnswer reads the body, as far as the kubelet would, and the place that a
// redirect leads to.
func readAnswer(response *http.Response, keep bool) (httpAnswer, Cause) {
	answer := httpAnswer{status: response.StatusCode, contentType: response.Header.Get("Content-Type")}
	limited := io.LimitReader(response.Body, maxBody)
	var err error
	if keep {
		answer.body, err = io.ReadAll(limited)
	} else {
		_, err = io.Copy(io.Discard, limited)
	}
	if err != nil {
		return answer, causeOf(err)
	}
	switch response.StatusCode {
	case 301, 302, 303, 307, 308:
		answer.location = response.Header.Get("Location")
	}
	return answer, Cause{}
}

// looksLikeHTTP2 recognises the frame that begins every HTTP/2 server's part:
// SETTINGS on stream 0 (RFC 9113 section 3.4).
func looksLikeHTTP2(b []byte) bool {
	return len(b) == 9 && b[0] == 0 && b[3] == 4 && b[4]&^1 == 0 && b[5]|b[6]|b[7]|b[8] == 0
}

// head is the request as HTTP/1.1 writes it.
func (h hop) head() []byte {
	b := make([]byte, 0, 512)
	b = append(b, "GET "...)
	// RequestURI escapes the path but not the query.
	b = append(b, strings.ReplaceAll(h.url.RequestURI(), " ", "%20")...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, h.host...)
	b = append(b, "\r\n"...)
	for _, header := range h.headers {
		if notForwarded(header.Name) || strings.EqualFold(header.Name, "Accept") && header.Value == "" {
			continue
		}
		b = append(b, header.Name...)
		b = append(b, ": "...)
		b = append(b, header.Value...)
		b = append(b, "\r\n"...)
	}
	return append(b, "Connection: close\r\n\r\n"...)
}

// notForwarded names the fields that belong to one connection or frame a body
// (RFC 9110 section 7.6.1); a probe is a GET without a body.
func notForwarded(name string) bool {
	switch strings.ToLower(name) {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "te", "trailer",
		"upgrade", "content-length", "expect", "http2-settings":
		return true
	}
	return false
}
