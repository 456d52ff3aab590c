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

// planted is a proxy with a fault, in front of a container. Handle gets each
// client's connection and a function that connects to the container.
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
	return &target{address: l.Addr().String(), container: c, timeout: time.Second}
}

// relay passes bytes on as there and back change them.
func relay(there, back func([]byte) []byte) func(net.Conn, func() net.Conn) {
	return func(client net.Conn, dial func() net.Conn) {
		upstream := dial()
		go pass(client, upstream, back)
		pass(upstream, client, there)
	}
}

func pass(to, from net.Conn, change func([]byte) []byte) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			to.Write(change(chunk[:n]))
		}
		if err != nil {
			to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

func asIs(b []byte) []byte { return b }

// answerWith answers every read with the same bytes.
func answerWith(answer string, closes bool) func(net.Conn, func() net.Conn) {
	return func(client net.Conn, _ func() net.Conn) {
		chunk := make([]byte, 64<<10)
		for {
			if _, err := client.Read(chunk); err != nil {
				return
			}
			io.WriteString(client, answer)
			if closes {
				client.Close()
			}
		}
	}
}

// verdictsOf runs the plain form of one case.
func verdictsOf(t *testing.T, tg *target, text string) []verdict {
	t.Helper()
	cases, err := parseCases("planted", "== a planted fault is found\nrfc 0\n"+text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(cases[0], variant{}, 1, tg.container.port())
	if err != nil {
		t.Fatal(err)
	}
	return playAll(tg, slices.Values([]*run{r}))[0].verdicts
}

const (
	validCase = "expect forward\n>GET /{T} HTTP/1.1\n>Host: hostile\n>\n>\\\n"
	bothCase  = "expect refuse 400\n>POST /{T} HTTP/1.1\n>Host: hostile\n>Content-Length: 5\n>Transfer-Encoding: chunked\n>\n>0\n>\n>\\\n"
	shortCase = "expect break 400\n>POST /{T} HTTP/1.1\n>Host: hostile\n>Content-Length: 9\n>\n>hello{fin}\\\n"
	cutCase   = "expect cut\n<HTTP/1.1 200 OK\n<X-Token: {T}\n<Content-Length: 9\n<\n<hello{close}\\\n"
	lateCase  = "expect forward\n<HTTP/1.1 200 OK\n<X-Token: {T}\n<Content-Length: 5\n<\n<hello{sync}HTTP/1.1 200 OK\n<X-Token: {S}\n<Content-Length: 0\n<\n<\\\n"
)

func TestAPlantedFaultIsFound(t *testing.T) {
	refusal := "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	cases := []struct {
		name   string
		handle func(net.Conn, func() net.Conn)
		text   string
		kind   verdictKind
		words  string
	}{
		{"a relay that lets both framings through is unsafe", relay(asIs, asIs), bothCase, unsafe, "a strict reader refuses"},
		{"a relay that drops one framing is lenient", relay(without("Content-Length: 5\r\n"), asIs), bothCase, lenient, "request 0 reached the container"},
		{"a relay that serves what follows a close is unsafe", relay(asIs, asIs),
			"expect forward\ncloses\n>GET /{T} HTTP/1.1\n>Host: hostile\n>Connection: x\n>\n>GET /{S} HTTP/1.1\n>Host: hostile\n>\n>\\\n", unsafe, "smuggled"},
		{"a relay that doubles a request is unsafe", relay(doubled, asIs), validCase, unsafe, "2 times"},
		{"a relay that doubles an answer is unsafe", relay(asIs, doubled), validCase, unsafe, "answer"},
		{"a relay that gives away an earlier answer is unsafe", earlierAnswers(), validCase, unsafe, "not to"},
		{"a relay that makes a broken body whole is unsafe", relay(replace("Content-Length: 9", "Content-Length: 5"), asIs), shortCase, unsafe, "as a whole"},
		{"a relay that makes a broken answer whole is unsafe", relay(asIs, replace("Content-Length: 9", "Content-Length: 5")), cutCase, unsafe, "as a whole"},
		{"a relay that breaks the framing of an answer is unsafe", relay(asIs, replace("Content-Length: 1", "Content-Length: x1")), validCase, unsafe, "refuses the answers"},
		{"a pool that keeps a connection with bytes in it is unsafe", sharedUpstream(), lateCase, unsafe, "bytes behind an answer"},
		{"a proxy that gives a new client an earlier answer is unsafe", earlierAnswers(), validCase, unsafe, "on a new connection got the answer to"},
		{"a proxy that is silent hangs", relay(func([]byte) []byte { return nil }, asIs), validCase, hang, "not answered"},
		{"a proxy that leaves half a request at the container hangs", relayWithoutEnd, shortCase, hang, "still waits"},
		{"a proxy that refuses a valid request is seen", answerWith(refusal, true), validCase, refusedValid, "got 400"},
		{"a proxy that closes without an answer is seen", answerWith("", true), validCase, refusedValid, "no whole answer"},
		{"a relay that lets a bad expectation through is lenient", relay(asIs, asIs),
			"expect refuse 417\n>GET /{T} HTTP/1.1\n>Host: hostile\n>Expect: x\n>\n>\\\n", lenient, "reached the container"},
		{"a wrong status is seen", answerWith(strings.Replace(refusal, "400", "403", 1), true), bothCase, wrongStatus, "403"},
		{"a connection left open is seen", answerWith(refusal, false), bothCase, notClosed, "not closed"},
		{"a relay that changes a field is unfaithful", relay(replace("Host: hostile\r\n", "Host: hostile\r\nVia: x\r\n"), asIs), validCase, unfaithful, "gained"},
		{"a relay that changes a target is unfaithful", relay(replace("GET /q", "GET //q"), asIs), validCase, unfaithful, "arrived as"},
		{"a relay that changes a body is unfaithful", relay(replace("hello", "HELLO"), asIs),
			"expect forward\n>POST /{T} HTTP/1.1\n>Host: hostile\n>Content-Length: 5\n>\n>hello\\\n", unfaithful, "body"},
		{"a relay that loses an interim answer is unfaithful", relay(asIs, without("HTTP/1.1 103 Early Hints\r\n\r\n")),
			"expect forward\n<HTTP/1.1 103 Early Hints\n<\n<HTTP/1.1 200 OK\n<X-Token: {T}\n<Content-Length: 0\n<\n<\\\n", unfaithful, "interim"},
		{"a proxy that fails the next request is seen", failsAfterwards(), validCase, nextFailed, "503"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			verdicts := verdictsOf(t, planted(t, c.handle), c.text)
			for _, v := range verdicts {
				if v.kind == c.kind && strings.Contains(v.text, c.words) {
					return
				}
			}
			t.Errorf("%d verdicts %q, want %s with %q", len(verdicts), verdicts, c.kind, c.words)
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
	for _, v := range verdictsOf(t, tg, validCase) {
		if v.kind == died {
			return
		}
	}
	t.Error("the dead proxy was not noticed")
}

func TestATransparentRelayHasNoFaults(t *testing.T) {
	texts := []string{
		validCase,
		"expect forward, forward\n>HEAD /{T} HTTP/1.1\n>Host: hostile\n>\n>POST /{N} HTTP/1.1\n>Host: hostile\n>Transfer-Encoding: chunked\n>\n>5;a\n>hello\n>0\n>X-Sum: 1\n>\n>\\\n",
		"expect tunnel\nraw gluedping\n>GET /{T} HTTP/1.1\n>Host: hostile\n>Connection: Upgrade\n>Upgrade: x\n>\n>{await}ping\\\n<HTTP/1.1 101 Switching\n<X-Token: {T}\n<\n<glued{echo}\\\n",
		shortCase, cutCase,
	}
	for i, text := range texts {
		t.Run(fmt.Sprint("case ", i), func(t *testing.T) {
			t.Parallel()
			if verdicts := verdictsOf(t, planted(t, relay(asIs, asIs)), text); len(verdicts) > 0 {
				t.Errorf("verdicts %q, want none", verdicts)
			}
		})
	}
}

func replace(old, by string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(by)) }
}

func without(old string) func([]byte) []byte { return replace(old, "") }

func doubled(b []byte) []byte { return bytes.Repeat(b, 2) }

// relayWithoutEnd never closes towards the container.
func relayWithoutEnd(client net.Conn, dial func() net.Conn) {
	upstream := dial()
	io.Copy(upstream, client)
	client.Close()
}

// earlierAnswers remembers the first token and puts it into later answers.
func earlierAnswers() func(net.Conn, func() net.Conn) {
	var first atomic.String
	return relay(asIs, func(b []byte) []byte {
		first.CompareAndSwap("", tokenPattern.FindString(string(b)))
		return tokenPattern.ReplaceAll(b, []byte(first.Load()))
	})
}

// sharedUpstream sends the requests of all clients over one connection, and
// takes whatever it reads there for the answer.
func sharedUpstream() func(net.Conn, func() net.Conn) {
	var mu sync.Mutex
	var upstream net.Conn
	return func(client net.Conn, dial func() net.Conn) {
		request, answer := make([]byte, 64<<10), make([]byte, 64<<10)
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
			n, _ = upstream.Read(answer)
			mu.Unlock()
			client.Write(answer[:n])
		}
	}
}

// failsAfterwards serves its first connection only.
func failsAfterwards() func(net.Conn, func() net.Conn) {
	var served atomic.Bool
	return func(client net.Conn, dial func() net.Conn) {
		if served.Swap(true) {
			answerWith("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", false)(client, dial)
			return
		}
		relay(asIs, asIs)(client, dial)
	}
}
