package e2e

import (
	"slices"
	"testing"
	"time"
)

func TestAClientThatDisconnectsClosesItsUpstreamConnection(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	leave := map[string]func(*client){"close": (*client).close, "reset": (*client).abort, "half-close": (*client).closeWrite}
	for closeKind, disconnect := range leave {
		for state, prepare := range map[string]func() (*client, *peer){
			"before its response begins": func() (*client, *peer) {
				c := dial(t, g)
				c.send(request("GET", "/"))
				p := k.accept()
				p.head()
				return c, p
			},
			"during its response": func() (*client, *peer) {
				c := dial(t, g)
				c.send(request("GET", "/"))
				p := k.accept()
				p.head()
				p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
				c.head()
				c.chunk()
				return c, p
			},
			"during its upload": func() (*client, *peer) {
				c := dial(t, g)
				c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 10\r\n\r\nhalf")
				p := k.accept()
				p.head()
				p.expect("half")
				return c, p
			},
			"during its chunked upload": func() (*client, *peer) {
				c := dial(t, g)
				c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
				p := k.accept()
				p.head()
				p.chunk()
				return c, p
			},
			"after its upload": func() (*client, *peer) {
				c := dial(t, g)
				c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 4\r\n\r\nbody")
				p := k.accept()
				p.head()
				p.expect("body")
				return c, p
			},
		} {
			c, p := prepare()
			disconnect(c)
			if rest, _ := p.readAll(); rest != "" {
				t.Errorf("%s %s: the container got %q", closeKind, state, rest)
			}
		}
	}
	dial(t, g).get("/", "K-Network-Probe: queue").is(200, "queue")
}

func TestADisconnectReachesTheContainerWithinMilliseconds(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	// On a busy machine most of the delays may be longer, so one of several rounds suffices.
	eventually(t, "a median of less than 50 ms", func() bool {
		var delays []time.Duration
		for i := range 20 {
			c := dial(t, g)
			c.send(request("GET", "/"))
			p := k.accept()
			p.head()
			leftAt := time.Now()
			if i%2 == 0 {
				c.close()
			} else {
				c.abort()
			}
			delays = append(delays, p.awaitClose().Sub(leftAt))
		}
		slices.Sort(delays)
		median := delays[len(delays)/2]
		t.Logf("after the client disconnected, the container's connection closed within %v (median of %d; longest %v)", median, len(delays), delays[len(delays)-1])
		return median < 50*time.Millisecond
	})
}

func TestAHalfClosedClientGetsNoResponseByDefault(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/"))
	p := k.accept()
	p.head()
	c.closeWrite()
	c.closed()
	p.awaitClose()
}

func TestAHalfClosedClientGetsAResponseIfConfigured(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CLIENT_HALF_CLOSE=answer")
	c := dial(t, g)
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 3\r\n\r\nabc")
	p := k.accept()
	p.head()
	p.expect("abc")
	c.closeWrite()
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n12345")
	c.head()
	c.expect("12345")
	p.send("67890")
	c.expect("67890")
	c.closed()

	// After a half-close the client cannot complete its upload. The gate therefore
	// cancels the request, although it has the setting CLIENT_HALF_CLOSE=answer.
	c = dial(t, g)
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 10\r\n\r\nhalf")
	p = k.accept()
	p.head()
	p.expect("half")
	c.closeWrite()
	p.awaitClose()

	// AllowHalfClose does not apply to a reset.
	c = dial(t, g)
	c.send(request("GET", "/"))
	p = k.accept()
	p.head()
	c.abort()
	p.awaitClose()
}
