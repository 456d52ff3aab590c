package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const okClose = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

// inFlight sends a GET and waits until the container has it.
func inFlight(t *testing.T, k *container, g *gate, path string) (*client, *peer) {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", path))
	return c, k.acceptFor(path)
}

// queued sends a GET and waits until it is in the gate's queue.
func queued(t *testing.T, g *gate, path string) *client {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", path))
	g.awaitRead(c)
	return c
}

// acceptFor accepts a request, which must be a GET of this path.
func (k *container) acceptFor(path string) *peer {
	k.t.Helper()
	p := k.accept()
	if got, want := parseHead(k.t, p.head()).line, "GET "+path+" HTTP/1.1"; got != want {
		k.t.Fatalf("the container got %q, want %q", got, want)
	}
	return p
}

// finish responds with okClose, and reads the response at the client.
func finish(c *client, p *peer) {
	c.t.Helper()
	p.send(okClose)
	p.close()
	c.response("GET").is(200, "ok")
}

func TestTheQueueIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1")
	c, p := inFlight(t, k, g, "/0")
	var waiting []*client
	for i := 1; i <= 5; i++ {
		waiting = append(waiting, queued(t, g, fmt.Sprintf("/%d", i)))
	}
	for i, next := range waiting {
		k.unseen("a queued request")
		finish(c, p)
		c, p = next, k.acceptFor(fmt.Sprintf("/%d", i+1))
	}
	finish(c, p)
}

func TestTheLimitBoundsRequestsInFlight(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=3")
	var clients []*client
	var peers []*peer
	for i := range 3 {
		c, p := inFlight(t, k, g, fmt.Sprintf("/%d", i))
		clients, peers = append(clients, c), append(peers, p)
	}
	fourth := queued(t, g, "/3")
	k.unseen("the fourth request")
	finish(clients[1], peers[1])
	finish(fourth, k.acceptFor("/3"))
	finish(clients[0], peers[0])
	finish(clients[2], peers[2])
}

func TestTenTimesTheLimitAreQueuedAndFurtherRequestsAreRejected(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=2")
	first, p := inFlight(t, k, g, "/first")
	second, q := inFlight(t, k, g, "/second")
	var waiting []*client
	for i := range 20 {
		waiting = append(waiting, queued(t, g, fmt.Sprintf("/%d", i)))
	}
	for range 3 {
		c := dial(t, g)
		c.get("/refused").plainError(503, "pending request queue full\n")
		c.get("/refused").plainError(503, "pending request queue full\n")
	}
	finish(first, p)
	finish(second, q)
	for i := 0; i < len(waiting); i += 2 {
		a, b := k.accept(), k.accept()
		a.head()
		b.head()
		a.send(okClose)
		b.send(okClose)
		waiting[i].response("GET").is(200, "ok")
		waiting[i+1].response("GET").is(200, "ok")
	}
	k.unseen("a rejected request")
}

func TestQueueCapacityIsConfigurable(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=2")
	c, p := inFlight(t, k, g, "/0")
	one, two := queued(t, g, "/1"), queued(t, g, "/2")
	dial(t, g).get("/3").plainError(503, "pending request queue full\n")
	finish(c, p)
	finish(one, k.acceptFor("/1"))
	finish(two, k.acceptFor("/2"))
}

func TestQueueMaxWaitLimitsTheTimeInTheQueue(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_MAX_WAIT=300ms")
	c, p := inFlight(t, k, g, "/0")
	start := time.Now()
	w := dial(t, g)
	w.get("/1").plainError(503, "queue wait expired\n")
	if waited := time.Since(start); waited < 290*time.Millisecond {
		t.Errorf("the wait expired after %v, want 300ms", waited)
	}
	k.unseen("a request whose wait expired")
	finish(c, p)
	w.send(request("GET", "/2"))
	finish(w, k.acceptFor("/2"))
}

// queueDepth returns the queue depth on a metrics page, or -1 if it is missing.
func queueDepth(page map[string]float64) float64 {
	for name, n := range page {
		if strings.HasPrefix(name, "kn_serving_queue_depth") {
			return n
		}
	}
	return -1
}

func TestAQueuedClientThatDisconnectsFreesItsQueuePositionAndIsNotForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1")
	inQueue := func(closeKind string, want float64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s: %v queued", closeKind, want), func() bool {
			return queueDepth(figures(g, page)) == want
		})
	}
	for closeKind, leave := range map[string]func(*client){"close": (*client).close, "reset": (*client).abort, "half-close": (*client).closeWrite} {
		c, p := inFlight(t, k, g, "/0")
		leaver := queued(t, g, "/leaver")
		inQueue(closeKind, 1)
		dial(t, g).get("/refused").plainError(503, "pending request queue full\n")
		leave(leaver)
		inQueue(closeKind, 0)
		newcomer := queued(t, g, "/newcomer")
		inQueue(closeKind, 1)
		dial(t, g).get("/refused").plainError(503, "pending request queue full\n")
		finish(c, p)
		finish(newcomer, k.acceptFor("/newcomer"))
		k.unseen("the request of the disconnected client")
	}
}

func TestWithoutALimitAllRequestsAreInFlight(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=0", "QUEUE_CAPACITY=1")
	var clients []*client
	var peers []*peer
	for i := range 200 {
		c, p := inFlight(t, k, g, fmt.Sprintf("/%d", i))
		clients, peers = append(clients, c), append(peers, p)
	}
	for i := range clients {
		finish(clients[i], peers[i])
	}
}

func TestTheSlotIsReleasedWhenTheResponseBodyEnds(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1")
	c, p := inFlight(t, k, g, "/0")
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nhalf")
	c.head()
	c.expect("half")
	next := queued(t, g, "/1")
	k.unseen("a request during another request's response body")
	p.send("done")
	c.expect("done")
	finish(next, k.acceptFor("/1"))
}

func TestTheSlotIsReleasedWhenAnUploadAfterAnEarlyResponseEnds(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1")
	c := dial(t, g)
	c.send("POST /0 HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 8\r\n\r\nhalf")
	p := k.accept()
	p.head()
	p.expect("half")
	p.send(okBody)
	c.response("POST").is(200, "ok")
	next := queued(t, g, "/1")
	k.unseen("a request during an upload that already has its response")
	if next.pending() {
		t.Fatal("the next request got a response while an upload held the slot")
	}
	c.send("done")
	p.expect("done")
	if !p.waitsFor(k) {
		p = k.accept()
	}
	p.head()
	finish(next, p)
}

// waitsFor waits until another request has arrived at the container. The result is true
// if the request arrived on the connection p, and false if it arrived on a new one.
func (p *peer) waitsFor(k *container) (here bool) {
	p.t.Helper()
	eventually(p.t, "a request arrives", func() bool {
		st, err := p.conn.State()
		must(p.t, err)
		n, err := k.Counts()
		must(p.t, err)
		here = st.Unread > 0 || p.r.Buffered() > 0
		return here || n.Waiting > 0
	})
	return here
}

func TestTheSlotIsReleasedWhenTheTunnelEnds(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1")
	c, p := upgraded(t, k, g, "", "")
	next := queued(t, g, "/1")
	c.send("x")
	p.expect("x")
	c.closeWrite()
	if got, _ := p.readAll(); got != "" {
		t.Fatalf("the container got %q", got)
	}
	g.awaitRead(next)
	k.unseen("a request while a tunnel was half-closed")
	p.close()
	c.closed()
	finish(next, k.acceptFor("/1"))
}

func TestAClientThatDisconnectsReleasesItsSlotImmediately(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1")
	for _, leave := range []func(*client){(*client).close, (*client).abort, (*client).closeWrite} {
		c, _ := inFlight(t, k, g, "/0")
		next := queued(t, g, "/1")
		k.unseen("a queued request")
		leave(c)
		// The slot is free although the container has not responded.
		finish(next, k.acceptFor("/1"))
	}
}

func TestAHardLimitReleasesTheSlotWhenTheContainerEndsTheRequest(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "CONCURRENCY_HARD=true")
	for closeKind, end := range map[string]func(*peer){
		"closes":   (*peer).close,
		"resets":   (*peer).abort,
		"finishes": func(p *peer) { p.send(okBody) },
	} {
		c, p := inFlight(t, k, g, "/0")
		next := queued(t, g, "/1")
		c.close()
		p.awaitClose() // the gate cancels the request by closing the upstream connection
		g.awaitRead(next)
		k.unseen("a request while the container works for a disconnected client")
		end(p)
		t.Log("the container", closeKind)
		finish(next, k.acceptFor("/1"))
	}
}

func TestAHardLimitReleasesTheSlotAtTheRequestTimeout(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "CONCURRENCY_HARD=true", "REVISION_TIMEOUT_SECONDS=5")
	start := time.Now()
	c, p := inFlight(t, k, g, "/0")
	c.close()
	p.awaitClose()
	// The next request is sent 4 s later, so that it is still in the queue when the first
	// request times out. It then has 4 s left until its own timeout.
	<-time.After(4 * time.Second)
	next := dial(t, g)
	next.send(request("GET", "/1"))
	q := k.acceptFor("/1")
	if elapsed := time.Since(start); elapsed < 4900*time.Millisecond {
		t.Errorf("the slot was held for %v, want 5s", elapsed)
	}
	finish(next, q)
}
