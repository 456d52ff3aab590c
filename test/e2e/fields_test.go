package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// seenBy sends a GET with these fields, and returns the head that the container receives.
func seenBy(t *testing.T, k *container, g *gate, fields ...string) response {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", "/", fields...))
	p := k.accept()
	head := p.head()
	c.close()
	p.awaitClose()
	return parseHead(t, head)
}

func TestOnlyXForwardedForIsAddedToARequest(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	a := seenBy(t, k, g)
	if a.line != "GET / HTTP/1.1" || len(a.fields) != 2 {
		t.Errorf("a bare request arrived as %q", a.head)
	}
	a.field("Host", "gate.test")
	a.field("X-Forwarded-For", "127.0.0.1")
}

func TestPeerAddressIsAppendedToXForwardedFor(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, "127.0.0.1"},
		{[]string{"X-Forwarded-For: 192.0.2.1"}, "192.0.2.1, 127.0.0.1"},
		{[]string{"x-forwarded-for: 192.0.2.1, 198.51.100.2"}, "192.0.2.1, 198.51.100.2, 127.0.0.1"},
		{[]string{"X-Forwarded-For: 192.0.2.1", "X-A: b", "X-FORWARDED-FOR: 2001:db8::1"}, "192.0.2.1, 2001:db8::1, 127.0.0.1"},
		{[]string{"X-Forwarded-For: unknown"}, "unknown, 127.0.0.1"},
	} {
		seenBy(t, k, g, c.lines...).field("X-Forwarded-For", c.want)
	}
}

func TestOnlyAMissingDateIsAddedToAResponse(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/"))
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	a := c.response("GET")
	a.is(200, "ok")
	if len(a.fields) != 2 || !a.has("Content-Length") {
		t.Errorf("a bare response arrived as %q", a.head)
	}
	date, err := http.ParseTime(a.get("Date"))
	if err != nil || time.Since(date).Abs() > time.Minute {
		t.Errorf("Date: %q, %v", a.get("Date"), err)
	}

	c.send(request("GET", "/"))
	p.head()
	response := "HTTP/1.1 200 Fine\r\ndate: Tue, 15 Nov 1994 08:12:31 GMT\r\nx-b: 1\r\nContent-Length: 2\r\nX-A: \r\nx-b: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\n"
	p.send(response + "ok")
	if a = c.response("GET"); a.head != asSent(response) {
		t.Errorf("response arrived as %q, want %q", a.head, response)
	}
}

func TestForwardedIsGeneratedFromTheXForwardedFields(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"X-Forwarded-For: 192.0.2.1"}, "for=192.0.2.1"},
		{[]string{"X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: example.test"}, "for=192.0.2.1;host=example.test;proto=https"},
		{[]string{"X-Forwarded-For: 192.0.2.1, 198.51.100.2", "X-Forwarded-Proto: http", "X-Forwarded-Host: h"}, "for=192.0.2.1;host=h;proto=http, for=198.51.100.2"},
		{[]string{"X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 198.51.100.2, 203.0.113.3"}, "for=192.0.2.1, for=198.51.100.2, for=203.0.113.3"},
		{[]string{"X-Forwarded-Proto: https"}, "proto=https"},
		{[]string{"X-Forwarded-Host: h.test"}, "host=h.test"},
		{[]string{"X-Forwarded-Host: h.test:8080"}, `host="h.test:8080"`},
		{[]string{"X-Forwarded-For: 2001:db8::1"}, `for="[2001:db8::1]"`},
		{[]string{"X-Forwarded-For: [2001:db8::1]:443"}, `for="[2001:db8::1]:443"`},
		{[]string{"X-Forwarded-For: [2001:db8::1]"}, `for="[2001:db8::1]"`},
		{[]string{"X-Forwarded-For: 192.0.2.1:80"}, `for="192.0.2.1:80"`},
		{[]string{"X-Forwarded-For: unknown, _hidden"}, "for=unknown, for=_hidden"},
		{[]string{"X-Forwarded-For: a b"}, `for="a b"`},
		{[]string{"Forwarded:", "X-Forwarded-For: 192.0.2.1"}, "for=192.0.2.1"},
	} {
		seen := seenBy(t, k, g, c.lines...)
		if v := seen.all("Forwarded"); len(v) != 1 || v[0] != c.want {
			t.Errorf("%q made Forwarded %q, want %q", c.lines, v, c.want)
		}
	}
}

func TestForwardedIsUnchangedIfPresentAndNotGeneratedWithoutXForwardedFields(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	seenBy(t, k, g, "X-A: b").lacks("Forwarded")
	a := seenBy(t, k, g, "Forwarded: for=198.51.100.9;by=x", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https")
	a.field("Forwarded", "for=198.51.100.9;by=x")
	a.field("X-Forwarded-Proto", "https")
}

func TestHopByHopFieldsOfARequestAreRemoved(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	if overHTTP2 {
		for _, line := range []string{
			"Connection: X-Mine", "Connection: x-mine, close", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive",
			"TE: gzip", "te: gzip;q=0.5, trailers", "Transfer-Encoding: gzip",
		} {
			rejected(t, k, g, 400, request("GET", "/", line))
		}
	}
	for _, c := range []struct{ lines, removed, forwarded []string }{
		{[]string{"Knative-Serving-Namespace: n", "knative-serving-revision: r"}, []string{"Knative-Serving-Namespace", "Knative-Serving-Revision"}, nil},
		{[]string{"Connection: keep-alive"}, []string{"Connection"}, nil},
		{[]string{"Connection: close"}, []string{"Connection"}, nil},
		{[]string{"Keep-Alive: timeout=5"}, []string{"Keep-Alive"}, nil},
		{[]string{"Proxy-Connection: keep-alive"}, []string{"Proxy-Connection"}, nil},
		{[]string{"Proxy-Authenticate: Basic"}, []string{"Proxy-Authenticate"}, nil},
		{[]string{"Proxy-Authorization: Basic eA=="}, []string{"Proxy-Authorization"}, nil},
		{[]string{"TE: gzip"}, []string{"TE"}, nil},
		{[]string{"TE: trailers"}, nil, []string{"TE: trailers"}},
		{[]string{"te: gzip;q=0.5, trailers"}, nil, []string{"TE: trailers"}},
		{[]string{"Upgrade: websocket"}, []string{"Upgrade"}, nil},
		{[]string{"Connection: X-Mine, x-other", "X-Mine: 1", "X-Other: 2", "X-Mine: 3", "X-Third: 4"}, []string{"X-Mine", "X-Other", "Connection"}, []string{"X-Third: 4"}},
		{[]string{"Connection: x-mine", "connection: X-Other", "X-Mine: 1", "X-Other: 2"}, []string{"X-Mine", "X-Other", "Connection"}, nil},
		{
			[]string{
				"Connection: X-Forwarded-Proto, X-Forwarded-Host, Forwarded, Host, K-Proxy-Request, Content-Type, Content-Encoding, X-Forwarded-For",
				"X-Forwarded-Proto: https", "X-Forwarded-Host: h", "X-Forwarded-For: 192.0.2.1", "Forwarded: for=x",
				"K-Proxy-Request: activator", "Content-Type: a/b", "Content-Encoding: c",
			},
			[]string{"Connection"},
			[]string{
				"Host: gate.test", "X-Forwarded-Proto: https", "X-Forwarded-Host: h", "X-Forwarded-For: 192.0.2.1, 127.0.0.1", "Forwarded: for=x",
				"K-Proxy-Request: activator", "Content-Type: a/b", "Content-Encoding: c",
			},
		},
	} {
		if overHTTP2 && slices.ContainsFunc(c.lines, ofConnection) {
			continue
		}
		seen := seenBy(t, k, g, c.lines...)
		for _, name := range c.removed {
			if seen.has(name) {
				t.Errorf("%q: the container got %s: %q", c.lines, name, seen.all(name))
			}
		}
		for _, line := range c.forwarded {
			name, value, _ := strings.Cut(line, ": ")
			if v := seen.all(name); len(v) != 1 || v[0] != value {
				t.Errorf("%q: the container got %s: %q, want %q", c.lines, name, v, value)
			}
		}
	}
}

func TestContentLengthIsForwardedEvenIfTheConnectionFieldNamesIt(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nConnection: Content-Length\r\nContent-Length: 3\r\n\r\nabc")
	p := k.accept()
	parseHead(t, p.head()).field("Content-Length", "3")
	p.expect("abc")
}

func TestHopByHopFieldsOfAResponseAreRemoved(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/"))
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\nConnection: X-Private, keep-alive\r\nX-Private: 1\r\nKeep-Alive: timeout=5\r\n" +
		"Proxy-Connection: keep-alive\r\nProxy-Authenticate: Basic\r\nX-Public: 2\r\nContent-Length: 2\r\n\r\nok")
	a := c.response("GET")
	a.is(200, "ok")
	a.lacks("X-Private", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate")
	a.field("X-Public", "2")
}

func TestOrderCaseAndRepetitionOfEndToEndFieldsAreUnchanged(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	lines := []string{
		"x-lower: 1", "X-UPPER: 2", "x-Lower: 3", "Cookie: a=1", "Accept: */*", "Cookie: b=2; c=3", "X-Empty:", "X-Empty: ",
		"K-Network-Probe: passed-on", "K-Network-Hash: h", "K-Proxy-Request: activator", "Knative-Serving-Tag: t",
		"Knative-Serving-Default-Route: true", "K-Passthrough-Lb: true",
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "b3: 0", "X-B3-TraceId: 1",
		"X-Quoted: \"a, b\"; c=\"\\\"\"", "X-Obs: caf\xc3\xa9", "X_Under.score!#$%&'*+-^`|~: odd name", "User-Agent: test/1  (x)",
		"Authorization: Bearer x", "X-Tab: a\tb", "Via: 1.1 other", "Accept-Encoding: gzip, br", "Range: bytes=0-1", "X-lower: 4",
	}
	seen := seenBy(t, k, g, lines...)
	if overHTTP2 { // HTTP/2 has lower-case names, and cookies are joined
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == "Cookie: b=2; c=3" })
		lines[slices.Index(lines, "Cookie: a=1")] = "Cookie: a=1; b=2; c=3"
		for i := range lines {
			lines[i] = strings.TrimSuffix(asSent(lines[i]+"\r\n"), "\r\n")
		}
	}
	var got []string
	for _, f := range seen.fields {
		if f[0] != "X-Forwarded-For" {
			got = append(got, f[0]+": "+f[1])
		}
	}
	want := []string{strings.TrimSuffix(asSent("Host: gate.test\r\n"), "\r\n")}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		want = append(want, name+": "+strings.TrimSpace(value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the container got fields\n%q, want\n%q", got, want)
	}
	// All other lines are forwarded unchanged.
	for _, l := range lines {
		if !strings.HasSuffix(l, ":") && !strings.HasSuffix(l, " ") && !strings.Contains(seen.head, "\r\n"+l+"\r\n") {
			t.Errorf("line %q is not in the head %q", l, seen.head)
		}
	}
}

func TestGateFieldsOfTheClientAreRemoved(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nK-Gate-Outcome: served\r\nk-gate-else: x\r\nX-K-Gate-Outcome: kept\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n0\r\nK-Gate-Outcome: late\r\nX-Sum: 1\r\n\r\n")
	p := k.accept()
	seen := parseHead(t, p.head())
	seen.lacks("K-Gate-Outcome", "K-Gate-Else")
	seen.field("X-K-Gate-Outcome", "kept")
	if _, trailers := p.chunked(); trailers != asSent("X-Sum: 1\r\n") {
		t.Errorf("the container got trailers %q", trailers)
	}
	p.send(okBody)
	c.response("POST").is(200, "ok")
}

func TestGateFieldsOfTheContainerAreRemoved(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/", "K-Gate-Mine: 1"))
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\nK-Gate-Outcome: forged\r\nk-gate-else: x\r\nX-K-Gate-Outcome: kept\r\nContent-Length: 2\r\n\r\nok")
	a := c.response("GET")
	a.is(200, "ok")
	a.lacks("K-Gate-Outcome", "K-Gate-Else")
	a.field("X-K-Gate-Outcome", "kept")
}

func TestHeadsUpToTheLimitsAreForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	big := "X-Big: " + strings.Repeat("v", headLimit-1<<10)
	if seen := seenBy(t, k, g, big, "X-After: 1"); !strings.Contains(seen.head, asSent("\r\n"+big+"\r\nX-After: 1\r\n")) {
		t.Errorf("a head of nearly the limit arrived as %s", shorten(seen.head))
	}
	many := slices.Repeat([]string{"X-Many: 1"}, fieldLimit-1) // Host is a field too
	if seen := seenBy(t, k, g, many...); len(seen.all("X-Many")) != len(many) {
		t.Errorf("of %d fields arrived %d", len(many), len(seen.all("X-Many")))
	}
	long := "/" + strings.Repeat("t", headLimit-1<<10)
	c := dial(t, g)
	c.send(request("GET", long))
	p := k.accept()
	if seen := parseHead(t, p.head()); seen.line != "GET "+long+" HTTP/1.1" {
		t.Errorf("a target of nearly the limit arrived as %s", shorten(seen.line))
	}
	big = "X-Big: " + strings.Repeat("v", 1<<20-1<<10)
	p.send("HTTP/1.1 200 OK\r\n" + big + "\r\nContent-Length: 2\r\n\r\nok")
	a := c.response("GET")
	a.is(200, "ok")
	if !strings.Contains(a.head, asSent("\r\n"+big+"\r\n")) {
		t.Errorf("a response with a head of nearly 1 MiB arrived as %s", shorten(a.head))
	}
}

func TestAHeadThatExceedsTheRestOfHeadMemoryGets503(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "HEAD_MEMORY=64Ki")
	big := "X-Big: " + strings.Repeat("v", 40<<10)
	first := dial(t, g)
	first.send(request("GET", "/", big))
	busy := k.accept()
	// The gate keeps this head of 40 KiB in memory until the response ends. Meanwhile the
	// rest of HEAD_MEMORY is too small for the next head.
	busy.head()
	c := dial(t, g)
	c.send(request("GET", "/", "X-Big: "+strings.Repeat("v", 20<<10)))
	a := c.response("GET")
	a.plainError(503, "out of buffer memory\n")
	a.field("Retry-After", "1")
	a.field("K-Gate-Outcome", "out-of-memory-budget")
	c.closed()
	serve := func() {
		p := k.accept()
		p.head()
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		p.close()
	}
	small := dial(t, g)
	small.send(request("GET", "/", "X-Small: "+strings.Repeat("v", 6<<10)))
	serve()
	small.response("GET").is(200, "ok")
	busy.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	busy.close()
	first.response("GET").is(200, "ok")
	first.send(request("GET", "/", big))
	serve()
	first.response("GET").is(200, "ok")
}

func TestMoreThan64OptionsInConnectionGet400(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	options := "X-A" + strings.Repeat(", x", 63)
	seenBy(t, k, g, "Connection: "+options, "X-A: 1").lacks("X-A")
	for _, lines := range [][]string{
		{"Connection: " + options + ", x"},
		{"Connection: " + options, "Connection: close"},
		{"Connection: " + strings.Repeat(",", 64)},
		{"Connection: " + strings.Repeat("a,", 500_000)},
	} {
		c := dial(t, g)
		c.send(request("GET", "/", lines...))
		c.response("GET").plainError(400, "bad request\n")
		c.closed()
	}
	k.unseen("a request with too many options")
}

func TestHeadsBeyondTheLimitsGet431Or414(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	rejected(t, k, g, 431, request("GET", "/", "X-Big: "+strings.Repeat("v", headLimit)))
	rejected(t, k, g, 431, request("GET", "/", slices.Repeat([]string{"X-Many: 1"}, fieldLimit+1)...))
	rejected(t, k, g, 414, request("GET", "/"+strings.Repeat("t", headLimit)))
}
