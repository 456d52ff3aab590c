package embed

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/embed/internal/beside"
)

// nowhere is a ResponseWriter that discards everything.
type nowhere struct{ header http.Header }

func (w nowhere) Header() http.Header         { return w.header }
func (w nowhere) WriteHeader(int)             {}
func (w nowhere) Write(p []byte) (int, error) { return len(p), nil }

var hello = []byte("hello")

func sayHello(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(hello) }

func getRequest() *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	r.Header.Set("K-Proxy-Request", "activator")
	return r
}

func postRequest() *http.Request {
	r := getRequest()
	r.Method, r.Body = "POST", io.NopCloser(strings.NewReader("body"))
	return r
}

func TestARequestCostsOneAllocationAndTwoWithATimeout(t *testing.T) {
	for _, c := range []struct {
		what string
		cfg  Config
		r    *http.Request
		most float64
	}{
		{"without a clock and a body", Config{ConcurrencyLimit: 10}, getRequest(), 1},
		{"with a body", Config{ConcurrencyLimit: 10}, postRequest(), 1},
		{"with a clock", Config{ConcurrencyLimit: 10, RequestTimeout: time.Minute}, getRequest(), 2},
		{"with both", Config{ConcurrencyLimit: 10, RequestTimeout: time.Minute}, postRequest(), 2},
	} {
		g, err := New(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := g.Handler(http.HandlerFunc(sayHello))
		ctx, cancel := context.WithCancel(t.Context())
		r, w := c.r.WithContext(ctx), http.ResponseWriter(nowhere{http.Header{}})
		if n := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); n > c.most {
			t.Errorf("%s: %v allocations, want %v at most", c.what, n, c.most)
		}
		cancel()
	}
}

// browsersRequest is a request as browsers send it through an ingress of Knative.
const browsersRequest = "GET / HTTP/1.1\r\nHost: hello.default.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate\r\nCookie: session=0123456789abcdef\r\nX-Forwarded-For: 10.1.2.3\r\n" +
	"X-Request-Id: 00000000-0000-0000-0000-000000000000\r\nK-Proxy-Request: activator\r\n\r\n"

// BenchmarkGate measures the overhead of the gate for a handler.
func BenchmarkGate(b *testing.B) {
	whole, err := http.ReadRequest(bufio.NewReader(strings.NewReader(browsersRequest)))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		timeout time.Duration
		r       *http.Request
	}{
		{"two fields", 0, getRequest()},
		{"browser", 0, whole},
		{"body", 0, postRequest()},
		{"timeout", time.Minute, getRequest()},
		{"timeout and body", time.Minute, postRequest()},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := http.ResponseWriter(nowhere{http.Header{"Content-Type": nil, "Date": nil, "Etag": nil}})
			serve := func(h http.Handler) func(int) {
				return func(n int) {
					for range n {
						h.ServeHTTP(w, c.r)
					}
				}
			}
			beside.Run(b, serve(benchmarked(b, true, 0)), serve(benchmarked(b, false, c.timeout)))
		})
	}
}

// BenchmarkServer measures the overhead of the gate for a whole request.
func BenchmarkServer(b *testing.B) {
	for name, timeout := range map[string]time.Duration{"browser": 0, "timeout": time.Minute} {
		b.Run(name, func(b *testing.B) {
			serve := func(bare bool) func(int) {
				conns := beside.NewConns(browsersRequest)
				srv := &http.Server{Handler: benchmarked(b, bare, timeout)}
				go srv.Serve(conns)
				b.Cleanup(func() { _ = srv.Close() })
				return conns.Serve
			}
			beside.Run(b, serve(true), serve(false))
		})
	}
}

func benchmarked(b *testing.B, bare bool, timeout time.Duration) http.Handler {
	if bare {
		return http.HandlerFunc(sayHello)
	}
	g, err := New(Config{ConcurrencyLimit: 100, QueueCapacity: 1000, RequestTimeout: timeout})
	if err != nil {
		b.Fatal(err)
	}
	return g.Handler(http.HandlerFunc(sayHello))
}
