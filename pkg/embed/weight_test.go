package embed

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// nowhere is a ResponseWriter that costs nothing.
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

func TestARequestCostsAtMostTwoAllocations(t *testing.T) {
	for _, c := range []struct {
		what string
		cfg  Config
		r    *http.Request
		most float64
	}{
		{"without a clock and a body", Config{ConcurrencyLimit: 10}, getRequest(), 1},
		{"with a body", Config{ConcurrencyLimit: 10}, postRequest(), 2},
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

// BenchmarkGate is what the gate adds to a request, without a server.
func BenchmarkGate(b *testing.B) {
	for _, c := range []struct {
		name    string
		bare    bool
		timeout time.Duration
		r       *http.Request
	}{
		{"bare", true, 0, getRequest()},
		{"get", false, 0, getRequest()},
		{"timeout", false, time.Minute, getRequest()},
		{"timeout and body", false, time.Minute, postRequest()},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := benchmarked(b, c.bare, c.timeout)
			w := http.ResponseWriter(nowhere{http.Header{"Content-Type": nil, "Date": nil, "Etag": nil}})
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, c.r)
			}
		})
	}
}

// BenchmarkServer is a whole request over loopback, keep-alive.
func BenchmarkServer(b *testing.B) {
	for _, bare := range []bool{true, false} {
		name := "gate"
		if bare {
			name = "bare"
		}
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(benchmarked(b, bare, time.Minute))
			defer srv.Close()
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					res, err := srv.Client().Get(srv.URL)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
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
