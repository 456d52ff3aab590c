package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/e2e/remote"
)

const (
	okEmpty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	okBody  = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

func TestChunksAreForwardedInBothDirectionsConcurrently(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("POST /echo HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n\r\n")
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	c.head()
	for i := range 20 {
		piece := fmt.Sprintf("piece %d", i)
		c.send(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
		if got := p.chunk(); got != piece {
			t.Fatalf("the container got %q, want %q", got, piece)
		}
		p.send(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
		if got := c.chunk(); got != piece {
			t.Fatalf("the client got %q, want %q", got, piece)
		}
	}
	c.send("0\r\n\r\n")
	if body, _ := p.chunked(); body != "" {
		t.Fatalf("the container got %q after the end", body)
	}
	p.send("0\r\n\r\n")
	if body, _ := c.chunked(); body != "" {
		t.Fatalf("the client got %q after the end", body)
	}
	c = dial(t, g) // the gate closes the old one: its response began during the upload
	c.send(request("GET", "/next"))
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}

func TestEachByteOfASlowBodyIsForwardedImmediately(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("POST /echo HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 20\r\n\r\n")
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
	c.head()
	for i := range 20 {
		b := string(rune('a' + i))
		c.send(b)
		p.expect(b)
		p.send(b)
		c.expect(b)
	}
	c = dial(t, g)
	c.send(request("GET", "/next"))
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}

func TestAnEventIsForwardedImmediately(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, framing := range []string{"Transfer-Encoding: chunked\r\n", "Connection: close\r\n"} {
		c := dial(t, g)
		c.send(request("GET", "/events"))
		p := k.accept()
		p.head()
		p.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + framing + "\r\n")
		a := parseHead(t, c.head())
		for i := range 10 {
			event := fmt.Sprintf("data: %d\n\n", i)
			if strings.Contains(framing, "chunked") {
				p.send(fmt.Sprintf("%x\r\n%s\r\n", len(event), event))
			} else {
				p.send(event)
			}
			if a.has("Transfer-Encoding") {
				if got := c.chunk(); got != event {
					t.Fatalf("the client got %q, want %q", got, event)
				}
			} else {
				c.expect(event)
			}
		}
		c.close()
		p.awaitClose()
	}
}

func TestARequestBodyIsForwardedBeforeTheResponseBegins(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 6\r\n\r\nabc")
	p := k.accept()
	p.head()
	p.expect("abc")
	c.send("def")
	p.expect("def")
	p.send(okBody)
	c.response("POST").is(200, "ok")
}

func TestAnEarlyResponseIsForwardedDuringTheUpload(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	const size = 1 << 20
	c := dial(t, g)
	c.send(fmt.Sprintf("POST /early HTTP/1.1\r\nHost: gate.test\r\nContent-Length: %d\r\n\r\n0123456789", size))
	p := k.accept()
	p.head()
	p.expect("0123456789")
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
	a := c.response("POST")
	a.is(200, "early")
	// The response came before the end of the upload. The gate does not know whether the
	// container will read the rest, so it announces that it will close the client's
	// connection.
	a.field("Connection", "close")
	c.send(strings.Repeat("x", size-10))
	if got := p.exactly(size - 10); got != strings.Repeat("x", size-10) {
		t.Fatal("the rest of the upload was changed")
	}
	c.closed()
	c = dial(t, g)
	c.send(request("GET", "/next"))
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}

func TestAnEarlyResponseAnnouncesTheCloseOfItsConnection(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, x := range []struct{ framing, part, rest string }{
		{"Content-Length: 10", "01234", "56789"},
		{"Transfer-Encoding: chunked", "5\r\n01234\r\n", "0\r\n\r\n"},
	} {
		for _, leaves := range []bool{false, true} {
			c := dial(t, g)
			c.send("POST /early HTTP/1.1\r\nHost: gate.test\r\n" + x.framing + "\r\n\r\n" + x.part)
			p := k.accept()
			p.head()
			p.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
			if leaves {
				p.close()
			}
			a := c.response("POST")
			a.is(401, "no")
			a.field("Connection", "close")
			c.send(x.rest)
			c.closeWrite()
			c.closed()
			if !leaves {
				p.close()
			}
		}
	}
}

func TestAContainersCloseAfterACompleteRequestKeepsTheClientConnection(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	// The body is in one segment with the head, so the gate reads both before the
	// response.
	c.send("POST /whole HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 5\r\n\r\nhello")
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
	p.close()
	a := c.response("POST")
	a.is(413, "no")
	a.lacks("Connection")
	c.send(request("GET", "/next"))
	p = k.accept()
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}

func TestAnEarlyResponseOfAContainerThatClosesIsForwardedCompletely(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	body := strings.Repeat("no ", 10_000)
	for range 5 {
		c := dial(t, g)
		c.send("POST /early HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 8388608\r\n\r\n0123456789")
		p := k.accept()
		p.head()
		p.expect("0123456789")
		p.send(fmt.Sprintf("HTTP/1.1 413 Too Much\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body))
		p.close()
		// Send more than the socket buffers hold, without reading.
		for range 64 {
			if _, err := c.net.Write([]byte(strings.Repeat("x", 64<<10))); err != nil {
				t.Fatalf("the gate closed the connection while the client sent: %v", err)
			}
		}
		c.response("POST").is(413, body)
		c.closeWrite()
		c.closed()
	}
}

func TestAResponseStreamsWhileTheContainerIgnoresTheUpload(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("POST /early HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
	c.head()
	if got := c.chunk(); got != "hi" {
		t.Fatalf("the client got chunk %q", got)
	}
	p.send("0\r\n\r\n")
	if body, _ := c.chunked(); body != "" {
		t.Fatalf("the client got %q", body)
	}
	c.send("3\r\ndef\r\n0\r\n\r\n")
	if body, _ := p.chunked(); body != "abcdef" {
		t.Fatalf("the container got %q", body)
	}
	c = dial(t, g)
	c.send(request("GET", "/next"))
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}

// stalled waits until a byte count stays constant, and returns it.
func stalled(t *testing.T, count func() int64) int64 {
	t.Helper()
	const quiet = 400 * time.Millisecond
	last, changed := count(), time.Now()
	eventually(t, "the sender stalls", func() bool {
		if n := count(); n != last {
			last, changed = n, time.Now()
		}
		return time.Since(changed) > quiet
	})
	return last
}

func TestAClientThatDoesNotReadBlocksTheContainer(t *testing.T) {
	t.Parallel()
	const size = 256 << 20
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	must(t, c.net.SetReadBuffer(64<<10))
	c.send(request("GET", "/big"))
	p := k.accept()
	p.head()
	growth := g.peakMemory()
	p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
	filled := make(chan error, 1)
	go func() { filled <- p.conn.Fill(size, 64<<10, false) }()
	sent := stalled(t, func() int64 {
		st, err := p.conn.State()
		must(t, err)
		return st.Sent
	})
	if sent > size/2 {
		t.Errorf("the container could send %d of %d bytes to a client that does not read", sent, size)
	}
	c.head()
	must(t, remote.CheckPattern(&limited{c.r, size}, size))
	must(t, <-filled)
	growsLess(t, "response to a slow reader", growth(), 8<<20)
}

func TestAContainerThatDoesNotReadBlocksTheClient(t *testing.T) {
	t.Parallel()
	const size = 256 << 20
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(fmt.Sprintf("POST /big HTTP/1.1\r\nHost: gate.test\r\nContent-Length: %d\r\n\r\n", size))
	p := k.accept()
	p.head()
	must(t, p.conn.Pause())
	growth := g.peakMemory()
	up := startUpload(c, size, 0)
	if sent := stalled(t, up.sent.Load); sent > size/2 {
		t.Errorf("the client could send %d of %d bytes to a container that does not read", sent, size)
	}
	must(t, p.conn.Resume())
	must(t, p.conn.Drain(size, false))
	must(t, <-up.done)
	p.send(okBody)
	c.response("POST").is(200, "ok")
	growsLess(t, "upload to a slow reader", growth(), 8<<20)
}
