package e2e

import (
	"strings"
	"testing"
)

func TestAmbiguousFramingIsRejectedAndNeverForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	const post = "POST / HTTP/1.1\r\nHost: gate.test\r\n"
	for _, c := range []struct {
		status int
		raw    string
	}{
		{400, post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{400, post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
		{400, post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
		{400, post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
		{400, post + "Content-Length: 3, 3\r\n\r\nabc"},
		{400, post + "Content-Length: +3\r\n\r\nabc"},
		{400, post + "Content-Length: -1\r\n\r\nabc"},
		{400, post + "Content-Length: 0x3\r\n\r\nabc"},
		{400, post + "Content-Length: 3 3\r\n\r\nabc"},
		{400, post + "Content-Length: 3.0\r\n\r\nabc"},
		{400, post + "Content-Length:\r\n\r\nabc"},
		{400, post + "Content-Length: 99999999999999999999\r\n\r\nabc"},
		{501, post + "Transfer-Encoding: gzip\r\n\r\nabc"},
		{501, post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{501, post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
		{400, post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
		{400, post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{400, "GET / HTTP/1.1\nHost: gate.test\n\n"},
		{400, "GET / HTTP/1.1\r\nHost: gate.test\nX: y\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: gate.test\r\nX: a\rb\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: gate.test\r\nX: a\r\n b\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\n Host: gate.test\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: gate.test\r\nX : a\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost : gate.test\r\n\r\n"},
		{400, post + "Content-Length : 3\r\n\r\nabc"},
		{400, "GET / HTTP/1.1\r\nHost: gate.test\r\nX: a\x00b\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: gate.test\r\nX\x00Y: a\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: gate.test\r\nno colon\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: gate.test\r\n: no name\r\n\r\n"},
		{400, "GET  / HTTP/1.1\r\nHost: gate.test\r\n\r\n"},
		{400, "GET /\r\nHost: gate.test\r\n\r\n"},
		{400, "G(T / HTTP/1.1\r\nHost: gate.test\r\n\r\n"},
	} {
		if overHTTP2 && ofHTTP1(c.raw) {
			continue
		}
		if overHTTP2 && c.status == 501 {
			c.status = 400 // the field itself is malformed
		}
		rejected(t, k, g, c.status, c.raw)
	}
	dial(t, g).get("/", "K-Network-Probe: queue").is(200, "queue")
}

func TestTransferEncodingIsChunkedInAnyCase(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, coding := range []string{"chunked", "Chunked", "CHUNKED"} {
		c := dial(t, g)
		c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: " + coding + "\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
		p := k.accept()
		a := parseHead(t, p.head())
		if te := a.all("Transfer-Encoding"); len(te) != 1 || !strings.EqualFold(te[0], "chunked") {
			t.Errorf("the container got Transfer-Encoding %q", te)
		}
		a.lacks("Content-Length")
		if body, _ := p.chunked(); body != "abc" {
			t.Errorf("the container got body %q", body)
		}
		c.close()
		p.awaitClose()
	}
}

func TestContentLengthIsForwardedAsIs(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, length := range []string{"3", "0"} {
		c := dial(t, g)
		c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: " + length + "\r\n\r\n" + strings.Repeat("a", int(length[0]-'0')))
		p := k.accept()
		a := parseHead(t, p.head())
		a.field("Content-Length", length)
		a.lacks("Transfer-Encoding")
		p.expect(strings.Repeat("a", int(length[0]-'0')))
		c.close()
		p.awaitClose()
	}
	c := dial(t, g)
	c.send(request("POST", "/"))
	p := k.accept()
	parseHead(t, p.head()).lacks("Content-Length", "Transfer-Encoding")
}

func TestAMalformedChunkOfTheClientCutsBothConnections(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, invalid := range []string{"zz\r\n", "-1\r\nx", "3\r\nabcXX", "3 \x00\r\nabc\r\n", "fffffffffffffffff\r\n", "3\nabc\r\n", "\r\n", "0\r\nBad Trailer: x\r\n\r\n"} {
		c := dial(t, g)
		c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n")
		p := k.accept()
		p.head()
		if got := p.chunk(); got != "good" {
			t.Fatalf("the container got chunk %q", got)
		}
		c.send(invalid)
		after, _ := p.readAll()
		if strings.HasSuffix(after, "0\r\n\r\n") {
			t.Errorf("%q: the container got a complete body: %q", invalid, after)
		}
		// A local reply may precede the close.
		if rest, _ := c.readAll(); rest != "" && !strings.HasPrefix(rest, "HTTP/1.1 400 ") {
			t.Errorf("%q: the client got %q", invalid, rest)
		}
	}
}

func TestAMalformedChunkOfTheContainerCutsBothConnections(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, invalid := range []string{"zz\r\n", "-1\r\nx", "3\r\nabcXX", "fffffffffffffffff\r\n", "3\nabc\r\n", "\r\n"} {
		c := dial(t, g)
		c.send(request("GET", "/"))
		p := k.accept()
		p.head()
		p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n")
		c.head()
		if got := c.chunk(); got != "good" {
			t.Fatalf("the client got chunk %q", got)
		}
		p.send(invalid)
		if rest, _ := c.readAll(); strings.HasSuffix(rest, "0\r\n\r\n") {
			t.Errorf("%q: the client got a complete body: %q", invalid, rest)
		}
		p.awaitClose()
	}
}

func TestHTTP1VersionsAreServedAndOtherVersionsGet505(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, version := range []string{"HTTP/1.0", "HTTP/1.1", "HTTP/1.2", "HTTP/1.9"} {
		c := dial(t, g)
		c.send("GET /v " + version + "\r\nHost: gate.test\r\n\r\n")
		p := k.accept()
		if got := parseHead(t, p.head()).line; got != "GET /v HTTP/1.1" {
			t.Errorf("%s went out as %q", version, got)
		}
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		p.close()
		c.response("GET").is(200, "ok")
		c.close()
	}
	for _, version := range []string{"HTTP/2.0", "HTTP/3.0", "HTTP/0.9", "HTTP/9.9"} {
		rejected(t, k, g, 505, "GET / "+version+"\r\nHost: gate.test\r\n\r\n")
	}
	for _, version := range []string{"HTTP/1", "HTTP/1.1.1", "HTTP/11", "http/1.1", "HTTPS/1.1", "HTTP/1.1x", "HTTP/ 1.1"} {
		rejected(t, k, g, 400, "GET / "+version+"\r\nHost: gate.test\r\n\r\n")
	}
}
