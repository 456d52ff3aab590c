package embed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// served is a gate without sockets, for tests with fake time.
type served struct {
	t    *testing.T
	gate *Gate
	http.Handler
}

func newServed(t *testing.T, c Config, next http.HandlerFunc) *served {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &served{t, g, g.Handler(next)}
}

// get sends a request of 10.1.2.3 with header fields and returns the response.
func (s *served) get(path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = "10.1.2.3:1"
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// order returns the order in which a gate with one slot serves queued requests. Each
// request is a path followed by header fields.
func order(t *testing.T, c Config, requests ...[]string) (got []string) {
	synctest.Test(t, func(t *testing.T) {
		c.ConcurrencyLimit, c.QueueCapacity = 1, 10
		s := newServed(t, c, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/first" {
				got = append(got, strings.TrimPrefix(r.URL.Path, "/"))
			}
			time.Sleep(time.Second)
		})
		go s.get("/first")
		synctest.Wait()
		for _, r := range requests {
			go s.get(r[0], r[1:]...)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
	})
	return got
}

func TestQueuedRequestsShareSlotsFairlyByKey(t *testing.T) {
	requests := [][]string{{"/a1", "X-Tenant: a"}, {"/a2", "X-Tenant: a"}, {"/b1", "X-Tenant: b"}}
	if got := order(t, Config{}, requests...); !slices.Equal(got, []string{"a1", "a2", "b1"}) {
		t.Errorf("without a key: %q", got)
	}
	if got := order(t, Config{QueueFairBy: "header:x-tenant"}, requests...); !slices.Equal(got, []string{"a1", "b1", "a2"}) {
		t.Errorf("by tenant: %q", got)
	}
	paths := [][]string{{"/a/1"}, {"/a/2"}, {"/b/1"}}
	if got := order(t, Config{QueueFairBy: "path:1"}, paths...); !slices.Equal(got, []string{"a/1", "b/1", "a/2"}) {
		t.Errorf("by path: %q", got)
	}
	untrusted := Config{QueueFairBy: "header:x-tenant", TrustedSources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	if got := order(t, untrusted, requests...); !slices.Equal(got, []string{"a1", "a2", "b1"}) {
		t.Errorf("by tenant, from an untrusted peer: %q", got)
	}
}

func TestUrgentRequestsAreServedFirst(t *testing.T) {
	requests := [][]string{{"/late", "Priority: u=7"}, {"/normal"}, {"/urgent", "Priority: u=0, i"}}
	if got := order(t, Config{QueuePriorityBy: "header:priority"}, requests...); !slices.Equal(got, []string{"urgent", "normal", "late"}) {
		t.Errorf("served %q", got)
	}
}

func TestARequestThatCannotBeServedInTimeIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, Config{ConcurrencyLimit: 1, QueueCapacity: 10, QueueDeadlineBy: "header:X-Timeout-Ms"}, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/late" {
				t.Error("the handler was called")
			}
			time.Sleep(time.Second)
		})
		go s.get("/")
		synctest.Wait()
		begun := time.Now()
		w := s.get("/late", "X-Timeout-Ms: 300")
		if w.Code != 504 || w.Header().Get("K-Gate-Outcome") != "deadline-exceeded" || time.Since(begun) != 300*time.Millisecond {
			t.Errorf("%d %v after %v", w.Code, w.Header(), time.Since(begun))
		}
		time.Sleep(time.Minute)
	})
}

func TestRetryAfterIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, Config{ConcurrencyLimit: 1, QueueCapacity: 5, QueueRetryAfter: "measured", QueueRefusalStatus: 429}, func(http.ResponseWriter, *http.Request) {
			time.Sleep(4 * time.Second)
		})
		for range 6 {
			go s.get("/")
			synctest.Wait()
		}
		if w := s.get("/"); w.Header().Get("Retry-After") != "1" { // the drain time of the queue is not measured yet
			t.Errorf("at first: %d %v", w.Code, w.Header())
		}
		for range 4 { // a handler takes 4 s, so one request ends in each iteration
			time.Sleep(4 * time.Second)
			synctest.Wait()
			go s.get("/")
			synctest.Wait()
		}
		w := s.get("/")
		if w.Code != 429 || w.Header().Get("Retry-After") != "20" { // 5 queued requests need 4 s each
			t.Errorf("%d %v", w.Code, w.Header())
		}
		time.Sleep(time.Hour)
	})
}

// The service takes 100 ms for up to 8 concurrent requests, and proportionally longer
// for more, so the best limit is about 8.
func TestTheAdaptiveLimitApproachesTheBestConcurrencyOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, Config{Concurrency: "auto:1-200"}, nil)
		s.Handler = s.gate.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(100 * time.Millisecond * time.Duration(max(8, s.gate.InFlight())) / 8)
		}))
		first := s.gate.Limit()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		for range 60 {
			go func() {
				for ctx.Err() == nil {
					if s.get("/").Code != 200 {
						time.Sleep(50 * time.Millisecond)
					}
				}
			}()
		}
		<-ctx.Done()
		if limit := s.gate.Limit(); limit < 5 || limit > 20 {
			t.Errorf("limit %d, at first %d", limit, first)
		}
		time.Sleep(time.Minute)
	})
}

func TestSlowUploadsAndReadersDoNotCountAsTheTimeOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, Config{ConcurrencyLimit: 100, QueueDeadlineBy: "header:X-Timeout-Ms"}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = new(bytes.Buffer).ReadFrom(r.Body)
			time.Sleep(10 * time.Millisecond)
			w.WriteHeader(200)
			if r.Method == "POST" {
				time.Sleep(time.Hour) // a slow reader
			}
		})
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", slowReader{}))
		// The handler takes 10 ms, so a timeout of 20 ms suffices. If the hour of the
		// slow upload counted as time of the handler, the gate would expect the requests
		// to exceed their timeout, and would reject most of them.
		for range 20 {
			go func() {
				if w := s.get("/", "X-Timeout-Ms: 20"); w.Code != 200 {
					t.Errorf("%d %v", w.Code, w.Header())
				}
			}()
		}
		time.Sleep(time.Minute)
	})
}

// slowReader is a body that blocks for an hour and then fails.
type slowReader struct{}

func (slowReader) Read([]byte) (int, error) { time.Sleep(time.Hour); return 0, errEnd }

var errEnd = errors.New("the client has disconnected")

func TestTheHookGetsEachRequestWithItsWaitAndOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		s := newServed(t, Config{ConcurrencyLimit: 1, QueueCapacity: 1, Uncounted: []string{"/health"}, RequestEnded: func(r Request) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(r.Method, " ", r.Target, " ", r.Status, " ", r.Outcome, " ", r.QueueWait, " ", r.Took, " ", r.ResponseBody, " ", r.Peer.Addr()))
		}}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			fmt.Fprint(w, "hello")
		})
		s.get("/health")
		go s.get("/1?a=b")
		synctest.Wait()
		go s.get("/2")
		synctest.Wait()
		s.get("/3")
		time.Sleep(time.Minute)
		want := []string{
			"GET /3 503 queue-full 0s 0s 0 10.1.2.3",
			"GET /1?a=b 200 served 0s 1s 5 10.1.2.3",
			"GET /2 200 served 1s 2s 5 10.1.2.3",
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestTheLoggerGetsRejectionsChecksAndTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		s := newServed(t, Config{ConcurrencyLimit: 1, Logger: log, Ready: func(context.Context) error { return errors.New("no database") }}, func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Second)
		})
		go s.get("/1")
		synctest.Wait()
		s.get("/2")
		s.get("/", "K-Network-Probe: queue")
		if err := s.gate.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		want := `level=WARN msg="request ended" outcome=queue-full status=503 method=GET target=/2 queue_wait=0s took=0s
level=WARN msg="not ready" reason="not ready" error="no database"
level=INFO msg=draining in_flight=1 queued=0 tunnels=0
level=INFO msg=drained in_flight=0 queued=0 tunnels=0
`
		if b.String() != want {
			t.Errorf("got\n%s\nwant\n%s", &b, want)
		}
	})
}

func TestBeginAdmitsACallAndRejectsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Config{ConcurrencyLimit: 1, RequestTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		call := Call{Method: "POST", Target: "/a.B/C", Protocol: "HTTP/2.0"}
		slot, err := g.Begin(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		var r *Rejection
		if _, err := g.Begin(t.Context(), call); !errors.As(err, &r) || r.Outcome != "queue-full" || r.Status != 503 || r.GRPC != 8 || r.RetryAfter != time.Second {
			t.Errorf("the second: %#v", err)
		}
		if err := slot.End(200); err != nil || g.InFlight() != 0 {
			t.Errorf("%v, %d in flight", err, g.InFlight())
		}
		slot, err = g.Begin(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		<-slot.Context().Done()
		if err := slot.End(200); !errors.As(err, &r) || r.Outcome != "request-timeout" || r.GRPC != 4 {
			t.Errorf("after the timeout: %#v", err)
		}
		slot, err = g.Begin(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if err := slot.End(0); err != nil {
			t.Error(err)
		}
		for _, outcome := range []string{"served", "queue-full", "request-timeout", "internal-error"} {
			if line := fmt.Sprintf("queuegate_request_outcomes_total{outcome=%q} 1\n", outcome); !strings.Contains(page(g.Metrics()), line) {
				t.Errorf("no %s", line)
			}
		}
	})
}
