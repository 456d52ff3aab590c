package e2e

import (
	"strings"
	"testing"
)

// speaksHTTP1 lets the gate detect that the container speaks HTTP/1. Otherwise a close
// without a byte may mean to the gate that the container speaks only HTTP/2.
func speaksHTTP1(c *client, k *container) {
	c.t.Helper()
	c.send(request("GET", "/first"))
	p := k.accept()
	p.head()
	p.send(okClose)
	p.close()
	c.response("GET").is(200, "ok")
}

func TestAContainerThatClosesBeforeTheResponseGives502(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	speaksHTTP1(c, k)
	for _, partial := range []string{"", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nContent-Le"} {
		c.send(request("GET", "/"))
		p := k.accept()
		p.head()
		if partial != "" {
			p.send(partial)
		}
		p.close()
		c.response("GET").plainError(502, "upstream closed the connection\n")
	}
	k.unseen("a second attempt on a fresh connection")
}

func TestAContainerThatResetsBeforeTheResponseGives502(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	speaksHTTP1(c, k)
	for _, req := range []string{request("GET", "/"), "POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 3\r\n\r\nabc"} {
		c.send(req)
		p := k.accept()
		p.head()
		p.abort()
		c.response("GET").localError(502)
	}
	k.unseen("a second attempt on a fresh connection")
}

func TestAMalformedResponseGives502(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, invalid := range []string{
		"garbage\r\n\r\n",
		"HTTP/2 200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 abc OK\r\n\r\n",
		"HTTP/1.1 000 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: y\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\nX: y\r\nContent-Length: 2\n\nok",
		"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		c := dial(t, g)
		c.send(request("GET", "/"))
		p := k.accept()
		p.head()
		p.send(invalid)
		if a := c.response("GET"); a.status != 502 {
			t.Errorf("%q gave %d %q", invalid, a.status, a.body)
		} else {
			a.localError(502)
		}
		p.awaitClose()
		c.close()
	}
}

func TestInvalidButUnambiguousResponsesAreRepaired(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	const clean = "HTTP/1.1 200 OK\r\nX: a b\r\n"
	for _, sent := range []string{
		"HTTP/1.1 200 OK\nX: a b\nContent-Length: 2\n\nok",
		"HTTP/1.1 200 OK\r\nX : a b\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX\t: a b\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: a \r\n\t b\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: a b\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: a b\r\nContent-Length: 2, 2\r\n\r\nok",
		"HTTP/1.1 200 OK\nX : a\n b\nContent-Length: 2\nContent-Length: 2\n\nok",
	} {
		c := dial(t, g)
		p := (*peer)(nil)
		for range 2 { // the whole request was read, so the connection stays open
			c.send(request("GET", "/"))
			if p == nil {
				p = k.accept()
			}
			p.head()
			p.send(sent[:len(sent)/2])
			p.send(sent[len(sent)/2:])
			a := c.response("GET")
			a.is(200, "ok")
			a.field("Content-Length", "2")
			if !strings.HasPrefix(a.head, asSent(clean)) {
				t.Errorf("%q arrived as %q", sent, a.head)
			}
		}
		c.close()
		p.close()
	}
}

func TestATruncatedResponseIsTruncatedForTheClient(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, x := range []struct{ head, part string }{
		{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "half"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nhalf\r\n"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "8\r\nhalf"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nhalf\r\n0\r\nX-Tr"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nhalf\r\n0\r\n"},
	} {
		for _, closeKind := range []string{"close", "reset"} {
			c := dial(t, g)
			c.send(request("GET", "/"))
			p := k.accept()
			p.head()
			p.send(x.head)
			c.head()
			p.send(x.part)
			if closeKind == "close" {
				p.close()
			} else {
				p.abort()
			}
			rest, _ := c.readAll()
			if strings.HasSuffix(rest, "0\r\n\r\n") || len(rest) > len(x.part)+8 {
				t.Errorf("%s after %q: the client got %q", closeKind, x.head+x.part, rest)
			}
		}
	}
	dial(t, g).get("/", "K-Network-Probe: queue").is(200, "queue")
}

func TestAResetDuringABodyDelimitedByCloseIsVisibleToTheClient(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/"))
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\n\r\n")
	a := parseHead(t, c.head())
	p.send("half")
	if a.has("Transfer-Encoding") {
		if got := c.chunk(); got != "half" {
			t.Fatalf("the client got %q", got)
		}
	} else {
		c.expect("half")
	}
	p.abort()
	rest, err := c.readAll()
	if rest != "" || err == nil && !a.has("Transfer-Encoding") {
		t.Errorf("the client got %q and an orderly end: it cannot tell that the body was cut", rest)
	}
}

func TestABrokenExchangeDoesNotAffectTheNextOne(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	healthy, faulty := dial(t, g), dial(t, g)
	healthy.send(request("GET", "/good"))
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
	faulty.send(request("GET", "/bad"))
	q := k.accept()
	q.head()
	q.abort()
	faulty.response("GET").localError(502)
	p.send("67890")
	healthy.response("GET").is(200, "1234567890")
	healthy.send(request("GET", "/again"))
	p.head()
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	p.close()
	healthy.response("GET").is(200, "ok")
	faulty.send(request("GET", "/again"))
	q = k.accept()
	q.head()
	q.send(okBody)
	faulty.response("GET").is(200, "ok")
}
