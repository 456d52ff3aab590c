package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// h2Response is an HTTP/2 response or an error.
type h2Response struct {
	status int
	proto  string
	header http.Header
	body   string
	err    error
}

// h2Client returns a client that uses only HTTP/2, over TLS if config is not nil.
func h2Client(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: config, DisableCompression: true}
	tr.Protocols.SetHTTP2(config != nil)
	tr.Protocols.SetUnencryptedHTTP2(config == nil)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func h2Start(t *testing.T, c *http.Client, url string, fields ...string) <-chan h2Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must(t, err)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	responses := make(chan h2Response, 1)
	go func() {
		res, err := c.Do(r)
		if err != nil {
			responses <- h2Response{err: err}
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		responses <- h2Response{res.StatusCode, res.Proto, res.Header, string(body), err}
	}()
	return responses
}

func (a h2Response) is(t *testing.T, status int, body string) {
	t.Helper()
	if a.err != nil || a.status != status || a.body != body || a.proto != "HTTP/2.0" {
		t.Fatalf("%s %d %q, %v: want %d %q", a.proto, a.status, a.body, a.err, status, body)
	}
}

func TestHTTP1AndHTTP2ShareThePort(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "UPSTREAM_PROTOCOL=http1")
	client := h2Client(t, nil)
	for range 3 {
		response := h2Start(t, client, "http://"+g.addr+"/h2", "Cookie: a=1; b=2")
		p := k.accept()
		head := parseHead(t, p.head())
		if head.line != "GET /h2 HTTP/1.1" {
			t.Fatalf("the container got %q", head.line)
		}
		head.field("Cookie", "a=1; b=2")
		p.send(okClose)
		p.close()
		(<-response).is(t, 200, "ok")

		c, p := inFlight(t, k, g, "/h1")
		finish(c, p)
	}
}

func TestTheHTTP2PrefaceMayArriveInPieces(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	const preface, settings = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for _, cut := range []int{1, 3, 16, 18, 23, 24, 27} {
		c := dial(t, g)
		text := preface + settings
		c.send(text[:cut])
		if cut < len(preface) && c.pending() {
			t.Errorf("after %d bytes the gate sent %q", cut, c.some())
		}
		c.send(text[cut:])
		if header := c.exactly(9); header[3] != 0x4 {
			t.Errorf("cut at %d: the gate began with %q", cut, header)
		}
		c.close()
	}
}

func TestTheContainersProtocolIsDetectedOncePerStart(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "UPSTREAM_RESTART_WAIT=50ms")
	client := h2Client(t, nil)
	ask := func(path string) <-chan h2Response { return h2Start(t, client, "http://"+g.addr+path) }
	respondTo := func(path string, response <-chan h2Response) {
		t.Helper()
		p := k.acceptFor(path)
		p.send(okClose)
		p.close()
		(<-response).is(t, 200, "ok")
	}

	first := ask("/first")
	probeConn := k.accept()
	if line, _, _ := strings.Cut(probeConn.head(), "\r\n"); line != "PRI * HTTP/2.0" {
		t.Fatalf("the container got %q first", line)
	}
	probeConn.send("HTTP/1.1 400 Bad Request\r\n\r\n")
	probeConn.close()
	respondTo("/first", first)
	respondTo("/second", ask("/second"))
	respondTo("/third", ask("/third"))

	k.unlisten()
	(<-ask("/refused")).is(t, 503, "user container is not listening\n")
	k.listen()
	second := ask("/again")
	// After a restart of the container the gate detects the protocol again. A close
	// without a response tells the gate that the container lacks HTTP/2, as the response
	// 400 did above.
	k.accept().close()
	respondTo("/again", second)
	respondTo("/last", ask("/last"))
}

func TestAnHTTP2ContainerGetsHTTP2(t *testing.T) {
	t.Parallel()
	protocol := make(chan string, 10)
	a := newApp(t)
	a.listen(h2c(func(_ http.ResponseWriter, r *http.Request) { protocol <- r.Proto + " " + r.Method }))
	g := startGate(t, &container{port: a.port})
	for range 3 {
		(<-h2Start(t, h2Client(t, nil), "http://"+g.addr+"/")).is(t, 200, "")
		if got := <-protocol; got != "HTTP/2.0 GET" {
			t.Errorf("the container got %q", got)
		}
	}
}

func TestProbesGetResponsesOverHTTP2(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "DRAIN_QUIET_SECONDS=600")
	client := h2Client(t, nil)
	url := "http://" + g.addr + "/any"
	(<-h2Start(t, client, url, "User-Agent: kube-probe/1.30", "K-Network-Probe: queue")).is(t, 200, "queue")
	a := <-h2Start(t, client, url, "K-Network-Probe: probe", "K-Network-Hash: abc")
	a.is(t, 200, "")
	if got := a.header.Get("K-Network-Hash"); got != "abc" {
		t.Errorf("hash %q", got)
	}
	(<-h2Start(t, client, url, "User-Agent: Knative-Activator-Probe", "K-Network-Probe: x")).is(t, 400, "unexpected probe header value: x\n")
	g.mayEnd = true
	g.signal(syscall.SIGTERM)
	eventually(t, "draining", func() bool { return (<-h2Start(t, client, url, "K-Network-Probe: queue")).status == 503 })
	k.unseen("a probe")
}

func TestRequestsOverHTTP2AreCounted(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, stats, page := startObservedGate(t, k, "UPSTREAM_PROTOCOL=http1")
	client := h2Client(t, nil)
	var responses []<-chan h2Response
	var peers []*peer
	for range 3 {
		responses = append(responses, h2Start(t, client, "http://"+g.addr+"/", "K-Proxy-Request: activator"))
		peers = append(peers, k.accept())
	}
	const labels = `{destination_namespace="",destination_configuration="",destination_revision="",destination_pod="p"}`
	eventually(t, "the autoscaler reads 3 requests, all proxied", func() bool {
		f := figures(g, stats)
		all, proxied := f["queue_average_concurrent_requests"+labels], f["queue_average_proxied_concurrent_requests"+labels]
		return all > 2.97 && all < 3.03 && proxied > 2.97 && proxied < 3.03
	})
	for i, p := range peers {
		p.send(okClose)
		p.close()
		(<-responses[i]).is(t, 200, "ok")
	}
	eventually(t, "none is counted any more", func() bool { return figures(g, stats)["queue_average_concurrent_requests"+labels] == 0 })
	sum := 0.0
	for name, n := range figures(g, page) {
		if strings.HasPrefix(name, "kn_serving_invocation_duration_seconds_count") {
			sum += n
		}
	}
	if sum != 3 {
		t.Errorf("%v invocations on the page, want 3", sum)
	}
}

func TestHTTP2OverTLSIsChosenByALPN(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k, "UPSTREAM_PROTOCOL=http1", "TLS_ONLY=true")
	client := h2Client(t, g.config())
	for range 3 {
		response := h2Start(t, client, "https://"+g.secure+"/")
		p := k.acceptFor("/")
		p.send(okClose)
		p.close()
		(<-response).is(t, 200, "ok")
	}
	(<-h2Start(t, h2Client(t, nil), "http://"+g.addr+"/")).is(t, 403, "only TLS is served here\n")
}

func TestADrainWithAnIdleHTTP2ConnectionEndsWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "DRAIN_QUIET_SECONDS=0", "UPSTREAM_PROTOCOL=http1")
	idle := dial(t, g)
	idle.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	idle.exactly(9)
	start := time.Now()
	g.signal(syscall.SIGTERM)
	g.ends(0)
	t.Logf("ended after %v", time.Since(start))
	if all, _ := idle.readAll(); !strings.Contains(all, "\x07\x00\x00\x00\x00\x00") {
		t.Errorf("no GOAWAY in %q", all)
	}
}
