package embed

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
)

// TestMain fails if a goroutine of this module outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	for end := time.Now().Add(testkit.Timeout); code == 0; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		_, others, _ := strings.Cut(string(buf), "\n\n") // without this goroutine
		if !strings.Contains(others, "queuegate/pkg/") {
			break
		}
		if time.Now().After(end) {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", others)
			code = 1
		}
	}
	os.Exit(code)
}

var until = testkit.Until

// rig is a server with a gate, and a client that uses one protocol version.
type rig struct {
	t      *testing.T
	gate   *Gate
	srv    *http.Server
	addr   string
	client *http.Client
}

// overBoth runs a test over HTTP/1.1 and over HTTP/2 without TLS.
func overBoth(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) { test(t, protocol) })
	}
}

// newRig serves next behind a gate.
func newRig(t *testing.T, protocol string, c Config, next http.HandlerFunc) *rig {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, protocol, g, g.Handler(next))
}

func serve(t *testing.T, protocol string, g *Gate, h http.Handler) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, gate: g, addr: ln.Addr().String()}
	r.srv = &http.Server{Handler: h, Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0)}
	r.srv.Protocols.SetHTTP1(true)
	r.srv.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { defer close(done); _ = r.srv.Serve(ln) }()
	r.client = newClient(t, protocol)
	t.Cleanup(func() {
		_ = r.srv.Close()
		<-done
		until(t, "all counts at zero", func() bool {
			all, proxied := g.state().Counting.InFlight()
			return g.InFlight() == 0 && g.QueueDepth() == 0 && all == 0 && proxied == 0 &&
				g.state().Gate.Drain.Requests() == 0 && g.state().Gate.Drain.Tunnels() == 0
		})
	})
	return r
}

func newClient(t *testing.T, protocol string) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true, MaxIdleConnsPerHost: 100}
	if protocol == "HTTP/1.1" {
		tr.Protocols.SetHTTP1(true)
	} else {
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (r *rig) request(method, target, body string, fields ...string) *http.Request {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	r.t.Cleanup(cancel)
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.addr+target, b)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	return req
}

// answer is a response with its complete body, or an error.
type answer struct {
	*http.Response
	body string
	err  error
}

func (r *rig) send(req *http.Request) answer {
	res, err := r.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res, string(text), err}
}

// do sends a request and reads the complete response.
func (r *rig) do(method, target, body string, fields ...string) answer {
	r.t.Helper()
	a := r.send(r.request(method, target, body, fields...))
	if a.err != nil {
		r.t.Fatal(a.err)
	}
	return a
}

// begin sends a request and returns a channel that receives its response.
func (r *rig) begin(target string, fields ...string) <-chan answer {
	r.t.Helper()
	req, c := r.request("GET", target, "", fields...), make(chan answer, 1)
	go func() { c <- r.send(req) }()
	return c
}

// want checks a local reply.
func (a *answer) want(t *testing.T, status int, body, outcome string) {
	t.Helper()
	if a.StatusCode != status || a.body != body || a.Header.Get("K-Gate-Outcome") != outcome {
		t.Errorf("answer %d %q %v, want %d %q, outcome %q", a.StatusCode, a.body, a.Header, status, body, outcome)
	}
}

// wantOutcome waits until the Prometheus page shows n requests with an outcome.
func (g *Gate) wantOutcome(t *testing.T, outcome string, n int) {
	t.Helper()
	line := fmt.Sprintf("queuegate_request_outcomes_total{outcome=%q} %d\n", outcome, n)
	until(t, line, func() bool {
		text := page(g.Metrics())
		return strings.Contains(text, line) || n == 0 && !strings.Contains(text, strings.TrimSuffix(line, "0\n"))
	})
}

// stage is a handler that blocks each request until leave is closed or the client
// disconnects.
type stage struct {
	entered chan string // receives the path of each request
	leave   chan struct{}
}

func newStage() *stage { return &stage{make(chan string, 1000), make(chan struct{})} }

func (s *stage) handle(w http.ResponseWriter, r *http.Request) {
	s.entered <- r.URL.Path
	select {
	case <-s.leave:
	case <-r.Context().Done():
	}
	_, _ = io.WriteString(w, "done")
}
