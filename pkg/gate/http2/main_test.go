package http2

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patience is a fail-safe only: no test depends on how long anything takes.
const patience = 20 * time.Second

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func receive[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
	}
	return v
}

// speaks says what a test's container understands.
type speaks int

const (
	bothProtocols speaks = iota
	onlyHTTP1
	onlyH2C
)

// container is a server on a port of its own; nil handler: nothing listens.
type container struct {
	t    *testing.T
	addr netip.AddrPort
	srv  *http.Server

	mu    sync.Mutex
	conns int
}

func startContainer(t *testing.T, s speaks, h http.HandlerFunc) *container {
	t.Helper()
	c := &container{t: t}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addr = ln.Addr().(*net.TCPAddr).AddrPort()
	if h == nil {
		_ = ln.Close()
		return c
	}
	c.serve(ln, s, h)
	return c
}

// serve begins to listen, again if it had stopped.
func (c *container) serve(ln net.Listener, s speaks, h http.HandlerFunc) {
	c.t.Helper()
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", c.addr.String()); err != nil {
			c.t.Fatal(err)
		}
	}
	c.srv = &http.Server{Handler: h, Protocols: new(http.Protocols), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			c.mu.Lock()
			c.conns++
			c.mu.Unlock()
		}
	}}
	c.srv.Protocols.SetHTTP1(s != onlyH2C)
	c.srv.Protocols.SetUnencryptedHTTP2(s != onlyHTTP1)
	srv := c.srv
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	c.t.Cleanup(func() { _ = srv.Close(); <-done })
}

func (c *container) stop() { _ = c.srv.Close() }

func (c *container) accepted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conns
}

// rig is an engine behind a port, and a client.
type rig struct {
	t      *testing.T
	gate   *gate.Gate
	server *Server
	addr   string
	client *http.Client
}

func newRig(t *testing.T, c *container, settings ...func(*gate.Config, *Config)) *rig {
	t.Helper()
	g := gate.Config{RequestTimeout: time.Minute, QueueCapacity: 10, UpstreamWait: patience, UpstreamRestartWait: patience}
	h := Config{Upstream: c.addr, Panicked: func(v any) { t.Errorf("a request panicked: %v", v) }}
	for _, set := range settings {
		set(&g, &h)
	}
	made, err := gate.New(g)
	if err != nil {
		t.Fatal(err)
	}
	server, err := NewServer(made, h)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			server.Serve(conn)
		}
	})
	r := &rig{t: t, gate: made, server: server, addr: ln.Addr().String()}
	r.client = r.newClient()
	t.Cleanup(func() {
		_ = ln.Close()
		served.Wait()
		server.Close()
	})
	return r
}

// newClient has connections of its own.
func (r *rig) newClient() *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (r *rig) request(method, target string, body io.Reader, fields ...string) *http.Request {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.addr+target, body)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	return req
}

// do sends a request and reads the whole answer.
func (r *rig) do(method, target, body string, fields ...string) (*http.Response, string) {
	r.t.Helper()
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	res, err := r.client.Do(r.request(method, target, b, fields...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(text)
}

// call makes a gRPC call without messages.
func (r *rig) call() (*http.Response, string) {
	r.t.Helper()
	return r.do("POST", "/package.Service/Method", "", "Content-Type", "application/grpc", "Te", "trailers")
}

// wantStatus checks a gRPC status that stands in the head: Trailers-Only.
func wantStatus(t *testing.T, res *http.Response, status, message, outcome string) {
	t.Helper()
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != status || res.Header.Get("Grpc-Message") != message ||
		res.Header.Get("K-Gate-Outcome") != outcome || res.Header.Get("Content-Type") != "application/grpc" {
		t.Errorf("answer %d %v, want gRPC status %s %q, outcome %s", res.StatusCode, res.Header, status, message, outcome)
	}
}
