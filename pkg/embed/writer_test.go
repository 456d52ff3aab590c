package embed

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
)

func TestHandlersCannotSetTheGatesFields(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		r := newRig(t, protocol, Config{}, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("K-Gate-Outcome", "made-up")
			h["k-gate-more"] = []string{"made-up"}
			h.Set("Trailer", "K-Gate-Late, Fine")
			h.Set("X-K-Gate", "stays")
			if r.URL.Path == "/head" {
				w.WriteHeader(http.StatusAccepted)
			}
			if r.URL.Path != "/nothing" {
				_, _ = io.WriteString(w, "body")
				w.(http.Flusher).Flush()
				h.Set("K-Gate-Late", "made-up")
				h.Set("Fine", "1")
				h.Set(http.TrailerPrefix+"K-Gate-Later", "made-up")
				h.Set(http.TrailerPrefix+"Fine-Too", "2")
			}
		})
		for _, path := range []string{"/head", "/body", "/nothing"} {
			a := r.do("GET", path, "")
			for _, fields := range []http.Header{a.Header, a.Trailer} {
				for name, values := range fields {
					if isGateField(name) && len(values) > 0 {
						t.Errorf("%s: %s: %q", path, name, values)
					}
				}
			}
			if a.Header.Get("X-K-Gate") != "stays" {
				t.Errorf("%s: fields %v", path, a.Header)
			}
			if path != "/nothing" && (a.Trailer.Get("Fine") != "1" || a.Trailer.Get("Fine-Too") != "2") {
				t.Errorf("%s: trailers %v", path, a.Trailer)
			}
		}
	})
}

func TestTheGateKeepsTheFeaturesOfResponseWriter(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		r := newRig(t, protocol, Config{RequestTimeout: time.Hour}, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			w.Header().Set("Link", "early")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "Sum")
			if err := errors.Join(c.EnableFullDuplex(), c.SetReadDeadline(time.Now().Add(testkit.Timeout)), c.SetWriteDeadline(time.Time{})); err != nil &&
				(protocol == "HTTP/1.1" || !errors.Is(err, errors.ErrUnsupported)) {
				t.Error(err)
			}
			lines := bufio.NewReader(r.Body)
			for { // echo each line before the client sends the next line
				line, err := lines.ReadString('\n')
				if err != nil {
					break
				}
				if _, err := io.WriteString(w, line); err != nil {
					t.Error(err)
				}
				if err := c.Flush(); err != nil {
					t.Error(err)
				}
			}
			w.Header().Set("Sum", r.Trailer.Get("Asked"))
		})
		hints := make(chan string, 1)
		body, send := io.Pipe()
		req := r.request("POST", "/", "")
		req.Body, req.Trailer = body, http.Header{"Asked": nil}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error { hints <- h.Get("Link"); return nil },
		}))
		wrote := make(chan error, 2)
		go func() { _, err := io.WriteString(send, "first\n"); wrote <- err }()
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if hint := testkit.Receive(t, "an interim answer", hints); hint != "early" {
			t.Errorf("hint %q", hint)
		}
		lines := bufio.NewReader(res.Body)
		for _, want := range []string{"first\n", "second\n"} {
			if got, err := lines.ReadString('\n'); got != want || err != nil {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
			if want == "first\n" {
				go func() { _, err := io.WriteString(send, "second\n"); wrote <- err }()
			}
		}
		if err := errors.Join(testkit.Receive(t, "a write", wrote), testkit.Receive(t, "a write", wrote)); err != nil {
			t.Error(err)
		}
		req.Trailer.Set("Asked", "42")
		_ = send.Close()
		if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
			t.Errorf("then %q, %v", rest, err)
		}
		if got := res.Trailer.Get("Sum"); got != "42" {
			t.Errorf("trailer %q, want 42", got)
		}
	})
}

func TestUnannouncedTrailersReachTheHandler(t *testing.T) {
	trailer := make(chan string, 1)
	r := newRig(t, "HTTP/1.1", Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		trailer <- r.Trailer.Get("Late")
	})
	c := r.dial("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nLate: yes\r\n\r\n")
	defer c.Close()
	if got := testkit.Receive(t, "the trailer", trailer); got != "yes" {
		t.Errorf("trailer %q", got)
	}
}

// sourceRecorder records the source of ReadFrom.
type sourceRecorder struct {
	*httptest.ResponseRecorder
	src io.Reader
}

func (w *sourceRecorder) ReadFrom(src io.Reader) (int64, error) {
	w.src = src
	return io.Copy(w.ResponseRecorder, src)
}

func TestFilesAreSentWithReadFrom(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &sourceRecorder{ResponseRecorder: httptest.NewRecorder()}
	g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := w.(io.ReaderFrom).ReadFrom(f); n != 7 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
	})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.src != f {
		t.Errorf("the server reads from %T", w.src)
	}
	if w.Body.String() != "content" {
		t.Errorf("body %q", w.Body)
	}
}

func TestOnlyHTTP1SupportsHijack(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		r := newRig(t, protocol, Config{}, func(w http.ResponseWriter, r *http.Request) {
			_, hijacker := w.(http.Hijacker)
			if hijacker != (protocol == "HTTP/1.1") {
				t.Errorf("Hijacker: %v", hijacker)
			}
			if protocol == "HTTP/2.0" {
				if _, ok := w.(http.Pusher); !ok {
					t.Error("no Pusher")
				}
				if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("hijacking: %v", err)
				}
			}
		})
		r.do("GET", "/", "")
	})
}

func TestTheGateAddsNoOptionalInterfacesToAResponseWriter(t *testing.T) {
	g, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := struct{ http.ResponseWriter }{httptest.NewRecorder()}
	g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if _, _, err := c.Hijack(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("hijacking: %v", err)
		}
		if err := c.Flush(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("flushing: %v", err)
		}
		w.WriteHeader(http.StatusTeapot)
		if n, err := io.Copy(w, strings.NewReader("abc")); n != 3 || err != nil {
			t.Errorf("copying: %d, %v", n, err)
		}
	})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if text := page(g.Metrics()); !strings.Contains(text, `http_response_status_code="418"`) {
		t.Error("the status differs from the one sent")
	}
}
