package check

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

func TestStatus200To399IsSuccess(t *testing.T) {
	for _, code := range []int{200, 204, 299, 300, 304, 305, 399, 400, 404, 499, 500, 503, 599} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			got := probeOnce(t, httpAt(checktest.ServeHTTP(t, checktest.Status(code), nil)))
			want := Result{Reached: true}
			if code >= 400 {
				want.Cause = Cause{Kind: CauseStatus, Status: code}
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAnHTTPCheckSendsTheFieldsThatTheKubeletSends(t *testing.T) {
	var got string
	port := checktest.ServeRaw(t, func(c *net.TCPConn) {
		b := make([]byte, 4096)
		n, _ := c.Read(b)
		got = string(b[:n])
		c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	})
	cases := map[string]struct {
		change func(*HTTP)
		want   string
	}{
		"with nothing configured": {func(*HTTP) {}, "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nUser-Agent: kube-probe/1 (queuegate)\r\nAccept: */*\r\nConnection: close\r\n\r\n"},
		"with headers": {func(p *HTTP) {
			p.Headers = []Header{{"host", "example.com"}, {"X-A", "1"}, {"X-A", "2"}, {"user-agent", "me"}, {"Accept", ""}}
		}, "GET / HTTP/1.1\r\nHost: example.com\r\nX-A: 1\r\nX-A: 2\r\nuser-agent: me\r\nConnection: close\r\n\r\n"},
		"with a path that needs escapes": {path("a b%2Fc?d e\x7f"), "GET /a%20b%252Fc%3Fd%20e%7F HTTP/1.1\r\n"},
		"with a query":                   {path("/a?b=c d"), "GET /a?b=c%20d HTTP/1.1\r\n"},
		"with a path like a URL":         {path("//x/y"), "GET //x/y HTTP/1.1\r\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if r := probeOnce(t, httpAt(port, c.change)); r.Cause.Kind != CauseNone {
				t.Fatalf("result %+v", r)
			}
			want := strings.ReplaceAll(c.want, "PORT", strconv.Itoa(port))
			if !strings.HasPrefix(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestEachHTTPFailureHasItsCause(t *testing.T) {
	brief := map[string]bool{"no answer": true, "half a head": true, "half a body": true, "no TLS answer": true}
	cases := map[string]struct {
		prober func(t *testing.T) Checker
		want   Cause
	}{
		"refused":   {func(t *testing.T) Checker { return httpAt(checktest.RefusingPort(t)) }, Cause{Kind: CauseRefused}},
		"reset":     {func(t *testing.T) Checker { return httpAt(checktest.ServeRaw(t, checktest.Resetting)) }, Cause{Kind: CauseReset, Detail: detailEmptyClose}},
		"closed":    {func(t *testing.T) Checker { return httpAt(checktest.ServeRaw(t, checktest.HangingUp)) }, Cause{Kind: CauseClosed, Detail: detailEmptyClose}},
		"no answer": {func(t *testing.T) Checker { return httpAt(checktest.ServeRaw(t, checktest.Silent)) }, Cause{Kind: CauseTimeout}},
		"closed in the head": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 200 OK\r\nA: b\r\n")))
		}, Cause{Kind: CauseClosed}},
		"closed in the body": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")))
		}, Cause{Kind: CauseClosed}},
		"closed in a chunk": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc")))
		}, Cause{Kind: CauseClosed}},
		"a bad chunk": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")))
		}, Cause{Kind: CauseMalformed}},
		"not HTTP": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("SSH-2.0-OpenSSH\r\n")))
		}, Cause{Kind: CauseMalformed, Detail: "not HTTP"}},
		"a few odd bytes": {func(t *testing.T) Checker { return httpAt(checktest.ServeRaw(t, checktest.Responding("ab"))) }, Cause{Kind: CauseMalformed, Detail: "not HTTP"}},
		"a bad status line": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 abc\r\n\r\n")))
		}, Cause{Kind: CauseMalformed}},
		"a bad length": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")))
		}, Cause{Kind: CauseMalformed}},
		"101 unasked": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")))
		}, Cause{Kind: CauseMalformed, Detail: "switches protocols unasked"}},
		"1xx without end": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20))))
		}, Cause{Kind: CauseMalformed, Detail: "no final response"}},
		"a head of 2 MiB": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 200 OK\r\n"+strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 2100))))
		}, Cause{Kind: CauseMalformed, Detail: "head too large"}},
		"half a head": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, func(c *net.TCPConn) { checktest.Responding("HTTP/1.1 20")(c); checktest.Silent(c) }))
		}, Cause{Kind: CauseTimeout}},
		"half a body": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, func(c *net.TCPConn) {
				checktest.Responding("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")(c)
				checktest.Silent(c)
			}))
		}, Cause{Kind: CauseTimeout}},
		"plain to a TLS port": {func(t *testing.T) Checker {
			return httpAt(checktest.ServeRaw(t, checktest.Responding("\x15\x03\x01\x00\x02\x02\x46")))
		}, Cause{Kind: CauseTLS, Detail: "the server speaks TLS"}},
		"TLS to a plain port": {func(t *testing.T) Checker { return httpAt(checktest.ServeHTTP(t, checktest.Status(200), nil), overTLS) }, Cause{Kind: CauseTLS, Detail: "the server does not speak TLS"}},
		"no TLS answer":       {func(t *testing.T) Checker { return httpAt(checktest.ServeRaw(t, checktest.Silent), overTLS) }, Cause{Kind: CauseTimeout}},
		"reset in TLS":        {func(t *testing.T) Checker { return httpAt(checktest.ServeRaw(t, checktest.Resetting), overTLS) }, Cause{Kind: CauseReset}},
		"no such name":        {func(t *testing.T) Checker { return httpAt(1, func(p *HTTP) { p.Address = "no-such-name.invalid.:1" }) }, Cause{Kind: CauseUnreachable, Detail: "no such host name"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			probe := probeOnce
			if brief[name] {
				probe = probeBriefly
			}
			got := probe(t, c.prober(t))
			if got.Cause != c.want {
				t.Errorf("cause %+v, want %+v", got.Cause, c.want)
			}
			if reached := name != "refused" && name != "no such name"; got.Reached != reached {
				t.Errorf("reached is %v", got.Reached)
			}
			if token := got.Cause.Token(); token == "" || strings.ContainsAny(token+got.Cause.String(), "\r\n\x00") {
				t.Errorf("token %q, text %q", token, got.Cause)
			}
		})
	}
}

func TestTheFinalResponseAfterInterimOnesCounts(t *testing.T) {
	port := checktest.ServeRaw(t, checktest.Responding("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n"))
	if r := probeOnce(t, httpAt(port)); r.Cause != (Cause{Kind: CauseStatus, Status: 404}) {
		t.Errorf("result %+v", r)
	}
}

func TestCertificatesAreNotVerified(t *testing.T) {
	port := checktest.ServeHTTP(t, checktest.Status(200), (*httptest.Server).StartTLS)
	if r := probeOnce(t, httpAt(port, overTLS)); r.Cause.Kind != CauseNone {
		t.Errorf("result %+v", r)
	}
}

func TestAnHTTPCheckFollowsUpToTenRedirectsOnTheSameHost(t *testing.T) {
	other := checktest.ServeHTTP(t, checktest.Status(500), nil)
	mux := http.NewServeMux()
	to := func(from, location string, code int) {
		mux.HandleFunc(from, func(w http.ResponseWriter, _ *http.Request) {
			if location != "" {
				w.Header()["Location"] = []string{location}
			}
			w.WriteHeader(code)
		})
	}
	mux.Handle("/ok", checktest.Status(200))
	mux.Handle("/fails", checktest.Status(503))
	to("/to-ok", "/ok", 302)
	to("/to-failure", "/fails", 301)
	to("/elsewhere", "http://example.com/fails", 302)
	to("/ftp", "ftp://127.0.0.1/fails", 302)
	to("/other-port", fmt.Sprintf("http://127.0.0.1:%d/", other), 307)
	to("/no-location", "", 302)
	to("/nonsense", "http://[", 302)
	to("/loop", "/loop", 308)
	to("/300", "/fails", 300)
	for i := range 12 {
		location := fmt.Sprintf("/chain/%d", i-1)
		if i == 0 {
			location = "/ok"
		}
		to(fmt.Sprintf("/chain/%d", i), location, 302)
	}
	port := checktest.ServeHTTP(t, mux, nil)
	cases := map[string]struct {
		path string
		want Cause
	}{
		"on the same host are followed":          {"/to-ok", Cause{}},
		"and the end of the chain counts":        {"/to-failure", Cause{Kind: CauseStatus, Status: 503}},
		"to another host are success":            {"/elsewhere", Cause{}},
		"to another scheme are success":          {"/ftp", Cause{}},
		"to another port of it are followed":     {"/other-port", Cause{Kind: CauseStatus, Status: 500}},
		"that lead nowhere are success":          {"/no-location", Cause{}},
		"that are no redirects are not followed": {"/300", Cause{}},
		"to nonsense are malformed":              {"/nonsense", Cause{Kind: CauseMalformed, Detail: "redirect to something that is no URL"}},
		"are followed 10 times":                  {"/chain/9", Cause{}},
		"are not followed 11 times":              {"/chain/10", Cause{Kind: CauseRedirects}},
		"in a loop end":                          {"/loop", Cause{Kind: CauseRedirects}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if r := probeOnce(t, httpAt(port, path(c.path))); r.Cause != c.want || !r.Reached {
				t.Errorf("result %+v, want %+v", r, c.want)
			}
		})
	}
}

func TestAConfiguredHostIsKeptOnlyForRelativeRedirects(t *testing.T) {
	var mu sync.Mutex
	var hosts []string
	port := checktest.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		hosts = append(hosts, r.Host)
		switch r.URL.Path {
		case "/":
			w.Header().Set("Location", "/two")
			w.WriteHeader(302)
		case "/two":
			w.Header().Set("Location", "http://127.0.0.1:"+r.Header.Get("X-Port")+"/three")
			w.WriteHeader(302)
		}
	}), nil)
	p := httpAt(port, func(p *HTTP) { p.Headers = []Header{{"Host", "example.com"}, {"X-Port", strconv.Itoa(port)}} })
	if r := probeOnce(t, p); r.Cause.Kind != CauseNone {
		t.Fatalf("result %+v", r)
	}
	if want := []string{"example.com", "example.com", "127.0.0.1:" + strconv.Itoa(port)}; fmt.Sprint(hosts) != fmt.Sprint(want) {
		t.Errorf("hosts %q, want %q", hosts, want)
	}
}

func TestAnHTTPCheckReadsTheResponseBodyOnlyUpToALimit(t *testing.T) {
	var wrote atomic.Int64
	port := checktest.ServeRaw(t, func(c *net.TCPConn) {
		checktest.Responding("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")(c)
		for chunk := bytes.Repeat([]byte("x"), 64<<10); ; {
			n, err := c.Write(chunk)
			wrote.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	if r := probeOnce(t, httpAt(port)); r.Cause.Kind != CauseNone {
		t.Errorf("result %+v", r)
	}
}

func TestEachCheckOpensANewConnection(t *testing.T) {
	var conns atomic.Int64
	port := checktest.ServeHTTP(t, checktest.Status(200), func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		}
		s.Start()
	})
	p := httpAt(port)
	for range 5 {
		if r := probeOnce(t, p); r.Cause.Kind != CauseNone {
			t.Fatalf("result %+v", r)
		}
	}
	if n := conns.Load(); n != 5 {
		t.Errorf("%d connections for 5 probes", n)
	}
}

func TestManyChecksDoNotAccumulateSockets(t *testing.T) {
	probes := 3000
	if testing.Short() {
		probes = 300
	}
	port := checktest.ServeHTTP(t, checktest.Status(200), nil)
	p := httpAt(port)
	probeOnce(t, p)
	waitsBefore, files := timeWaits(t, port), openFiles(t)
	began := time.Now()
	for range probes {
		if r := probeOnce(t, p); r.Cause.Kind != CauseNone {
			t.Fatalf("result %+v", r)
		}
	}
	waits := timeWaits(t, port) - waitsBefore
	t.Logf("%d probes in %v, %d sockets in TIME_WAIT", probes, time.Since(began), waits)
	if more := openFiles(t) - files; more > 50 {
		t.Errorf("%d more open files after %d probes", more, probes)
	}
	// A few exchanges may leave TIME_WAIT, if the server takes longer than 2 ms to
	// close.
	if waits > probes/4 {
		t.Errorf("%d sockets in TIME_WAIT after %d probes", waits, probes)
	}
}

// timeWaits returns the number of sockets in TIME_WAIT that have port at one end.
func timeWaits(t *testing.T, port int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == "06" && strings.Contains(f[1]+" "+f[2]+" ", fmt.Sprintf(":%04X ", port)) {
			n++
		}
	}
	return n
}

func TestHTTP2WithoutTLSIsDetectedAndRemembered(t *testing.T) {
	// A server that speaks only HTTP/2 fails an HTTP/1 request in one of two ways. A gRPC
	// server sends SETTINGS first. A server of net/http closes the connection without a
	// byte.
	for _, settingsFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("settings first %v", settingsFirst), func(t *testing.T) {
			var old atomic.Int64
			backend := checktest.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 || r.Header.Get("X-A") != "b" || r.Host != "example.com" {
					t.Errorf("%s, header %v, host %s", r.Proto, r.Header, r.Host)
				}
				w.WriteHeader(204)
			}), checktest.OverH2C(false))
			port := checktest.ServeRaw(t, func(c *net.TCPConn) {
				first := make([]byte, 3)
				io.ReadFull(c, first)
				if string(first) == "GET" {
					old.Add(1)
					if settingsFirst {
						c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
					}
					return
				}
				relay(c, first, backend)
			})
			p := httpAt(port, func(p *HTTP) { p.Headers = []Header{{"Host", "example.com"}, {"X-A", "b"}} })
			for range 3 {
				if r := probeOnce(t, p); r != (Result{Reached: true}) {
					t.Fatalf("result %+v", r)
				}
			}
			if n := old.Load(); n != 1 {
				t.Errorf("asked %d times over HTTP/1", n)
			}
		})
	}
}

// relay forwards bytes between c and a local port, in both directions, until both sides
// close. The caller has already read some bytes from c. They are in the parameter first,
// and are forwarded before all other bytes.
func relay(c *net.TCPConn, first []byte, port int) {
	up, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return
	}
	defer up.Close()
	up.Write(first)
	var done sync.WaitGroup
	done.Go(func() {
		io.Copy(up, c)
		up.(*net.TCPConn).CloseWrite()
	})
	io.Copy(c, up)
	c.CloseWrite()
	done.Wait()
}

func TestARestartResetsTheDetectedProtocol(t *testing.T) {
	p := httpAt(checktest.RefusingPort(t))
	p.h2c.Store(true)
	if r := probeOnce(t, p); r.Cause.Kind != CauseRefused || p.h2c.Load() {
		t.Errorf("result %+v, still HTTP/2: %v", r, p.h2c.Load())
	}
	// An HTTP/1 server replaces the HTTP/2 server, but no connection is refused
	// meanwhile, so h2c is still set at the next check.
	p = httpAt(checktest.ServeHTTP(t, checktest.Status(200), nil))
	p.h2c.Store(true)
	if r := probeOnce(t, p); r.Cause.Kind != CauseMalformed && r.Cause.Kind != CauseClosed && r.Cause.Kind != CauseReset {
		t.Errorf("over the wrong protocol: %+v", r)
	}
	if r := probeOnce(t, p); r.Cause.Kind != CauseNone {
		t.Errorf("the next probe: %+v", r)
	}
}

func TestAnEndedContextEndsACheck(t *testing.T) {
	got := make(chan struct{})
	port := checktest.ServeRaw(t, func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		close(got)
		checktest.Silent(c)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan Result)
	go func() { done <- httpAt(port).Check(ctx) }()
	<-got
	cancel()
	select {
	case <-done:
	case <-time.After(checktest.FailSafe):
		t.Error("the probe goes on")
	}
}

func TestATCPCheckSucceedsIfTheConnectionIsAccepted(t *testing.T) {
	tcp := func(port int) Checker { return &TCP{Address: addressOf(port)} }
	if r := probeOnce(t, tcp(checktest.RefusingPort(t))); r != (Result{Cause: Cause{Kind: CauseRefused}}) {
		t.Errorf("refused: %+v", r)
	}
	var end atomic.Value
	seen := make(chan struct{})
	port := checktest.ServeRaw(t, func(c *net.TCPConn) {
		_, err := c.Read(make([]byte, 1))
		end.Store(err)
		close(seen)
	})
	if r := probeOnce(t, tcp(port)); r != (Result{Reached: true}) {
		t.Errorf("accepted: %+v", r)
	}
	<-seen
	if end.Load() != io.EOF {
		t.Errorf("the application sees %v, want a clean end", end.Load())
	}
}

func FuzzTheHeadIsOneRequest(f *testing.F) {
	f.Add("/a b?c=d e", "X-A", "1")
	f.Add("//x/y\x7f", "Host", "example.com")
	f.Add("a\r\nb: c", "accept", "")
	f.Fuzz(func(t *testing.T, path, name, value string) {
		if !gate.IsName(name) || !ValidValue(value) {
			return
		}
		p := &HTTP{Address: "127.0.0.1:1", Path: path, Headers: []Header{{name, value}}}
		get := string(p.firstHop(nil, false).head())
		head, body, _ := strings.Cut(get, "\r\n\r\n")
		if body != "" || strings.ContainsAny(strings.ReplaceAll(head, "\r\n", ""), "\r\n\x00") || strings.Count(strings.SplitN(head, "\r\n", 2)[0], " ") != 2 {
			t.Errorf("path %q makes the request %q", path, get)
		}
	})
}
