package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
)

func TestAFullQueueRejectsImmediatelyAndQueuedRequestsAreServedInOrder(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		s := newStage()
		r := newRig(t, protocol, Config{ConcurrencyLimit: 1, QueueCapacity: 5}, s.handle)
		first := r.begin("/first")
		testkit.Receive(t, "the first one", s.entered)
		var queued []<-chan answer
		for i := range 5 {
			queued = append(queued, r.begin(fmt.Sprint("/", i)))
			until(t, "one more in the queue", func() bool { return r.gate.QueueDepth() == i+1 })
		}
		refused := r.do("GET", "/refused", "")
		refused.want(t, 503, "pending request queue full\n", "queue-full")
		if refused.Header.Get("Retry-After") != "1" || refused.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("fields %v", refused.Header)
		}
		if n := r.gate.InFlight(); n != 1 {
			t.Errorf("%d in flight, want 1", n)
		}
		s.leave <- struct{}{}
		for i := range queued {
			if path := testkit.Receive(t, "the next in line", s.entered); path != fmt.Sprint("/", i) {
				t.Errorf("%s came in turn %d", path, i)
			}
			s.leave <- struct{}{}
		}
		for _, c := range append(queued, first) {
			a := testkit.Receive(t, "answer", c)
			if a.err != nil || a.body != "done" || a.Header.Get("K-Gate-Outcome") != "" {
				t.Errorf("answer %+v", a)
			}
		}
		r.gate.wantOutcome(t, "served", 6)
		r.gate.wantOutcome(t, "queue-full", 1)
	})
}

func TestSeveralHandlersShareOneLimit(t *testing.T) {
	g, err := New(Config{ConcurrencyLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, mux := newStage(), http.NewServeMux()
	mux.Handle("/one", g.Handler(http.HandlerFunc(s.handle)))
	mux.Handle("/two", g.Handler(http.HandlerFunc(s.handle)))
	r := serve(t, "HTTP/1.1", g, mux)
	one := r.begin("/one")
	testkit.Receive(t, "the first one", s.entered)
	two := r.do("GET", "/two", "")
	two.want(t, 503, "pending request queue full\n", "queue-full")
	close(s.leave)
	testkit.Receive(t, "answer", one)
}

func TestARequestIsRejectedAfterQueueMaxWait(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		s := newStage()
		r := newRig(t, protocol, Config{ConcurrencyLimit: 1, QueueCapacity: 1, QueueMaxWait: time.Millisecond}, s.handle)
		first := r.begin("/")
		testkit.Receive(t, "the first one", s.entered)
		a := r.do("GET", "/", "")
		a.want(t, 503, "queue wait expired\n", "queue-wait-expired")
		close(s.leave)
		testkit.Receive(t, "answer", first)
	})
}

func TestTheRequestTimeoutAppliesInTheQueue(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		entered := make(chan struct{}, 2)
		stay := make(chan struct{})
		r := newRig(t, protocol, Config{ConcurrencyLimit: 1, QueueCapacity: 1, RequestTimeout: 20 * time.Millisecond},
			func(w http.ResponseWriter, r *http.Request) {
				entered <- struct{}{}
				w.WriteHeader(http.StatusAccepted)
				<-stay // this handler ignores the timeout
			})
		first := r.begin("/")
		testkit.Receive(t, "the first one", entered)
		a := r.do("GET", "/", "")
		a.want(t, 504, "request timeout", "request-timeout")
		close(stay)
		if a := testkit.Receive(t, "answer", first); a.err != nil || a.StatusCode != 202 {
			t.Errorf("a head from before the end of the clock became %+v", a)
		}
		if len(entered) > 0 {
			t.Error("the second one reached the handler")
		}
	})
}

func TestAHandlerThatTimesOutWithoutAResponseGetsA504(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		ended := make(chan error, 1)
		r := newRig(t, protocol, Config{RequestTimeout: time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("X-Of-The-Server", "stays")
			child, cancel := context.WithCancel(r.Context())
			defer cancel()
			<-child.Done()
			ended <- child.Err()
		})
		a := r.do("POST", "/", "body")
		a.want(t, 504, "request timeout", "request-timeout")
		if a.Header.Get("Content-Type") != "text/plain; charset=utf-8" || a.Header.Get("Content-Encoding") != "" || a.Header.Get("X-Of-The-Server") != "stays" {
			t.Errorf("fields %v", a.Header)
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the handler's context ended with %v", err)
		}
		r.gate.wantOutcome(t, "request-timeout", 1)
	})
}

func TestAResponseStartedBeforeTheTimeoutIsNotChanged(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		r := newRig(t, protocol, Config{RequestTimeout: time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "late")
		})
		a := r.do("GET", "/", "")
		a.want(t, http.StatusTeapot, "late", "")
		r.gate.wantOutcome(t, "served", 1)
	})
}

func TestAClientThatDisconnectsInTheQueueNeverReachesTheHandler(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		s := newStage()
		r := newRig(t, protocol, Config{ConcurrencyLimit: 1, QueueCapacity: 2}, s.handle)
		first := r.begin("/first")
		testkit.Receive(t, "the first one", s.entered)
		req := r.request("GET", "/leaves", "")
		ctx, leave := context.WithCancel(req.Context())
		gone := make(chan answer, 1)
		go func() { gone <- r.send(req.WithContext(ctx)) }()
		until(t, "one in the queue", func() bool { return r.gate.QueueDepth() == 1 })
		leave()
		until(t, "an empty queue", func() bool { return r.gate.QueueDepth() == 0 })
		<-gone
		last := r.begin("/last")
		until(t, "one in the queue", func() bool { return r.gate.QueueDepth() == 1 })
		close(s.leave)
		if path := testkit.Receive(t, "the last one", s.entered); path != "/last" {
			t.Errorf("%s reached the handler", path)
		}
		testkit.Receive(t, "answer", first)
		testkit.Receive(t, "answer", last)
		r.gate.wantOutcome(t, "client-gone", 1)
	})
}

func TestAQueuedClientThatHalfClosesGetsNoResponse(t *testing.T) {
	s := newStage()
	r := newRig(t, "HTTP/1.1", Config{ConcurrencyLimit: 1, QueueCapacity: 1}, s.handle)
	first := r.begin("/")
	testkit.Receive(t, "the first one", s.entered)
	c := r.dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	until(t, "one in the queue", func() bool { return r.gate.QueueDepth() == 1 })
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	// Ignore the error, because the server may reset the connection.
	if text, _ := io.ReadAll(c); len(text) > 0 {
		t.Errorf("answer %q", text)
	}
	close(s.leave)
	testkit.Receive(t, "answer", first)
}

func TestAClientThatDisconnectsDuringTheHandlerIsCounted(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		s := newStage()
		r := newRig(t, protocol, Config{ConcurrencyLimit: 1, RequestTimeout: time.Hour}, s.handle)
		req := r.request("GET", "/", "")
		ctx, leave := context.WithCancel(req.Context())
		gone := make(chan answer, 1)
		go func() { gone <- r.send(req.WithContext(ctx)) }()
		testkit.Receive(t, "the request", s.entered)
		leave()
		<-gone
		r.gate.wantOutcome(t, "client-gone", 1)
		until(t, "a free slot", func() bool { return r.gate.InFlight() == 0 })
	})
}

func TestAPanicOfTheHandlerReleasesTheSlotAndPropagates(t *testing.T) {
	for _, c := range []struct {
		value   any
		outcome string
	}{
		{"a bug", "internal-error"},
		{http.ErrAbortHandler, "upstream-broke-off"},
	} {
		overBoth(t, func(t *testing.T, protocol string) {
			g, err := New(Config{ConcurrencyLimit: 1, RequestTimeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			seen := make(chan any, 1)
			inner := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(c.value) }))
			r := serve(t, protocol, g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					v := recover()
					seen <- v
					panic(v)
				}()
				inner.ServeHTTP(w, r)
			}))
			// Send a POST, because the client would retry a GET after a connection reset.
			if a := r.send(r.request("POST", "/", "body")); a.err == nil {
				t.Errorf("a panic became an answer: %+v", a)
			}
			if v := testkit.Receive(t, "the panic", seen); v != c.value {
				t.Errorf("panic %v, want %v", v, c.value)
			}
			if n := g.InFlight(); n != 0 {
				t.Errorf("%d in flight", n)
			}
			g.wantOutcome(t, c.outcome, 1)
		})
	}
}

func TestRejectionsReachGRPCCallsAsStatuses(t *testing.T) {
	s := newStage()
	r := newRig(t, "HTTP/2.0", Config{ConcurrencyLimit: 1}, s.handle)
	first := r.begin("/")
	testkit.Receive(t, "the first one", s.entered)
	a := r.do("POST", "/package.Service/Method", "", "Content-Type", "application/grpc+proto", "Te", "trailers")
	a.want(t, 200, "", "queue-full")
	h := a.Header
	if h.Get("Grpc-Status") != "8" || h.Get("Grpc-Message") != "pending request queue full" || h.Get("Content-Type") != "application/grpc" {
		t.Errorf("fields %v", h)
	}
	close(s.leave)
	testkit.Receive(t, "answer", first)
}

func TestTheHandlerGetsTheReceivedRequest(t *testing.T) {
	g, err := New(Config{RequestTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	inner := http.NewServeMux()
	inner.HandleFunc("POST /{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if _, ok := r.Context().Deadline(); !ok || r.Context().Value(http.ServerContextKey) == nil {
			t.Error("the context lacks its deadline or its values")
		}
	})
	wrapped := g.Handler(inner)
	r := serve(t, "HTTP/1.1", g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wrapped.ServeHTTP(w, r)
		if r.Pattern != "POST /{name}" || r.MultipartForm == nil {
			t.Errorf("outer handlers see pattern %q, form %v", r.Pattern, r.MultipartForm)
		}
	}))
	body := "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nfile\r\n--x--\r\n"
	if a := r.do("POST", "/name", body, "Content-Type", "multipart/form-data; boundary=x"); a.StatusCode != 200 {
		t.Errorf("status %d", a.StatusCode)
	}
}
