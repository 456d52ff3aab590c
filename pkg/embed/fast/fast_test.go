package fast

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
	"go.uber.org/goleak"

	"github.com/queuegate/queuegate/internal/testkit/leak"
	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/embed/internal/beside"
)

func TestMain(m *testing.M) {
	// Ignore two goroutines of fasthttp that outlive the server: its clock, and the
	// cleaner of idle workers.
	leak.Main(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// rig is a fasthttp server with a gate, and a net/http client.
type rig struct {
	t      *testing.T
	gate   *embed.Gate
	client *http.Client
	dial   func() (net.Conn, error)
}

func newRig(t *testing.T, c embed.Config, next fasthttp.RequestHandler) *rig {
	t.Helper()
	g, err := embed.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln := fasthttputil.NewInmemoryListener()
	server := &fasthttp.Server{Handler: Handler(g, next), Logger: silent{}}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = ln.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &rig{t, g, &http.Client{Transport: transport}, ln.Dial}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func (r *rig) get(path string, fields ...string) (status int, body string, header http.Header) {
	r.t.Helper()
	q, err := http.NewRequest("GET", "http://gate"+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		q.Header.Set(name, value)
	}
	a, err := r.client.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return a.StatusCode, string(b), a.Header
}

// await polls a condition until it is true. If that takes more than 2 minutes, the test
// fails with a message that begins with the given text.
func (r *rig) await(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: %d in flight, %d queued", what, r.gate.InFlight(), r.gate.QueueDepth())
		}
	}
}

func TestARequestAboveTheLimitWaitsAndTheNextIsRejected(t *testing.T) {
	goOn := make(chan bool)
	r := newRig(t, embed.Config{ConcurrencyLimit: 1, QueueCapacity: 1}, func(ctx *fasthttp.RequestCtx) {
		<-goOn
		ctx.SetBodyString("hello")
	})
	answers := make(chan string, 2)
	ask := func() {
		status, body, _ := r.get("/")
		answers <- fmt.Sprint(status, " ", body)
	}
	go ask()
	r.await("the first", func() bool { return r.gate.InFlight() == 1 })
	go ask()
	r.await("the second", func() bool { return r.gate.QueueDepth() == 1 })
	status, body, header := r.get("/")
	if status != 503 || body != "pending request queue full\n" || header.Get("K-Gate-Outcome") != "queue-full" || header.Get("Retry-After") != "1" ||
		header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the third got %d %q %v", status, body, header)
	}
	close(goOn)
	for range 2 {
		if got := <-answers; got != "200 hello" {
			t.Errorf("got %s", got)
		}
	}
	r.await("the end", func() bool { return r.gate.InFlight() == 0 && r.gate.QueueDepth() == 0 })
}

func TestProbesNeverReachTheHandler(t *testing.T) {
	r := newRig(t, embed.Config{ConcurrencyLimit: 1}, func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("handler") })
	if status, body, _ := r.get("/x", "User-Agent: kube-probe/1.36", "K-Network-Probe: queue"); status != 200 || body != "queue" {
		t.Errorf("the kubelet got %d %q", status, body)
	}
	if status, _, h := r.get("/x", "K-Network-Probe: probe", "K-Network-Hash: abc"); status != 200 || h.Get("K-Network-Hash") != "abc" {
		t.Errorf("the ingress got %d %v", status, h)
	}
	if status, _, _ := r.get("/x", "User-Agent: kube-probe/1.36", "K-Network-Probe: what"); status != 400 {
		t.Errorf("a bad probe got %d", status)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.gate.Drain(ended)
	status, body, h := r.get("/x", "User-Agent: kube-probe/1.36", "K-Network-Probe: queue")
	if status != 503 || body != "shutting down\n" {
		t.Errorf("while draining the kubelet got %d %q %v", status, body, h)
	}
	if status, body, _ := r.get("/"); status != 200 || body != "handler" {
		t.Errorf("while draining traffic got %d %q", status, body)
	}
}

func TestOnlyTheGateSetsItsFields(t *testing.T) {
	r := newRig(t, embed.Config{}, func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.Set("K-Gate-Outcome", "made-up")
		ctx.SetBody(ctx.Request.Header.Peek("K-Gate-Mine"))
	})
	if _, body, h := r.get("/", "K-Gate-Mine: 1"); body != "" || h.Get("K-Gate-Outcome") != "" {
		t.Errorf("the handler saw %q, the client %v", body, h)
	}
}

// fasthttp adds trailers to the header fields of a request.
func TestUntrustedTrailersAreRemovedToo(t *testing.T) {
	r := newRig(t, embed.Config{TrustedSources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, func(ctx *fasthttp.RequestCtx) {
		for name := range ctx.Request.Header.All() {
			ctx.Response.AppendBodyString(string(name) + " ")
		}
	})
	c, err := r.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: gate\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"+
		"1\r\na\r\n0\r\nK-Gate-Sum: 1\r\nK_Original_Host: a\r\nX_Real-IP: a\r\nSum: 2\r\n\r\n")
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	names, err := io.ReadAll(a.Body)
	if err != nil || !strings.Contains(string(names), "Sum ") || strings.Contains(string(names), "K-Gate") || strings.Contains(string(names), "riginal") || strings.Contains(strings.ToLower(string(names)), "real") {
		t.Errorf("the handler has %s, %v", names, err)
	}
}

func TestAStreamKeepsItsSlotUntilItHasEnded(t *testing.T) {
	goOn := make(chan bool)
	r := newRig(t, embed.Config{ConcurrencyLimit: 1}, func(ctx *fasthttp.RequestCtx) {
		StreamBody(ctx, func(w *bufio.Writer) {
			_, _ = w.WriteString("one ")
			_ = w.Flush()
			<-goOn
			_, _ = w.WriteString("two")
		})
	})
	a, err := r.client.Get("http://gate/")
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(a.Body, first); err != nil || r.gate.InFlight() != 1 {
		t.Fatalf("%q, %v, %d in flight", first, err, r.gate.InFlight())
	}
	if status, _, _ := r.get("/"); status != 503 {
		t.Errorf("another got %d during the stream", status)
	}
	close(goOn)
	rest, err := io.ReadAll(a.Body)
	a.Body.Close()
	if err != nil || string(rest) != "two" {
		t.Errorf("%q, %v", rest, err)
	}
	r.await("the end of the stream", func() bool { return r.gate.InFlight() == 0 })
}

func TestAHijackedConnectionKeepsItsSlotUntilItsEnd(t *testing.T) {
	r := newRig(t, embed.Config{ConcurrencyLimit: 1}, func(ctx *fasthttp.RequestCtx) {
		Hijack(ctx, func(c net.Conn) { _, _ = io.Copy(c, c) })
	})
	c, err := r.dial()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: gate\r\n\r\n")
	reader := bufio.NewReader(c)
	if _, err := http.ReadResponse(reader, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "echo\n")
	if line, err := reader.ReadString('\n'); line != "echo\n" || r.gate.InFlight() != 1 {
		t.Fatalf("%q, %v, %d in flight", line, err, r.gate.InFlight())
	}
	c.Close()
	r.await("the end of the connection", func() bool { return r.gate.InFlight() == 0 })
}

// fasthttp does not call the hijack handler if it has to close the connection, for
// example because the client sent Connection: close.
func TestAHijackWhoseHandlerIsNeverCalledReleasesTheSlot(t *testing.T) {
	r := newRig(t, embed.Config{ConcurrencyLimit: 1}, func(ctx *fasthttp.RequestCtx) {
		Hijack(ctx, func(net.Conn) { t.Error("it was called") })
	})
	r.get("/", "Connection: close")
	r.await("the end of the connection", func() bool {
		runtime.GC()
		return r.gate.InFlight() == 0
	})
}

func TestAHijackedConnectionIsServedWhileDraining(t *testing.T) {
	r := newRig(t, embed.Config{ConcurrencyLimit: 1}, func(ctx *fasthttp.RequestCtx) {
		Hijack(ctx, func(c net.Conn) { _, _ = io.WriteString(c, "served\n") })
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.gate.Drain(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c, err := r.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: gate\r\n\r\n")
	reader := bufio.NewReader(c)
	if a, err := http.ReadResponse(reader, nil); err != nil || a.Close {
		t.Fatal(a, err)
	}
	if line, err := reader.ReadString('\n'); line != "served\n" {
		t.Fatalf("%q, %v", line, err)
	}
	r.await("the end of the connection", func() bool { return r.gate.InFlight() == 0 })
}

func TestAPanicReleasesTheSlot(t *testing.T) {
	g, err := embed.New(embed.Config{ConcurrencyLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(g, func(ctx *fasthttp.RequestCtx) { panic("the handler's") })
	for range 2 {
		func() {
			defer func() {
				if v := recover(); v != "the handler's" {
					t.Errorf("it panicked with %v", v)
				}
			}()
			var ctx fasthttp.RequestCtx
			h(&ctx)
		}()
		if g.InFlight() != 0 {
			t.Fatalf("%d in flight", g.InFlight())
		}
	}
}

func newRequest() *fasthttp.RequestCtx {
	var q fasthttp.Request
	q.Header.SetUserAgent("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	q.Header.Set("K-Proxy-Request", "activator")
	q.Header.SetMethod("GET") // as in a received request
	q.SetRequestURI("/")
	ctx := new(fasthttp.RequestCtx)
	ctx.Init(&q, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, silent{})
	return ctx
}

// readRequest parses a request as a fasthttp server does.
func readRequest(t *testing.T, text string) *fasthttp.RequestCtx {
	t.Helper()
	ctx := newRequest()
	if err := ctx.Request.Header.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	return ctx
}

func TestFieldsAreFoundInAnyCase(t *testing.T) {
	const text = "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1.34\r\nk-network-probe:  queue \r\nK-Network-Probe: second\r\n" +
		"K-NETWORK-HASH: hash\r\nknative-serving-tag: blue\r\nKnative-Serving-Default-Route: true\r\nk-proxy-request: activator\r\n" +
		"Cookie: k-gate-a=1; b=2\r\nX-Request-Id: 1\r\n%s\r\n"
	for _, c := range []struct {
		more                         string
		distrust                     bool
		gateFields, forwardingFields bool
	}{
		{"", true, false, true}, // the text contains K-Proxy-Request, a forwarding field
		{"", false, false, false},
		{"x-forwarded-for: 10.1.2.3\r\n", true, false, true},
		{"x_real_ip: 10.1.2.3\r\n", true, false, true},
		{"K-GATE-X:\r\n", false, true, false},
	} {
		made := newRequest()
		read := readRequest(t, fmt.Sprintf(text, c.more))
		read.Request.Header.CopyTo(&made.Request.Header)
		for name, value := range made.Request.Header.All() {
			made.Response.Header.AddBytesKV(name, value)
		}
		made.Request.Header.Reset()
		for name, value := range made.Response.Header.All() {
			made.Request.Header.AddBytesKV(name, value)
		}
		for what, ctx := range map[string]*fasthttp.RequestCtx{"read": read, "made": made} {
			var h head
			h.read(&ctx.Request.Header, c.distrust)
			got := fmt.Sprintf("%s %s %s %s %s %s %v %v", h.probe.UserAgent, h.probe.NetworkProbe, h.probe.NetworkHash, h.routeTag, h.defaultRoute, h.proxyRequest, h.gateFields, h.forwardingFields)
			if want := fmt.Sprintf("kube-probe/1.34 queue hash blue true activator %v %v", c.gateFields, c.forwardingFields); got != want {
				t.Errorf("%s, with %q: got %s, want %s", what, c.more, got, want)
			}
		}
	}
}

func TestARequestDoesNotAllocate(t *testing.T) {
	g, err := embed.New(embed.Config{ConcurrencyLimit: 10})
	if err != nil {
		t.Fatal(err)
	}
	hello := []byte("hello")
	h := Handler(g, func(ctx *fasthttp.RequestCtx) { ctx.SetBody(hello) })
	most := 0.0
	if raceDetector {
		most = 2
	}
	for what, ctx := range map[string]*fasthttp.RequestCtx{"made": newRequest(), "read": readRequest(t, browsersRequest)} {
		if n := testing.AllocsPerRun(1000, func() { h(ctx) }); n > most {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

// browsersRequest is a request as browsers send it through an ingress of Knative.
const browsersRequest = "GET / HTTP/1.1\r\nHost: hello.default.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate\r\nCookie: session=0123456789abcdef\r\nX-Forwarded-For: 10.1.2.3\r\n" +
	"X-Request-Id: 00000000-0000-0000-0000-000000000000\r\nK-Proxy-Request: activator\r\n\r\n"

// BenchmarkServer measures the overhead of the gate for a whole request.
func BenchmarkServer(b *testing.B) {
	g, err := embed.New(embed.Config{ConcurrencyLimit: 100, QueueCapacity: 1000})
	if err != nil {
		b.Fatal(err)
	}
	hello := []byte("hello")
	bare := func(ctx *fasthttp.RequestCtx) { ctx.SetBody(hello) }
	serve := func(h fasthttp.RequestHandler) func(int) {
		conns := beside.NewConns(browsersRequest)
		go fasthttp.Serve(conns, h)
		b.Cleanup(func() { _ = conns.Close() })
		return conns.Serve
	}
	beside.Run(b, serve(bare), serve(Handler(g, bare)))
}
