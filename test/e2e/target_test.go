package e2e

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheTargetIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	targets := []string{
		"/", "//", "///a//b///", "//host.test/path", "/.", "/..", "/a/../b", "/a/./b", "/../../etc/passwd", "/a/..",
		"/%2F", "/a%2Fb", "/%2f", "/%41", "/%00", "/%2e%2e/x", "/%25", "/%C3%A9", "/%ff%fe",
		"/;", "/a;b=c;d", "/;jsessionid=1?x", "/?", "/??", "/?a?b", "/a?", "/?a=b&c=d;e", "/?%zz", "/?%", "/?x=/../y",
		"/a:b@c", "/*", "/~u/!$&'()*+,=", "/a+b", "/http://x/y", "/-._~", "/a?b=http://c/d?e",
		"/" + strings.Repeat("x", 60<<10), "/?" + strings.Repeat("q=1&", 15<<10),
	}
	c := dial(t, g)
	c.send(request("GET", "/first"))
	p := k.accept()
	p.head()
	for _, target := range targets {
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		c.response("GET").is(200, "")
		c.send(request("GET", target))
		if got, want := parseHead(t, p.head()).line, "GET "+target+" HTTP/1.1"; got != want {
			t.Errorf("target %s arrived as %s", shorten(target), shorten(got))
		}
	}
}

func TestRawBytesInATargetArriveRawOrPercentEncoded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, raw := range []string{"\"", "<", ">", "^", "{", "}", "|", `\`, "`", "\xc3\xa9", "\xff", "[", "]"} {
		for _, shape := range []string{"/a%sb", "/?q=%s"} {
			c := dial(t, g)
			c.send(request("GET", fmt.Sprintf(shape, raw)))
			p := k.accept()
			got := parseHead(t, p.head()).line
			var encoded strings.Builder
			for i := range len(raw) {
				fmt.Fprintf(&encoded, "%%%02X", raw[i])
			}
			asSent, asEncoded := fmt.Sprintf("GET "+shape+" HTTP/1.1", raw), fmt.Sprintf("GET "+shape+" HTTP/1.1", encoded.String())
			if got != asSent && !strings.EqualFold(got, asEncoded) {
				t.Errorf("%q arrived as %q", fmt.Sprintf(shape, raw), got)
			}
			c.close()
			p.awaitClose()
		}
	}
}

// rejected fails unless the request gets a local reply with this status, its connection
// is closed, and the container receives nothing.
func rejected(t *testing.T, k *container, g *gate, status int, raw string) {
	t.Helper()
	c := dial(t, g)
	c.send(raw)
	reached := 0
	eventually(t, "a response to "+shorten(raw), func() bool {
		n, err := k.Counts()
		must(t, err)
		reached = n.Waiting
		return c.pending() || reached > 0
	})
	if reached > 0 {
		t.Errorf("%s reached the container as %s", shorten(raw), shorten(k.accept().some()))
		return
	}
	a := c.response("GET")
	if a.status != status {
		t.Errorf("%s got %d %q, want %d", shorten(raw), a.status, a.body, status)
		return
	}
	if !overHTTP2 || !a.has("X-Reset") { // over HTTP/2 the gate may reject a malformed request by RST_STREAM
		a.byGate()
	}
	if overHTTP2 {
		c.closeWrite() // the gate has not closed the connection
	}
	if rest, _ := c.readAll(); rest != "" {
		t.Errorf("%s: after the refusal came %s", shorten(raw), shorten(rest))
	}
	n, err := k.Counts()
	must(t, err)
	if n.Waiting > 0 {
		t.Errorf("%s reached the container as %s", shorten(raw), shorten(k.accept().some()))
	}
}

func TestAMalformedTargetGets400AndTheConnectionIsClosed(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, target := range []string{
		"/%", "/%z", "/%zz", "/%2", "/a%g1", "/a%2gb", "/a b", "/a\tb", "/a\x7fb", "/a\x01b", "/a\x00b", "/a\x1fb", "/?a\x01",
		"a", "a/b", "?q", "%2F", "", "example.com", "example.com:80", "ftp://example.com/",
	} {
		rejected(t, k, g, 400, "GET "+target+" HTTP/1.1\r\nHost: gate.test\r\n\r\n")
	}
	dial(t, g).get("/", "K-Network-Probe: queue").is(200, "queue")
}

func TestAbsoluteFormBecomesPathAndHost(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, c := range []struct{ target, line, host string }{
		{"http://example.test/a/b?c=d", "/a/b?c=d", "example.test"},
		{"http://example.test:8080/", "/", "example.test:8080"},
		{"http://example.test", "/", "example.test"},
		{"http://example.test?q", "/?q", "example.test"},
		{"HTTP://Example.TEST//x/../y%2F", "//x/../y%2F", "Example.TEST"},
		{"http://[2001:db8::1]:81/z", "/z", "[2001:db8::1]:81"},
		{"https://secure.test/s", "/s", "secure.test"},
	} {
		cl := dial(t, g)
		cl.send("GET " + c.target + " HTTP/1.1\r\nHost: other.test\r\nX-A: b\r\n\r\n")
		p := k.accept()
		a := parseHead(t, p.head())
		if a.line != "GET "+c.line+" HTTP/1.1" {
			t.Errorf("%s arrived as %q", c.target, a.line)
		}
		if h := a.all("Host"); len(h) != 1 || !strings.EqualFold(h[0], c.host) {
			t.Errorf("%s arrived with Host %q", c.target, h)
		}
		cl.close()
		p.awaitClose()
	}
}

func TestConnectGets405AndGetStarGets400(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	rejected(t, k, g, 405, "CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\n\r\n")
	// Over HTTP/2 the tests send a request with Upgrade as an extended CONNECT. The gate
	// handles that as an upgrade, so the rule for CONNECT does not apply.
	if !overHTTP2 {
		rejected(t, k, g, 405, "CONNECT gate.test:80 HTTP/1.1\r\nHost: gate.test:80\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
	}
	rejected(t, k, g, 400, "GET * HTTP/1.1\r\nHost: gate.test\r\n\r\n")
	rejected(t, k, g, 400, "POST * HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 0\r\n\r\n")
}

func TestMissingDoubledOrMalformedHostGets400(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	cases := []string{
		"Host: a.test\r\nHost: b.test\r\n",
		"Host: a b\r\n",
		"Host: a.test/x\r\n",
		"Host: user@a.test\r\n",
		"Host: a.test:port\r\n",
		"Host: a.test, b.test\r\n",
		"Host: [::1\r\n",
		"Host: a\x01b\r\n",
	}
	// These requests are valid over HTTP/2: :authority may be absent, and a Host field
	// may repeat the value of :authority.
	if !overHTTP2 {
		cases = append(cases, "", "Host: a.test\r\nHost: a.test\r\n", "Host: a.test\r\nhost: a.test\r\n")
	}
	for _, lines := range cases {
		rejected(t, k, g, 400, "GET / HTTP/1.1\r\n"+lines+"\r\n")
	}
	rejected(t, k, g, 400, "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n")
}

func TestHostReachesTheContainer(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	ownAddress := fmt.Sprintf("127.0.0.1:%d", k.port)
	for _, c := range []struct{ raw, host string }{
		{"GET / HTTP/1.1\r\nHost: Gate.Test:8012\r\n\r\n", "Gate.Test:8012"},
		{"GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n", "[2001:db8::1]:80"},
		{"GET / HTTP/1.0\r\n\r\n", ownAddress},
		{"GET / HTTP/1.0\r\nHost: old.test\r\n\r\n", "old.test"},
		{"GET / HTTP/1.1\r\nHost:\r\n\r\n", ownAddress},
		{"GET / HTTP/1.1\r\nHost:  \r\n\r\n", ownAddress},
		{"GET / HTTP/1.1\r\nHost: a.test\r\nK-Original-Host: real.test\r\n\r\n", "real.test"},
		{"GET / HTTP/1.1\r\nHost: a.test\r\nk-original-host: real.test:81\r\nK-Original-Host: second.test\r\n\r\n", "real.test:81"},
		{"GET / HTTP/1.1\r\nHost: a.test\r\nK-Original-Host:\r\n\r\n", "a.test"},
	} {
		if overHTTP2 && strings.Contains(c.raw, "HTTP/1.0") {
			continue
		}
		cl := dial(t, g)
		cl.send(c.raw)
		p := k.accept()
		a := parseHead(t, p.head())
		a.field("Host", c.host)
		if !strings.HasSuffix(c.raw, "K-Original-Host:\r\n\r\n") {
			a.lacks("K-Original-Host")
		}
		cl.close()
		p.awaitClose()
	}
	for _, invalid := range []string{"a b", "a/b", "u@h", "[::1", "a:port"} {
		rejected(t, k, g, 400, request("GET", "/", "K-Original-Host: "+invalid))
	}
}
