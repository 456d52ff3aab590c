package hostile

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"
)

// planted starts a faulty proxy, which calls handle for each client connection. dial
// connects to the container.
func planted(t *testing.T, handle func(client net.Conn, dial func() net.Conn)) *target {
	t.Helper()
	c, err := newContainer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	keep := func(conn net.Conn) net.Conn {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, conn)
		return conn
	}
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open {
			conn.Close()
		}
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go handle(keep(conn), func() net.Conn {
				upstream, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(c.port()))
				if err != nil {
					t.Error(err)
					return conn
				}
				return keep(upstream)
			})
		}
	}()
	return &target{address: l.Addr().String(), container: c, timeout: hangTime}
}

// relay returns a proxy that forwards bytes in both directions. The first function
// changes the bytes to the container, and the second function changes the bytes to the
// client.
func relay(there, back func([]byte) []byte) func(net.Conn, func() net.Conn) {
	return func(client net.Conn, dial func() net.Conn) {
		upstream := dial()
		go pass(client, upstream, back)
		pass(upstream, client, there)
	}
}

func pass(dst, src net.Conn, change func([]byte) []byte) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := src.Read(chunk)
		if n > 0 {
			dst.Write(change(chunk[:n]))
		}
		if err != nil {
			dst.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

func asIs(b []byte) []byte { return b }

// respondWith sends response after each read.
func respondWith(response string, closes bool) func(net.Conn, func() net.Conn) {
	return func(client net.Conn, _ func() net.Conn) {
		chunk := make([]byte, 64<<10)
		for {
			if _, err := client.Read(chunk); err != nil {
				return
			}
			io.WriteString(client, response)
			if closes {
				client.Close()
			}
		}
	}
}

// findingsOf runs a case without variants.
func findingsOf(t *testing.T, tg *target, text string) []finding {
	t.Helper()
	cases, err := parseCases("planted", "== a planted fault is found\nrfc 0\n"+text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(cases[0], variant{}, 1, tg.container.port())
	if err != nil {
		t.Fatal(err)
	}
	return playAll(tg, slices.Values([]*run{r}))[0].findings
}

const (
	validCase = "expect forward\n>GET /{T} HTTP/1.1\n>Host: hostile\n>\n>\\\n"
	bothCase  = "expect reject 400\n>POST /{T} HTTP/1.1\n>Host: hostile\n>Content-Length: 5\n>Transfer-Encoding: chunked\n>\n>0\n>\n>\\\n"
	shortCase = "expect break 400\n>POST /{T} HTTP/1.1\n>Host: hostile\n>Content-Length: 9\n>\n>hello{fin}\\\n"
	cutCase   = "expect cut\n<HTTP/1.1 200 OK\n<X-Token: {T}\n<Content-Length: 9\n<\n<hello{close}\\\n"
	lateCase  = "expect forward\n<HTTP/1.1 200 OK\n<X-Token: {T}\n<Content-Length: 5\n<\n<hello{sync}HTTP/1.1 200 OK\n<X-Token: {S}\n<Content-Length: 0\n<\n<\\\n"
)

func TestAFaultPlantedInARelayIsFoundByHostileMessages(t *testing.T) {
	rejection := "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	cases := []struct {
		name     string
		handle   func(net.Conn, func() net.Conn)
		text     string
		kind     findingKind
		wantText string
	}{
		{"a relay that forwards both framings is unsafe", relay(asIs, asIs), bothCase, unsafe, "the strict parser rejects"},
		{"a relay that drops one framing is lenient", relay(removed("Content-Length: 5\r\n"), asIs), bothCase, lenient, "request 0 reached the container"},
		{"a relay that serves a request after a close is unsafe", relay(asIs, asIs),
			"expect forward\ncloses\n>GET /{T} HTTP/1.1\n>Host: hostile\n>Connection: x\n>\n>GET /{S} HTTP/1.1\n>Host: hostile\n>\n>\\\n", unsafe, "smuggled"},
		{"a relay that doubles a request is unsafe", relay(doubled, asIs), validCase, unsafe, "2 times"},
		{"a relay that doubles a response is unsafe", relay(asIs, doubled), validCase, unsafe, "response"},
		{"a relay that repeats an earlier response is unsafe", earlierResponses(), validCase, unsafe, "belongs to"},
		{"a relay that completes a truncated request is unsafe", relay(replace("Content-Length: 9", "Content-Length: 5"), asIs), shortCase, unsafe, "looks complete"},
		{"a relay that completes a truncated response is unsafe", relay(asIs, replace("Content-Length: 9", "Content-Length: 5")), cutCase, unsafe, "looks complete"},
		{"a relay that breaks the framing of a response is unsafe", relay(asIs, replace("Content-Length: 1", "Content-Length: x1")), validCase, unsafe, "rejects the responses"},
		{"a pool that reuses a connection with unread bytes is unsafe", sharedUpstream(), lateCase, unsafe, "excess bytes after a response"},
		{"a proxy that sends an earlier response to a new client is unsafe", earlierResponses(), validCase, unsafe, "on a new connection got the response to"},
		{"a silent proxy hangs", relay(func([]byte) []byte { return nil }, asIs), validCase, hang, "no response"},
		{"a proxy that leaves half a request at the container hangs", relayWithoutEnd, shortCase, hang, "still waits"},
		{"a proxy that rejects a valid request is reported", respondWith(rejection, true), validCase, rejectedValid, "got 400"},
		{"a proxy that closes without a response is reported", respondWith("", true), validCase, rejectedValid, "no complete response"},
		{"a relay that forwards an invalid expectation is lenient", relay(asIs, asIs),
			"expect reject 417\n>GET /{T} HTTP/1.1\n>Host: hostile\n>Expect: x\n>\n>\\\n", lenient, "reached the container"},
		{"a wrong status is reported", respondWith(strings.Replace(rejection, "400", "403", 1), true), bothCase, wrongStatus, "403"},
		{"a connection that stays open is reported", respondWith(rejection, false), bothCase, notClosed, "no close"},
		{"a relay that changes a field is unfaithful", relay(replace("Host: hostile\r\n", "Host: hostile\r\nVia: x\r\n"), asIs), validCase, unfaithful, "gained"},
		{"a relay that changes a target is unfaithful", relay(replace("GET /q", "GET //q"), asIs), validCase, unfaithful, "arrived as"},
		{"a relay that changes a body is unfaithful", relay(replace("hello", "HELLO"), asIs),
			"expect forward\n>POST /{T} HTTP/1.1\n>Host: hostile\n>Content-Length: 5\n>\n>hello\\\n", unfaithful, "body"},
		{"a relay that loses an interim response is unfaithful", relay(asIs, removed("HTTP/1.1 103 Early Hints\r\n\r\n")),
			"expect forward\n<HTTP/1.1 103 Early Hints\n<\n<HTTP/1.1 200 OK\n<X-Token: {T}\n<Content-Length: 0\n<\n<\\\n", unfaithful, "interim"},
		{"a proxy that fails the next request is reported", failsAfterwards(), validCase, nextFailed, "503"},
	}
	// With these faults the client waits until its timeout expires, so the timeout is
	// short.
	inVain := []string{
		"a relay that drops one framing is lenient", "a relay that serves a request after a close is unsafe",
		"a relay that breaks the framing of a response is unsafe", "a pool that reuses a connection with unread bytes is unsafe",
		"a silent proxy hangs", "a proxy that leaves half a request at the container hangs",
		"a relay that forwards an invalid expectation is lenient", "a connection that stays open is reported",
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tg := planted(t, c.handle)
			if slices.Contains(inVain, c.name) {
				tg.timeout = 3 * time.Second
			}
			findings := findingsOf(t, tg, c.text)
			for _, v := range findings {
				if v.kind == c.kind && strings.Contains(v.text, c.wantText) {
					return
				}
			}
			t.Errorf("%d findings %q, want %s with %q", len(findings), findings, c.kind, c.wantText)
		})
	}
}

func TestADeadProxyIsFound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tg := planted(t, relay(asIs, asIs))
	inner := tg.address
	tg.address = l.Addr().String()
	go func() {
		client, err := l.Accept()
		l.Close()
		if err != nil {
			return
		}
		relay(asIs, asIs)(client, func() net.Conn {
			upstream, _ := net.Dial("tcp", inner)
			return upstream
		})
	}()
	for _, v := range findingsOf(t, tg, validCase) {
		if v.kind == died {
			return
		}
	}
	t.Error("the dead proxy was not noticed")
}

func TestHostileMessagesFindNoFaultInATransparentRelay(t *testing.T) {
	texts := []string{
		validCase,
		"expect forward, forward\n>HEAD /{T} HTTP/1.1\n>Host: hostile\n>\n>POST /{N} HTTP/1.1\n>Host: hostile\n>Transfer-Encoding: chunked\n>\n>5;a\n>hello\n>0\n>X-Sum: 1\n>\n>\\\n",
		"expect tunnel\nraw gluedping\n>GET /{T} HTTP/1.1\n>Host: hostile\n>Connection: Upgrade\n>Upgrade: x\n>\n>{await}ping\\\n<HTTP/1.1 101 Switching\n<X-Token: {T}\n<\n<glued{echo}\\\n",
		shortCase, cutCase,
	}
	for i, text := range texts {
		t.Run(fmt.Sprint("case ", i), func(t *testing.T) {
			t.Parallel()
			if findings := findingsOf(t, planted(t, relay(asIs, asIs)), text); len(findings) > 0 {
				t.Errorf("findings %q, want none", findings)
			}
		})
	}
}

func replace(old, replacement string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(replacement)) }
}

func removed(old string) func([]byte) []byte { return replace(old, "") }

func doubled(b []byte) []byte { return bytes.Repeat(b, 2) }

// relayWithoutEnd never closes its connection to the container.
func relayWithoutEnd(client net.Conn, dial func() net.Conn) {
	upstream := dial()
	io.Copy(upstream, client)
	client.Close()
}

// earlierResponses replaces the tokens of later responses by the token of the first one.
func earlierResponses() func(net.Conn, func() net.Conn) {
	var first atomic.String
	return relay(asIs, func(b []byte) []byte {
		first.CompareAndSwap("", tokenPattern.FindString(string(b)))
		return tokenPattern.ReplaceAll(b, []byte(first.Load()))
	})
}

// sharedUpstream returns a faulty proxy that uses one connection to the container for all
// clients. It sends the bytes that it reads there to the current client, even if they are
// excess bytes after an earlier response.
func sharedUpstream() func(net.Conn, func() net.Conn) {
	var mu sync.Mutex
	var upstream net.Conn
	return func(client net.Conn, dial func() net.Conn) {
		request, response := make([]byte, 64<<10), make([]byte, 64<<10)
		for {
			n, err := client.Read(request)
			if err != nil {
				return
			}
			mu.Lock()
			if upstream == nil {
				upstream = dial()
			}
			upstream.Write(bytes.ReplaceAll(request[:n], []byte("Connection: close\r\n"), nil))
			n, _ = upstream.Read(response)
			mu.Unlock()
			client.Write(response[:n])
		}
	}
}

// failsAfterwards serves one connection.
func failsAfterwards() func(net.Conn, func() net.Conn) {
	var served atomic.Bool
	return func(client net.Conn, dial func() net.Conn) {
		if served.Swap(true) {
			respondWith("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", false)(client, dial)
			return
		}
		relay(asIs, asIs)(client, dial)
	}
}
