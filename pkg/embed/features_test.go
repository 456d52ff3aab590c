package embed

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
)

func TestHandlersSeeTheOptionalInterfacesOfTheServer(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		bare := make(chan features, 1)
		g, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		gated := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if got, want := featuresOf(w), <-bare; got != want {
				t.Errorf("with the gate %05b, without it %05b", got, want)
			}
			if _, ok := w.(io.StringWriter); !ok {
				t.Error("no io.StringWriter")
			}
		}))
		r := serve(t, protocol, g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			bare <- featuresOf(w)
			gated.ServeHTTP(w, r)
		}))
		r.do("GET", "/", "")
	})
}

// allFeatures implements every optional interface. Each method records in *calls that it
// was called.
type allFeatures struct {
	http.ResponseWriter
	calls *features
}

func (a allFeatures) Flush() { *a.calls |= flushes }
func (a allFeatures) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	*a.calls |= hijacks
	client, server := net.Pipe()
	_ = client.Close()
	return server, nil, nil
}
func (a allFeatures) CloseNotify() <-chan bool             { *a.calls |= notifies; return nil }
func (a allFeatures) Push(string, *http.PushOptions) error { *a.calls |= pushes; return nil }
func (a allFeatures) ReadFrom(src io.Reader) (int64, error) {
	*a.calls |= readsFrom
	return io.Copy(io.Discard, src)
}

func TestEachCombinationOfOptionalInterfacesIsKept(t *testing.T) {
	g, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for f := features(0); f < 1<<5; f++ {
		var calls features
		outer := combined(allFeatures{httptest.NewRecorder(), &calls}, f)
		g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if got := featuresOf(w); got != f {
				t.Errorf("%05b became %05b", f, got)
			}
			if w, ok := w.(http.Flusher); ok {
				w.Flush()
			}
			if w, ok := w.(closeNotifier); ok {
				w.CloseNotify()
			}
			if w, ok := w.(http.Pusher); ok {
				_ = w.Push("/", nil)
			}
			if w, ok := w.(io.ReaderFrom); ok {
				_, _ = w.ReadFrom(http.NoBody)
			}
			if w, ok := w.(http.Hijacker); ok {
				c, _, err := w.Hijack()
				if err != nil || g.InFlight() != 1 {
					t.Errorf("%05b: %v, %d in flight", f, err, g.InFlight())
				}
				_ = c.Close()
			}
		})).ServeHTTP(outer, httptest.NewRequest("GET", "/", nil))
		if calls != f || g.InFlight() != 0 {
			t.Errorf("%05b: called %05b, %d in flight", f, calls, g.InFlight())
		}
	}
}

// combined returns w with the features f alone.
func combined(w allFeatures, f features) http.ResponseWriter {
	type (
		plain    struct{ http.ResponseWriter }
		flush    interface{ http.Flusher }
		hijack   interface{ http.Hijacker }
		notify   interface{ closeNotifier }
		push     interface{ http.Pusher }
		readFrom interface{ io.ReaderFrom }
	)
	p := plain{w.ResponseWriter}
	switch f {
	case flushes:
		return struct {
			plain
			flush
		}{p, w}
	case hijacks:
		return struct {
			plain
			hijack
		}{p, w}
	case flushes | hijacks:
		return struct {
			plain
			flush
			hijack
		}{p, w, w}
	case notifies:
		return struct {
			plain
			notify
		}{p, w}
	case flushes | notifies:
		return struct {
			plain
			flush
			notify
		}{p, w, w}
	case hijacks | notifies:
		return struct {
			plain
			hijack
			notify
		}{p, w, w}
	case flushes | hijacks | notifies:
		return struct {
			plain
			flush
			hijack
			notify
		}{p, w, w, w}
	case pushes:
		return struct {
			plain
			push
		}{p, w}
	case flushes | pushes:
		return struct {
			plain
			flush
			push
		}{p, w, w}
	case hijacks | pushes:
		return struct {
			plain
			hijack
			push
		}{p, w, w}
	case flushes | hijacks | pushes:
		return struct {
			plain
			flush
			hijack
			push
		}{p, w, w, w}
	case notifies | pushes:
		return struct {
			plain
			notify
			push
		}{p, w, w}
	case flushes | notifies | pushes:
		return struct {
			plain
			flush
			notify
			push
		}{p, w, w, w}
	case hijacks | notifies | pushes:
		return struct {
			plain
			hijack
			notify
			push
		}{p, w, w, w}
	case flushes | hijacks | notifies | pushes:
		return struct {
			plain
			flush
			hijack
			notify
			push
		}{p, w, w, w, w}
	case readsFrom:
		return struct {
			plain
			readFrom
		}{p, w}
	case flushes | readsFrom:
		return struct {
			plain
			flush
			readFrom
		}{p, w, w}
	case hijacks | readsFrom:
		return struct {
			plain
			hijack
			readFrom
		}{p, w, w}
	case flushes | hijacks | readsFrom:
		return struct {
			plain
			flush
			hijack
			readFrom
		}{p, w, w, w}
	case notifies | readsFrom:
		return struct {
			plain
			notify
			readFrom
		}{p, w, w}
	case flushes | notifies | readsFrom:
		return struct {
			plain
			flush
			notify
			readFrom
		}{p, w, w, w}
	case hijacks | notifies | readsFrom:
		return struct {
			plain
			hijack
			notify
			readFrom
		}{p, w, w, w}
	case flushes | hijacks | notifies | readsFrom:
		return struct {
			plain
			flush
			hijack
			notify
			readFrom
		}{p, w, w, w, w}
	case pushes | readsFrom:
		return struct {
			plain
			push
			readFrom
		}{p, w, w}
	case flushes | pushes | readsFrom:
		return struct {
			plain
			flush
			push
			readFrom
		}{p, w, w, w}
	case hijacks | pushes | readsFrom:
		return struct {
			plain
			hijack
			push
			readFrom
		}{p, w, w, w}
	case flushes | hijacks | pushes | readsFrom:
		return struct {
			plain
			flush
			hijack
			push
			readFrom
		}{p, w, w, w, w}
	case notifies | pushes | readsFrom:
		return struct {
			plain
			notify
			push
			readFrom
		}{p, w, w, w}
	case flushes | notifies | pushes | readsFrom:
		return struct {
			plain
			flush
			notify
			push
			readFrom
		}{p, w, w, w, w}
	case hijacks | notifies | pushes | readsFrom:
		return struct {
			plain
			hijack
			notify
			push
			readFrom
		}{p, w, w, w, w}
	case flushes | hijacks | notifies | pushes | readsFrom:
		return struct {
			plain
			flush
			hijack
			notify
			push
			readFrom
		}{p, w, w, w, w, w}
	}
	return p
}

// opaque is a writer whose only optional method is Unwrap.
type opaque struct{ inner http.ResponseWriter }

func (o opaque) Header() http.Header         { return o.inner.Header() }
func (o opaque) Write(p []byte) (int, error) { return o.inner.Write(p) }
func (o opaque) WriteHeader(status int)      { o.inner.WriteHeader(status) }
func (o opaque) Unwrap() http.ResponseWriter { return o.inner }

func TestAHijackThroughUnwrapHoldsTheSlot(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		hijacked := make(chan net.Conn, 1)
		g, err := New(Config{ConcurrencyLimit: 1})
		if err != nil {
			t.Fatal(err)
		}
		gated := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, ok := w.(http.Hijacker); ok {
				t.Error("the writer is an http.Hijacker, unlike the one around it")
			}
			c, _, err := http.NewResponseController(w).Hijack()
			if protocol == "HTTP/2.0" {
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("hijacking: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			hijacked <- c
		}))
		r := serve(t, protocol, g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { gated.ServeHTTP(opaque{w}, r) }))
		if protocol == "HTTP/2.0" {
			r.do("GET", "/", "")
			return
		}
		client := r.dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		defer client.Close()
		c := testkit.Receive(t, "the connection", hijacked)
		if r.gate.InFlight() != 1 {
			t.Errorf("%d in flight", r.gate.InFlight())
		}
		_ = c.Close()
		if r.gate.InFlight() != 0 {
			t.Errorf("after its end %d in flight", r.gate.InFlight())
		}
	})
}
