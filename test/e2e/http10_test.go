package e2e

import (
	"strings"
	"testing"
)

func TestAnHTTP10ClientGetsAResponseAndAClose(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, response := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nwho\r\n2\r\nle\r\n0\r\nX-Trailer: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhole",
		"HTTP/1.0 200 OK\r\n\r\nwhole",
	} {
		c := dial(t, g)
		c.send("GET /old HTTP/1.0\r\nHost: gate.test\r\n\r\n")
		p := k.accept()
		if got := parseHead(t, p.head()).line; got != "GET /old HTTP/1.1" {
			t.Errorf("the container got %q", got)
		}
		p.send(response)
		p.closeWrite()
		a := c.response("GET")
		a.is(200, "whole")
		a.lacks("Transfer-Encoding", "X-Trailer")
		c.closed()
		p.close()
	}
}

func TestAnHTTP10ClientKeepsItsConnectionOnRequest(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, value := range []string{"keep-alive", "Keep-Alive", "x, KEEP-ALIVE"} {
		c := dial(t, g)
		c.send("GET /1 HTTP/1.0\r\nHost: gate.test\r\nConnection: " + value + "\r\n\r\n")
		p := k.accept()
		p.head()
		p.send(okBody)
		a := c.response("GET")
		a.is(200, "ok")
		if !strings.EqualFold(a.get("Connection"), "keep-alive") {
			t.Errorf("Connection: %q, want keep-alive", a.all("Connection"))
		}
		// The next response has no Content-Length, and HTTP/1.0 has no chunked coding.
		// The gate closes the connection, because only this can mark the end of the body.
		c.send("GET /2 HTTP/1.0\r\nHost: gate.test\r\nConnection: " + value + "\r\n\r\n")
		p.head()
		p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n")
		a = c.response("GET")
		a.is(200, "whole")
		a.lacks("Transfer-Encoding")
		if strings.EqualFold(a.get("Connection"), "keep-alive") {
			t.Error("keep-alive was announced for a body delimited by close")
		}
		c.closed()
		p.close()
	}
}

func TestAStreamReachesAnHTTP10ClientImmediately(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("GET / HTTP/1.0\r\nHost: gate.test\r\n\r\n")
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	c.head()
	for _, piece := range []string{"a", "bc", "def"} {
		p.send(string(rune('0'+len(piece))) + "\r\n" + piece + "\r\n")
		c.expect(piece)
	}
	p.send("0\r\n\r\n")
	c.closed()
}

func TestAnHTTP10PostWithALengthIsForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("POST / HTTP/1.0\r\nHost: gate.test\r\nContent-Length: 3\r\n\r\nabc")
	p := k.accept()
	parseHead(t, p.head()).field("Content-Length", "3")
	p.expect("abc")
	p.send(okBody)
	c.response("POST").is(200, "ok")
	c.closed()
}

func TestConnectionCloseOfAClientIsHonoured(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, value := range []string{"close", "Close", "x, close"} {
		c := dial(t, g)
		c.send(request("GET", "/", "Connection: "+value))
		p := k.accept()
		p.head()
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		p.close()
		a := c.response("GET")
		a.is(200, "ok")
		if !strings.EqualFold(a.get("Connection"), "close") {
			t.Errorf("Connection: %q, want close", a.all("Connection"))
		}
		c.closed()
	}
}
