package http2

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// protocols answers with the protocol of each request; it does not answer the
// look.
func protocols(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, r.Proto)
}

// contacts notes what the engine says of the container.
type contacts struct {
	mu   sync.Mutex
	said []bool
}

func (c *contacts) Listening(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, yes)
}

func (c *contacts) all() []bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.said)
}

func TestRequestsAreHeldUntilTheContainerListens(t *testing.T) {
	for _, s := range []speaks{onlyH2C, onlyHTTP1} {
		up := startContainer(t, s, nil)
		var told contacts
		r := newRig(t, up, func(g *gate.Config, _ *Config) { g.Contact = &told })
		answers := []chan *http.Response{r.start("POST", "/1"), r.start("POST", "/2"), r.start("POST", "/3")}
		until(t, "three held", func() bool { return r.server.up.line.held.Load() == 3 })
		up.serve(nil, s, protocols)
		for _, a := range answers {
			if res := receive(t, "an answer", a); res == nil || res.StatusCode != 200 {
				t.Errorf("%v", res)
			}
		}
		if got := told.all(); !slices.Equal(got, []bool{true}) {
			t.Errorf("told of the container: %v", got)
		}
	}
}

func TestAContainerThatDoesNotListenIsReportedInTime(t *testing.T) {
	up := startContainer(t, onlyH2C, nil)
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.UpstreamWait = 30 * time.Millisecond })
	if res, body := r.do("POST", "/", "x"); res.StatusCode != 503 || body != "user container is not listening\n" || res.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
	res, _ := r.call()
	wantStatus(t, res, "14", "user container is not listening", "upstream-not-listening")
}

func TestNoMoreAreHeldThanMayWait(t *testing.T) {
	up := startContainer(t, onlyH2C, nil)
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.QueueCapacity = 1 })
	first := r.start("GET", "/")
	until(t, "one held", func() bool { return r.server.up.line.held.Load() == 1 })
	if res, _ := r.do("GET", "/", ""); res.StatusCode != 503 || res.Header.Get("K-Gate-Outcome") != "queue-full" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	up.serve(nil, onlyH2C, protocols)
	receive(t, "the first answer", first)
}

func TestARestartIsLearntAnew(t *testing.T) {
	up := startContainer(t, onlyHTTP1, protocols)
	var told contacts
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.Contact = &told })
	if _, body := r.do("POST", "/", "x"); body != "HTTP/1.1" {
		t.Errorf("%q", body)
	}
	up.stop()
	held := r.start("GET", "/") // a POST may meet the old connection's end, and is not sent twice
	until(t, "one held", func() bool { return r.server.up.line.held.Load() == 1 })
	up.serve(nil, onlyH2C, protocols)
	if res := receive(t, "the answer", held); res == nil || res.StatusCode != 200 {
		t.Errorf("%v", res)
	}
	if _, body := r.do("POST", "/", "x"); body != "HTTP/2.0" {
		t.Errorf("%q", body)
	}
	if got := told.all(); !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("told of the container: %v", got)
	}
}

func TestAWrongBeliefCostsNoRequest(t *testing.T) {
	for _, c := range []struct {
		believed Protocol
		speaks   speaks
		want     string
	}{{HTTP1, onlyH2C, "HTTP/2.0"}, {H2C, onlyHTTP1, "HTTP/1.1"}} {
		up := startContainer(t, c.speaks, protocols)
		r := newRig(t, up)
		r.server.up.proto.Store(uint32(c.believed)) // as after an unnoticed restart
		if res, body := r.do("POST", "/", ""); res.StatusCode != 200 || body != c.want {
			t.Errorf("%d %q, want %s", res.StatusCode, body, c.want)
		}
		if res, body := r.do("POST", "/", "x"); res.StatusCode != 200 || body != c.want {
			t.Errorf("%d %q, want %s", res.StatusCode, body, c.want)
		}
	}
}

func TestAContainerThatSaysNothingSpeaksHTTP1(t *testing.T) {
	for _, say := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n", "<html>"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err == nil && req.Method == "PRI" {
					_, _ = io.WriteString(c, say)
				} else if err == nil {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK")
				}
				_ = c.Close()
			}
		}()
		r := newRig(t, &container{t: t, addr: ln.Addr().(*net.TCPAddr).AddrPort()})
		if res, body := r.do("GET", "/", ""); res.StatusCode != 200 || body != "OK" {
			t.Errorf("after %q: %d %q", say, res.StatusCode, body)
		}
		if got := r.server.Stats().Upstream.Protocol; got != HTTP1 {
			t.Errorf("after %q: protocol %d", say, got)
		}
		_ = ln.Close()
		<-served
	}
}

func TestStreamsBeyondTheContainersLimitGetAnotherConnection(t *testing.T) {
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	up := startContainer(t, onlyH2C, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	up.srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2}
	r := newRig(t, up, func(_ *gate.Config, h *Config) { h.Protocol = H2C })
	var answers []chan *http.Response
	for range 5 {
		answers = append(answers, r.start("GET", "/"))
		receive(t, "a request at the container", arrived)
	}
	if got := r.server.Stats().Upstream.Open; got != 3 {
		t.Errorf("%d connections for 5 streams, 2 each", got)
	}
	close(release)
	for _, a := range answers {
		receive(t, "an answer", a)
	}
}

func TestAGoodbyeOfTheContainerCostsNoRequest(t *testing.T) {
	up := startContainer(t, onlyH2C, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // GOAWAY with each answer
	})
	r := newRig(t, up, func(_ *gate.Config, h *Config) { h.Protocol = H2C })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				req := r.request("POST", "/", nil)
				res, err := r.client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				if _ = res.Body.Close(); res.StatusCode != 200 {
					t.Errorf("%d %v", res.StatusCode, res.Header)
				}
			}
		})
	}
	all.Wait()
}

func TestBodiesThatWaitInTheQueueHoldNoOtherUp(t *testing.T) {
	up := startContainer(t, onlyH2C, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	r := newRig(t, up, func(g *gate.Config, h *Config) { g.ConcurrencyLimit, g.QueueCapacity = 1, 100 })
	// The bodies of those that wait stand in the way, on the same connection,
	// of the one that all wait for.
	var all sync.WaitGroup
	for range 100 {
		req := r.request("POST", "/", bytes.NewReader(make([]byte, 300<<10)))
		all.Go(func() {
			res, err := r.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if n, err := io.Copy(io.Discard, res.Body); n != 300<<10 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	all.Wait()
}

func TestAnAnswerThatNobodyReadsHoldsNoOtherUpAndIsBounded(t *testing.T) {
	var mu sync.Mutex
	written := 0
	up := startContainer(t, onlyH2C, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/endless" {
			_, _ = w.Write(make([]byte, 1<<20))
			return
		}
		for block := make([]byte, 16<<10); ; {
			n, err := w.Write(block)
			mu.Lock()
			written += n
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	r := newRig(t, up, func(_ *gate.Config, h *Config) { h.Protocol = H2C })
	deaf := r.newClient()
	deaf.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	const many = 30
	for range many {
		res, err := deaf.Do(r.request("GET", "/endless", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
	}
	for range 5 {
		if res, body := r.do("GET", "/", ""); res.StatusCode != 200 || len(body) != 1<<20 {
			t.Errorf("%d, %d bytes", res.StatusCode, len(body))
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most := many * (4 << 20); written > most {
		t.Errorf("the container has written %d bytes that nobody reads, want at most %d", written, most)
	}
}

func TestTheContainerIsSpokenToOverTLSInTheProtocolOfItsChoice(t *testing.T) {
	for _, h2 := range []bool{true, false} {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(protocols))
		srv.EnableHTTP2 = h2
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.StartTLS()
		t.Cleanup(srv.Close)
		pool := x509.NewCertPool()
		pool.AddCert(srv.Certificate())
		up := &container{t: t, addr: srv.Listener.Addr().(*net.TCPAddr).AddrPort()}
		var failures atomic.Int64
		settings := func(roots *x509.CertPool) func(*gate.Config, *Config) {
			return func(_ *gate.Config, h *Config) {
				h.UpstreamTLS = &tls.Config{RootCAs: roots, ServerName: "example.com"}
				h.UpstreamTLSFailed = func(error) { failures.Inc() }
			}
		}
		r := newRig(t, up, settings(pool))
		want := "HTTP/1.1"
		if h2 {
			want = "HTTP/2.0"
		}
		for range 5 {
			if res, body := r.do("POST", "/", "x"); res.StatusCode != 200 || body != want {
				t.Errorf("%d %q, want %s", res.StatusCode, body, want)
			}
		}
		if u := r.server.Stats().Upstream; u.Dials+u.Reuses != 6 || u.Reuses == 0 { // one dial to find out
			t.Errorf("%+v", u)
		}
		if failures.Load() != 0 {
			t.Errorf("%d failures", failures.Load())
		}
		strict := newRig(t, up, settings(x509.NewCertPool()))
		if res, body := strict.do("POST", "/", "x"); res.StatusCode != 502 || body != "TLS to upstream failed\n" || failures.Load() == 0 {
			t.Errorf("%d %q, %d failures", res.StatusCode, body, failures.Load())
		}
		res, _ := strict.call()
		wantStatus(t, res, "14", "TLS to upstream failed", "upstream-tls-failed")
	}
}

func TestAHeadBeyondTheContainersLimitIsRefused(t *testing.T) {
	up := startContainer(t, onlyH2C, protocols)
	up.srv.MaxHeaderBytes = 4 << 10
	r := newRig(t, up)
	for range 2 { // its limit is known from the first answer on
		if res, _ := r.do("GET", "/", ""); res.StatusCode != 200 {
			t.Errorf("%d", res.StatusCode)
		}
	}
	if res, _ := r.do("GET", "/", "", "X-Long", strings.Repeat("x", 8<<10)); res.StatusCode != 431 {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}
