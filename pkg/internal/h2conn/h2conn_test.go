package h2conn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
	"github.com/queuegate/queuegate/pkg/internal/h2test"
)

// connected is a connection to a server of x/net.
func connected(t *testing.T, handler http.HandlerFunc) *Conn {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	h2test.Start(s, false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Close()
	})
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return New(conn)
}

func request(method, target string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, target, body)
	r.Header.Set("User-Agent", "test")
	r.Header.Set("Authorization", "Basic abc")
	return r
}

func TestAConnectionCarriesConsecutiveExchanges(t *testing.T) {
	c := connected(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-After")
		w.WriteHeader(http.StatusProcessing)
		fmt.Fprintf(w, "%s %s %s %s %d %v", r.Method, r.Host, r.RequestURI, r.Header["Authorization"], n, err)
		w.Header().Set("X-After", "trailer")
	})
	for _, size := range []int{0, 1, 70 << 10, 3 << 20} {
		response, err := c.RoundTrip(request("POST", "http://example.com/a?b=c", bytes.NewReader(make([]byte, size))), 1<<10)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		body, _ := io.ReadAll(response.Body)
		if want := fmt.Sprintf("POST example.com /a?b=c [Basic abc] %d <nil>", size); string(body) != want || response.StatusCode != 200 {
			t.Errorf("%d %q, want %q", response.StatusCode, body, want)
		}
		if got := response.Trailer.Get("X-After"); got != "trailer" {
			t.Errorf("trailer %q", got)
		}
		if !c.Usable() {
			t.Fatal("not usable again")
		}
	}
}

func TestAResponseOverHTTP2IsTruncatedAtTheLimitOfTheCall(t *testing.T) {
	c := connected(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 1<<20)))
	})
	response, err := c.RoundTrip(request("GET", "http://example.com/", nil), 100<<10)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(response.Body); len(body) != 100<<10 || c.Usable() {
		t.Errorf("%d bytes, usable %v", len(body), c.Usable())
	}
	if _, err := c.RoundTrip(request("GET", "http://example.com/", nil), 1); err == nil {
		t.Error("a request upon half a response")
	}
}

func TestAnEarlyResponseClosesTheConnection(t *testing.T) {
	c := connected(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	response, err := c.RoundTrip(request("POST", "http://example.com/", bytes.NewReader(make([]byte, 3<<20))), 10)
	if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || c.Usable() {
		t.Errorf("%v, %v, usable %v", response, err, c.Usable())
	}
}

// scripted is a connection whose server sends fixed bytes.
type scripted struct {
	net.Conn
	io.Reader
	written bytes.Buffer
}

func (s *scripted) Read(b []byte) (int, error)  { return s.Reader.Read(b) }
func (s *scripted) Write(b []byte) (int, error) { return s.written.Write(b) }

func said(frames ...[]byte) *scripted {
	return &scripted{Reader: bytes.NewReader(bytes.Join(append([][]byte{h2.AppendSettings(nil)}, frames...), nil))}
}

func head(status int, end bool) []byte {
	var e h2.Encoder
	return h2.EndHeaders(e.AppendStatus(h2.BeginHeaders(nil), status), 0, 1, end, h2.MinMaxFrameSize)
}

func TestEachProtocolViolationOfAnHTTP2ServerIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		server *scripted
		want   error
	}{
		"nothing":                     {&scripted{Reader: strings.NewReader("")}, io.EOF},
		"HTTP/1":                      {&scripted{Reader: strings.NewReader("HTTP/1.1 400 Bad Request\r\n\r\n")}, ErrHTTP1},
		"ends in the middle":          {said(head(200, false)), io.EOF},
		"a reset":                     {said(h2.AppendRSTStream(nil, 1, h2.Cancel)), errReset},
		"GOAWAY before it":            {said(h2.AppendGoAway(nil, 0, h2.NoError)), errGoAway},
		"only interim ones":           {said(bytes.Repeat(head(100, false), 9)), errInterim},
		"a push":                      {said(h2.AppendFrameHeader(nil, h2.PushPromise, h2.FlagEndHeaders, 1, 4), make([]byte, 4)), nil},
		"no status":                   {said(h2.EndHeaders(h2.BeginHeaders(nil), 0, 1, true, h2.MinMaxFrameSize)), nil},
		"DATA before a head":          {said(h2.AppendDataHeader(nil, 1, 1, true), []byte("x")), nil},
		"no SETTINGS":                 {&scripted{Reader: bytes.NewReader(head(200, true))}, nil},
		"a frame of 16 MiB":           {said(h2.AppendFrameHeader(nil, h2.Data, 0, 1, 1<<24-1)), nil},
		"a window of 4 GiB":           {said(bytes.Repeat(h2.AppendWindowUpdate(nil, 0, h2.MaxWindow), 2)), nil},
		"trailers without END_STREAM": {said(head(200, false), head(200, false)), nil},
	} {
		conn := New(c.server)
		response, err := conn.RoundTrip(request("GET", "http://example.com/", nil), 10)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || conn.Usable() {
			t.Errorf("%s: %v, %v, usable %v; want %v", name, response, err, conn.Usable(), c.want)
		}
	}
}

func TestAConnectionClosedByTheServerServesTheLastExchange(t *testing.T) {
	c := New(said(h2.AppendGoAway(nil, 1, h2.NoError), head(204, true)))
	if response, err := c.RoundTrip(request("GET", "http://example.com/", nil), 10); err != nil || response.StatusCode != 204 || c.Usable() {
		t.Errorf("%v, %v, usable %v", response, err, c.Usable())
	}
}

func TestAPINGIsAcknowledged(t *testing.T) {
	data := [8]byte{1, 2, 3}
	s := said(h2.AppendPing(nil, false, data))
	s.Reader = io.MultiReader(s.Reader, bytes.NewReader(head(204, true))) // separate reads
	if _, err := New(s).RoundTrip(request("GET", "http://example.com/", nil), 10); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(s.written.Bytes(), h2.AppendPing(nil, true, data)) {
		t.Errorf("no acknowledgement in %q", s.written.Bytes())
	}
}

func FuzzAServerCanSayAnything(f *testing.F) {
	f.Add(slicesOf(head(200, false), h2.AppendDataHeader(nil, 1, 2, true), []byte("hi")))
	f.Add(slicesOf(head(100, false), head(204, true)))
	f.Add(slicesOf(h2.AppendSettings(nil, h2.Setting{ID: h2.SettingInitialWindowSize, Value: 1}), h2.AppendWindowUpdate(nil, 1, 5)))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := New(&scripted{Reader: bytes.NewReader(text)})
		response, err := c.RoundTrip(request("POST", "http://example.com/", strings.NewReader("0123456789")), 100)
		if (response == nil) == (err == nil) {
			t.Errorf("%v, %v", response, err)
		}
		if err == nil {
			if body, err := io.ReadAll(response.Body); err != nil || len(body) > 100 {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		}
	})
}

func slicesOf(frames ...[]byte) []byte {
	return bytes.Join(append([][]byte{h2.AppendSettings(nil)}, frames...), nil)
}
