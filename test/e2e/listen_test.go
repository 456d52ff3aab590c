package e2e

import (
	"testing"
	"time"
)

func TestARequestIsQueuedUntilTheContainerListens(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k)
	get, post := dial(t, g), dial(t, g)
	get.send(request("GET", "/held"))
	g.awaitRead(get)
	post.send("POST /held HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 4\r\n\r\nbo")
	g.awaitRead(post)
	if get.pending() || post.pending() {
		t.Fatal("a queued request got a response before the container listened")
	}
	k.listen()
	for range 2 {
		p := k.accept()
		if a := parseHead(t, p.head()); a.has("Content-Length") {
			p.expect("bo")
			post.send("dy")
			p.expect("dy")
			finish(post, p)
		} else {
			finish(get, p)
		}
	}
}

func TestAWarningNamesAContainerThatDoesNotListenWithinUpstreamWait(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "UPSTREAM_WAIT=300ms", "SERVING_READINESS_PROBE=", "CONTAINER_NAMES=web")
	g.logs("web is down (first check)")
	g.logs("web has not listened for 300ms (UPSTREAM_WAIT) since the gate started")
}

func TestTheConnectQueueTimesOutAfterUpstreamWait(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "UPSTREAM_WAIT=300ms")
	c := dial(t, g)
	for range 2 {
		start := time.Now()
		a := c.get("/held")
		a.plainError(503, "user container is not listening\n")
		a.field("Retry-After", "1")
		checkElapsed(t, start, 300*time.Millisecond)
	}
	k.listen()
	c.send(request("GET", "/next"))
	finish(c, k.acceptFor("/next"))
}

func TestTheRequestTimeoutAppliesInTheConnectQueue(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "UPSTREAM_WAIT=60s", "REVISION_TIMEOUT_SECONDS=1")
	start := time.Now()
	dial(t, g).get("/held").timedOut()
	checkElapsed(t, start, time.Second)
}

func TestRequestsInTheConnectQueueUseSlotsAndQueueCapacity(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1")
	first, second := queued(t, g, "/1"), queued(t, g, "/2")
	dial(t, g).get("/3").plainError(503, "pending request queue full\n")
	k.listen()
	p := k.acceptFor("/1")
	k.unseen("a queued request")
	finish(first, p)
	finish(second, k.acceptFor("/2"))
}

func TestWithoutALimitTheConnectQueueIsBoundedByQueueCapacity(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=0", "QUEUE_CAPACITY=3", "UPSTREAM_WAIT=60s")
	var waiting []*client
	for range 3 {
		waiting = append(waiting, queued(t, g, "/held"))
	}
	dial(t, g).get("/refused").plainError(503, "pending request queue full\n")
	k.listen()
	for range waiting {
		p := k.acceptFor("/held")
		p.send(okClose)
		p.close()
	}
	for _, c := range waiting {
		c.response("GET").is(200, "ok")
	}
	for range 5 {
		c, p := inFlight(t, k, g, "/served")
		defer finish(c, p)
	}
}

func TestAClientThatDisconnectsInTheConnectQueueFreesItsPositionAndIsNotForwarded(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=0", "UPSTREAM_WAIT=60s", "UPSTREAM_RESTART_WAIT=60s")
	for _, leave := range []func(*client){(*client).close, (*client).abort, (*client).closeWrite} {
		leaver := queued(t, g, "/leaver")
		dial(t, g).get("/refused").plainError(503, "pending request queue full\n")
		leave(leaver)
		var newcomer *client
		eventually(t, "the slot is free", func() bool {
			newcomer = queued(t, g, "/newcomer")
			return !newcomer.pending()
		})
		k.listen()
		finish(newcomer, k.acceptFor("/newcomer"))
		k.unseen("the request of the disconnected client")
		k.unlisten()
	}
}

func TestProbesGetResponsesWhileRequestsAreInTheConnectQueue(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k)
	waiting := queued(t, g, "/held")
	dial(t, g).get("/", "K-Network-Probe: probe", "K-Network-Hash: h").is(200, "")
	dial(t, g).get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
	k.listen()
	finish(waiting, k.acceptFor("/held"))
}

func TestTrafficDoesNotWaitForReadiness(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, `SERVING_READINESS_PROBE={"tcpSocket":{"port":1,"host":"127.0.0.1"}}`, "READINESS_WAIT=10ms")
	dial(t, g).get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(503, "")
	c, p := inFlight(t, k, g, "/")
	finish(c, p)
}

func TestARequestIsQueuedWhileTheContainerRestarts(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "UPSTREAM_RESTART_WAIT=60s")
	c, p := reused(t, k, g)
	k.unlisten()
	p.close()
	c.send(request("GET", "/held"))
	g.awaitRead(c)
	if c.pending() {
		t.Fatal("the request got a response while the container restarted")
	}
	k.listen()
	finish(c, k.acceptFor("/held"))
}

func TestARequestQueuedDuringARestartExpiresAfterUpstreamRestartWait(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "UPSTREAM_WAIT=60s", "UPSTREAM_RESTART_WAIT=300ms")
	c, p := reused(t, k, g)
	k.unlisten()
	p.close()
	start := time.Now()
	a := c.get("/held")
	a.plainError(503, "user container is not listening\n")
	a.field("Retry-After", "1")
	checkElapsed(t, start, 300*time.Millisecond)
}
