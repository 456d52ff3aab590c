package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/atomic"
)

func TestAConnectionThatTheContainerClosedIsNotUsed(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, closeKind := range []string{"close", "half-close", "reset"} {
		for _, method := range []string{"GET", "POST"} {
			c := dial(t, g)
			c.send(request("GET", "/first"))
			p := k.accept()
			p.head()
			p.send(okBody)
			c.response("GET").is(200, "ok")
			switch closeKind {
			case "close":
				p.close()
			case "half-close":
				p.closeWrite()
			default:
				p.abort()
			}
			c.send(method + " /second HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 3\r\n\r\nabc")
			q := k.accept()
			if got := parseHead(t, q.head()).line; got != method+" /second HTTP/1.1" {
				t.Fatalf("%s, %s: the container got %q", closeKind, method, got)
			}
			q.expect("abc")
			q.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
			q.close()
			c.response(method).is(200, "ok")
		}
	}
}

// reused serves one request, so that the client's next request reuses the upstream
// connection.
func reused(t *testing.T, k *container, g *gate) (*client, *peer) {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", "/first"))
	p := k.accept()
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
	return c, p
}

func TestAnIdempotentRequestOnAConnectionThatClosesIsRetriedOnce(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} {
		for _, closeKind := range []string{"close", "reset"} {
			c, p := reused(t, k, g)
			c.send(request(method, "/replayed", "X-A: b"))
			first := p.head()
			if closeKind == "close" {
				p.close()
			} else {
				p.abort()
			}
			q := k.accept()
			if second := q.head(); second != first {
				t.Errorf("%s, %s: the replay is %q, want %q", method, closeKind, second, first)
			}
			q.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			q.close()
			c.response(method).is(200, "")
		}
	}
}

func TestARequestIsRetriedOnlyOnce(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c, p := reused(t, k, g)
	c.send(request("GET", "/replayed"))
	p.head()
	p.close()
	q := k.accept()
	q.head()
	q.close()
	c.response("GET").plainError(502, "upstream closed the connection\n")
	k.unseen("a third attempt")
}

func TestARequestIsNotRetriedAfterItsResponseBegan(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c, p := reused(t, k, g)
	c.send(request("GET", "/replayed"))
	p.head()
	p.send("HTTP/1.1 2")
	p.close()
	c.response("GET").plainError(502, "upstream closed the connection\n")
	k.unseen("a second attempt")
}

func TestANonIdempotentRequestIsNotRetriedAfterBytesWereSent(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	for _, method := range []string{"POST", "PATCH", "PURGE"} {
		for _, closeKind := range []string{"close", "reset"} {
			g := startGate(t, k) // a new gate, which has not seen the container close a connection
			c, p := reused(t, k, g)
			c.send(method + " /once HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 3\r\n\r\nabc")
			p.head()
			p.expect("abc")
			if closeKind == "close" {
				p.close()
				c.response(method).plainError(502, "upstream closed the connection\n")
			} else {
				p.abort()
				c.response(method).localError(502)
			}
			k.unseen("a second attempt")
		}
	}
}

func TestBytesAfterAResponseAreNotTheNextResponse(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for _, x := range []struct{ method, response, body string }{
		{"GET", okBody + evil, "ok"},
		{"GET", okBody + "x", "ok"},
		{"GET", okBody + "\r\n", "ok"},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + "evil", ""},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n" + evil, ""},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil", ""},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil, "ok"},
	} {
		c := dial(t, g)
		c.send(request(x.method, "/"))
		p := k.accept()
		p.head()
		p.send(x.response)
		if a := c.response(x.method); a.body != x.body {
			t.Errorf("%q gave body %q", x.response, a.body)
		}
		p.awaitClose()
		c.send(request("GET", "/next"))
		q := k.accept()
		q.head()
		q.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnext")
		q.close()
		c.response("GET").is(200, "next")
	}
}

func TestAnUnsolicitedResponseClosesTheConnection(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, unasked := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"\r\n",
	} {
		c, p := reused(t, k, g)
		p.send(unasked)
		c.send(request("GET", "/next"))
		q := k.accept()
		q.head()
		q.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnext")
		q.close()
		c.response("GET").is(200, "next")
		if got, _ := p.readAll(); got != "" {
			t.Errorf("the dropped connection got %q", got)
		}
	}
}

func TestBytesOfAForbiddenResponseBodyAreNotTakenAsTheNextResponse(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, x := range []struct{ method, head string }{
		{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 60\r\n\r\n"},
		{"GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 60\r\n\r\n"},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n"},
		{"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"GET", "HTTP/1.1 103 Early Hints\r\nContent-Length: 60\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"},
	} {
		c := dial(t, g)
		c.send(request(x.method, "/"))
		p := k.accept()
		p.head()
		p.send(x.head)
		a := parseHead(t, c.head())
		for a.status < 200 {
			a = parseHead(t, c.head())
		}
		c.send(request("GET", "/next"))
		// The head announces a body that this response must not have. The container may
		// send that body nevertheless, so the gate closes p and opens q.
		q := k.accept()
		q.head()
		q.send(okBody)
		c.response("GET").is(200, "ok")
		p.awaitClose()
		q.close()
		c.close()
	}
}

func TestConnectionsAreRetiredBeforeTheContainerClosesThem(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	// On a busy machine a step may be so late that the gate rightly chooses another
	// connection. Then the test begins again.
	eventually(t, "no step is late", func() bool { return retiresConnections(t, k) })
}

// retiresConnections runs the steps of the test above with a new gate. It returns false
// if a step was late.
func retiresConnections(t *testing.T, k *container) (inTime bool) {
	t.Helper()
	g := startGate(t, k)
	c := dial(t, g)
	const age = 250 * time.Millisecond
	post := func(p *peer, head string) {
		t.Helper()
		p.head()
		p.send(head + "Content-Length: 2\r\n\r\nok")
		c.response("POST").is(200, "ok")
	}
	const plain = "HTTP/1.1 200 OK\r\n"
	c.send(request("POST", "/first"))
	p := k.accept()
	idle := time.Now()
	post(p, plain)
	// When p has been idle for 250 ms, the gate sends a request on it. The container
	// closes p instead of responding, as if its idle timeout had just passed.
	time.Sleep(age)
	c.send(request("POST", "/lost"))
	p.head()
	lived := time.Since(idle)
	p.close()
	c.response("POST").plainError(502, "upstream closed the connection\n")

	c.send(request("POST", "/second"))
	q := k.accept()
	idle = time.Now()
	post(q, plain)
	// On a busy machine p was idle for longer than 250 ms. The test therefore waits for
	// the measured time.
	time.Sleep(lived)
	c.send(request("POST", "/third"))
	// The idle time of q has now reached the idle time at which the container closed p.
	// The container may close q too, so the gate does not use q, but opens another
	// connection. The gate uses q again only if q has been idle for more than four times
	// as long as p was.
	if q.waitsFor(k) {
		if time.Since(idle) < 4*age {
			t.Fatal("the gate used a connection that the container may be about to close")
		}
		return false
	}
	r := k.accept()
	idle = time.Now()
	post(r, plain)
	c.send(request("POST", "/fourth"))
	if !r.waitsFor(k) {
		if time.Since(idle) < age*3/4 {
			t.Fatal("the gate did not use a connection that was idle for a short time")
		}
		k.accept()
		return false
	}
	post(r, plain)
	// After this time r has been idle for much longer than p was, and is still open. The
	// gate therefore assumes that the container closed p for another reason, and uses r.
	time.Sleep(5 * lived)
	c.send(request("POST", "/fifth"))
	post(r, plain+"Connection: keep-alive\r\nKeep-Alive: max=9, timeout=0\r\n")
	// A Keep-Alive timeout applies at once.
	c.send(request("POST", "/sixth"))
	r.awaitClose()
	// The connection q has been idle for even longer than r, and the container has not
	// closed it. So the gate uses q.
	post(q, plain)
	return true
}

func TestConcurrentResponsesReachTheirRequests(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	const n = 40
	var clients [n]*client
	for i := range clients {
		clients[i] = dial(t, g)
	}
	for round := range 3 {
		for i, c := range clients {
			c.send(request("GET", fmt.Sprintf("/%d/%d", round, i)))
		}
		// Respond in reverse order.
		var peers []*peer
		var targets []string
		for range clients {
			p := k.accept()
			target := strings.Fields(parseHead(t, p.head()).line)[1]
			peers, targets = append(peers, p), append(targets, target)
		}
		for i := len(peers) - 1; i >= 0; i-- {
			peers[i].send(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(targets[i]), targets[i]))
			peers[i].close()
		}
		for i, c := range clients {
			c.response("GET").is(200, fmt.Sprintf("/%d/%d", round, i))
		}
	}
}

// The requests announce trailers, because over HTTP/2 most of these get a connection that
// no other request shares. The burst therefore needs many connections with both
// protocols.
func TestMostConnectionsToTheContainerAreClosedAfterABurst(t *testing.T) {
	t.Parallel()
	const burst = 100
	for _, x := range []struct {
		protocol string
		speak    func(*http.Protocols, bool)
		numIdle  int64
	}{{"http1", (*http.Protocols).SetHTTP1, 64}, {"h2c", (*http.Protocols).SetUnencryptedHTTP2, 4}} {
		t.Run(x.protocol, func(t *testing.T) {
			t.Parallel()
			var opened, open, requests atomic.Int64
			all := make(chan struct{})
			g := gateBefore(t, func(l net.Listener) {
				s := &http.Server{ErrorLog: quiet, Protocols: new(http.Protocols)}
				x.speak(s.Protocols, true)
				s.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					if requests.Inc() == burst {
						close(all)
					}
					<-all
				})
				s.ConnState = func(_ net.Conn, state http.ConnState) {
					switch state {
					case http.StateNew:
						opened.Inc()
						open.Inc()
					case http.StateClosed:
						open.Dec()
					}
				}
				_ = s.Serve(l)
			}, "UPSTREAM_PROTOCOL="+x.protocol, "THREADS=1")
			var clients []*client
			for range burst {
				c := dial(t, g)
				defer c.close()
				c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n0\r\nX-End: yes\r\n\r\n")
				clients = append(clients, c)
			}
			for _, c := range clients {
				c.response("POST").is(200, "")
			}
			if n := opened.Load(); n <= x.numIdle {
				t.Errorf("%d connections for %d concurrent requests: none has to be closed", n, burst)
			}
			eventually(t, fmt.Sprintf("at most %d connections", x.numIdle), func() bool { return open.Load() <= x.numIdle })
		})
	}
}
