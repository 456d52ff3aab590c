package e2e

import (
	"strings"
	"testing"
)

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// upgraded opens a tunnel. The last two parameters are the first bytes that the client
// and the container send through it. The client sends its bytes in the same write as its
// request head. The container sends its bytes in the same write as its response head.
func upgraded(t *testing.T, k *container, g *gate, early, glued string) (*client, *peer) {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", "/ws", "Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x") + early)
	p := k.accept()
	a := parseHead(t, p.head())
	a.field("Upgrade", "websocket")
	if !strings.Contains(strings.ToLower(strings.Join(a.all("Connection"), ",")), "upgrade") {
		t.Fatalf("the container got Connection %q", a.all("Connection"))
	}
	a.field("Sec-WebSocket-Key", "x")
	p.send(switching + glued)
	b := parseHead(t, c.head())
	if b.line != "HTTP/1.1 101 Switching Protocols" {
		t.Fatalf("the client got %q", b.line)
	}
	b.field("Upgrade", "websocket")
	if !strings.EqualFold(b.get("Connection"), "upgrade") {
		t.Fatalf("the client got Connection %q", b.all("Connection"))
	}
	b.lacks("Content-Length", "Transfer-Encoding", "K-Gate-Outcome")
	return c, p
}

func TestAnUpgradeBecomesATunnel(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c, p := upgraded(t, k, g, "", "")
	for range 3 {
		c.send("\x00GET / HTTP/1.1\r\n\r\n\xff")
		p.expect("\x00GET / HTTP/1.1\r\n\r\n\xff")
		p.send("HTTP/1.1 500 no\r\n\r\n\x00")
		c.expect("HTTP/1.1 500 no\r\n\r\n\x00")
	}
	c.close()
	p.awaitClose()
}

func TestBytesSentInOneSegmentWithTheHeadOfAnUpgradeAreForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c, p := upgraded(t, k, g, "early from the client", "glued from the container")
	p.expect("early from the client")
	c.expect("glued from the container")
	c.send("more")
	p.expect("more")
}

func TestATunnelForwardsHalfClosesInBothDirections(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, settings := range []string{"client first", "container first"} {
		c, p := upgraded(t, k, g, "", "")
		if settings == "client first" {
			c.send("last words")
			c.closeWrite()
			if got, err := p.readAll(); got != "last words" || err != nil {
				t.Fatalf("the container got %q, %v", got, err)
			}
			p.send("still here")
			p.close()
			if got, err := c.readAll(); got != "still here" || err != nil {
				t.Fatalf("the client got %q, %v", got, err)
			}
			continue
		}
		p.send("last words")
		p.closeWrite()
		if got, err := c.readAll(); got != "last words" || err != nil {
			t.Fatalf("the client got %q, %v", got, err)
		}
		c.send("still here")
		c.close()
		if got, err := p.readAll(); got != "still here" || err != nil {
			t.Fatalf("the container got %q, %v", got, err)
		}
	}
}

func TestAResetOfOneEndOfATunnelEndsTheOther(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c, p := upgraded(t, k, g, "", "")
	c.abort()
	p.awaitClose()
	c, p = upgraded(t, k, g, "", "")
	p.abort()
	c.closed()
}

func TestAnUpgradeToH2cIsNotForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, value := range []string{"h2c", "H2C"} {
		// Over HTTP/2 this request is an extended CONNECT, which has no meaning without
		// its upgrade. So the gate rejects it, and does not forward it as a GET.
		if overHTTP2 {
			rejected(t, k, g, 405, request("GET", "/", "Connection: Upgrade", "Upgrade: "+value))
			continue
		}
		c := dial(t, g)
		c.send(request("GET", "/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: "+value, "HTTP2-Settings: AAMAAABkAAQAAP__"))
		p := k.accept()
		parseHead(t, p.head()).lacks("Upgrade", "Connection", "HTTP2-Settings")
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		c.response("GET").is(200, "ok")
	}
}

func TestAnUpgradeToAProtocolThatWasNotOfferedGives502(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, x := range []struct {
		requested, accepted string
		status              int
	}{
		{"websocket", "Upgrade: chat", 502},
		{"websocket", "Upgrade: websocket, chat", 502},
		{"websocket", "Upgrade: websocket\r\nUpgrade: chat", 502},
		{"websocket", "Upgrade:", 502},
		{"websocket", "X-Upgrade: websocket", 502},
		{"websocket, h2c", "Upgrade: h2c", 502},
		{"websocket", "Upgrade: WebSocket", 101},
		{"chat/2, websocket", "Upgrade: chat/2", 101},
	} {
		// Over HTTP/2 the client can only ask for one protocol, which is a token without
		// a slash. So this case cannot be sent.
		if overHTTP2 && strings.ContainsAny(x.requested, ", /") {
			continue
		}
		c := dial(t, g)
		c.send(request("GET", "/ws", "Connection: Upgrade", "Upgrade: "+x.requested))
		p := k.accept()
		p.head()
		p.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + x.accepted + "\r\n\r\nx")
		if a := parseHead(t, c.head()); a.status != x.status {
			t.Errorf("requested %q, response %q: %d, want %d", x.requested, x.accepted, a.status, x.status)
		}
		c.close()
		p.awaitClose()
	}
}

func TestADeclinedUpgradeIsAnOrdinaryResponse(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket"))
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
	c.response("GET").is(403, "no")
	c.send(request("GET", "/next"))
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}
