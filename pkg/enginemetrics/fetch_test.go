package enginemetrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/atomic"
)

const someText = "vllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.5\n"

var somePage = Page{Waiting: 3, KV: 0.5, HasWaiting: true, HasKV: true}

func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, *fetcher) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, fetcherOf(t, s.URL+"/metrics?format=text")
}

func fetcherOf(t *testing.T, text string) *fetcher {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(u)
	t.Cleanup(f.close)
	return f
}

func soon() time.Time { return time.Now().Add(20 * time.Second) }

func TestPagesAreFetchedOnOneConnection(t *testing.T) {
	var conns atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/metrics?format=text" || r.Method != "GET" || r.Host == "" {
			t.Errorf("%s %s, Host %q", r.Method, r.URL, r.Host)
		}
		fmt.Fprint(w, someText)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Inc()
		}
	}
	s.Start()
	defer s.Close()
	f := fetcherOf(t, s.URL+"/metrics?format=text")
	for range 5 {
		if p, err := f.get(t.Context(), soon()); err != nil || p != somePage {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	s.CloseClientConnections() // a restart of the engine
	if p, err := f.get(t.Context(), soon()); err != nil || p != somePage {
		t.Errorf("on a connection that was closed: %+v, %v", p, err)
	}
}

func TestAnEnginePageMayEndWithTheCloseOfItsConnection(t *testing.T) {
	_, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.0 200 OK\r\n\r\n"+someText)
	})
	for range 2 {
		if p, err := f.get(t.Context(), soon()); err != nil || p != somePage {
			t.Fatalf("%+v, %v", p, err)
		}
	}
}

func TestAResponseThatIsNotAnEngineMetricsPageIsAnError(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503); fmt.Fprint(w, someText) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
		},
		"other": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"long": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, someText, strings.Repeat("x 1\n", maxPage/4))
		},
		"long head": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", maxPage+2*maxHead))
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, someText)
		},
	} {
		_, f := serve(t, h)
		if p, err := f.get(t.Context(), soon()); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	if _, err := fetcherOf(t, closed.URL).get(t.Context(), soon()); err == nil {
		t.Error("no error although nothing listens")
	}
}

func TestAFetchEndsAtItsDeadlineOrWhenItIsCancelled(t *testing.T) {
	release := make(chan struct{})
	_, f := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	// The deadline may also pass while the fetcher connects.
	if _, err := f.get(t.Context(), time.Now().Add(20*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want a timeout", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := f.get(ctx, time.Now().Add(time.Hour)); err == nil {
		t.Error("no error after a cancel")
	}
}
