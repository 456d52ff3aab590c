package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func queuedWith(t *testing.T, g *gate, path string, fields ...string) *client {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", path, fields...))
	g.awaitRead(c)
	return c
}

// inOrder finishes the requests one by one. The container must receive the queued
// requests in this order.
func inOrder(t *testing.T, k *container, c *client, p *peer, waiting map[string]*client, order ...string) {
	t.Helper()
	for _, path := range order {
		finish(c, p)
		c, p = waiting[path], k.acceptFor(path)
	}
	finish(c, p)
}

func TestTheFairQueueAlternatesBetweenKeys(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_FAIR_BY=header:X-Tenant")
	c, p := inFlight(t, k, g, "/0")
	waiting := map[string]*client{}
	for _, path := range []string{"/a1", "/a2", "/a3", "/b1", "/b2"} {
		waiting[path] = queuedWith(t, g, path, "X-Tenant: "+path[1:2])
	}
	// In FIFO order /b1 would be fourth. The order after /b1 depends on the time for
	// which each slot was used.
	order := ""
	for range 5 {
		finish(c, p)
		p = k.accept()
		path := strings.Fields(parseHead(t, p.head()).line)[1]
		order, c = order+path, waiting[path]
	}
	finish(c, p)
	before := func(a, b string) bool { return strings.Index(order, a) < strings.Index(order, b) }
	if !strings.HasPrefix(order, "/a1/b1") || !before("/a2", "/a3") || !before("/b1", "/b2") {
		t.Errorf("the container saw %s", order)
	}
}

func TestAFullFairQueueShedsTheNewestRequestOfTheKeyWithMostQueued(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=3", "QUEUE_FAIR_BY=path:1")
	c, p := inFlight(t, k, g, "/0")
	waiting := map[string]*client{}
	for _, path := range []string{"/flood/1", "/flood/2", "/flood/3"} {
		waiting[path] = queued(t, g, path)
	}
	dial(t, g).get("/flood/4").plainError(503, "pending request queue full\n")
	waiting["/quiet/1"] = queued(t, g, "/quiet/1")
	waiting["/flood/3"].response("GET").plainError(503, "pending request queue full\n")
	inOrder(t, k, c, p, waiting, "/flood/1", "/quiet/1", "/flood/2")
}

func TestAHigherPriorityIsAdmittedFirstAndALowerOneIsShed(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=3", "QUEUE_PRIORITY_BY=header:Priority")
	c, p := inFlight(t, k, g, "/0")
	waiting := map[string]*client{
		"/low":     queuedWith(t, g, "/low", "Priority: u=6"),
		"/usual":   queuedWith(t, g, "/usual"),
		"/usual/2": queuedWith(t, g, "/usual/2"),
	}
	waiting["/high"] = queuedWith(t, g, "/high", "Priority: u=0, i")
	waiting["/low"].response("GET").plainError(503, "pending request queue full\n")
	dial(t, g).get("/low/2", "Priority: 7").plainError(503, "pending request queue full\n")
	inOrder(t, k, c, p, waiting, "/high", "/usual", "/usual/2")
}

func TestAQueuedRequestIsRejectedAtItsDeadline(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_DEADLINE_BY=header:X-Timeout")
	c, p := inFlight(t, k, g, "/0")
	start := time.Now()
	w := dial(t, g)
	a := w.get("/late", "X-Timeout: 300ms")
	a.plainError(504, "deadline exceeded\n")
	a.field("K-Gate-Outcome", "deadline-exceeded")
	if waited := time.Since(start); waited < 290*time.Millisecond {
		t.Errorf("rejected after %v, want 300ms", waited)
	}
	k.unseen("a request whose deadline has passed")
	finish(c, p)
	w.send(request("GET", "/2", "X-Timeout: 100S"))
	finish(w, k.acceptFor("/2"))
}

// 64 clients send their uploads slowly, in 1.2 s. This must not count as service time, so
// a later request with a deadline of 1 s is started.
func TestServiceTimeExcludesSlowUploads(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "QUEUE_DEADLINE_BY=header:X-Timeout")
	var clients []*client
	for i := range 64 {
		c := dial(t, g)
		c.send(request("POST", fmt.Sprintf("/%d", i), "Content-Length: 4") + "a")
		clients = append(clients, c)
	}
	for _, piece := range []string{"b", "c", "d"} {
		time.Sleep(400 * time.Millisecond)
		for _, c := range clients {
			c.send(piece)
		}
	}
	for range clients {
		p := k.accept()
		p.head()
		p.expect("abcd")
		p.send(okClose)
		p.close()
	}
	for _, c := range clients {
		c.response("POST").is(200, "ok")
	}
	// Send all five requests before the first one gets its response. This response has a
	// short service time, which changes the gate's estimate. For requests sent after it,
	// the estimate would no longer depend on the uploads alone.
	var quick []*client
	for range 5 {
		c := dial(t, g)
		c.send(request("GET", "/quick", "X-Timeout: 1s"))
		quick = append(quick, c)
	}
	for range quick {
		p := k.acceptFor("/quick")
		p.send(okClose)
		p.close()
	}
	for _, c := range quick {
		c.response("GET").is(200, "ok")
	}
}

func TestAHugeDeadlineOfARequestIsAcceptedInsteadOfOverflowing(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "QUEUE_DEADLINE_BY=header:X-Timeout:ms")
	for _, timeout := range []string{"99999999H", "99999999999999999999", "2562047h"} {
		c := dial(t, g)
		c.send(request("GET", "/", "X-Timeout: "+timeout))
		finish(c, k.acceptFor("/"))
	}
	a := dial(t, g).get("/", "X-Timeout: 0")
	a.plainError(504, "deadline exceeded\n")
}

func TestRetryAfterIsAsLongAsTheQueueNeedsToDrain(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=2", "QUEUE_RETRY_AFTER=measured")
	c, p := inFlight(t, k, g, "/0")
	one, two := queued(t, g, "/1"), queued(t, g, "/2")
	retryAfter := func() int {
		a := dial(t, g).get("/refused")
		a.plainError(503, "pending request queue full\n")
		seconds, err := strconv.Atoi(a.get("Retry-After"))
		must(t, err)
		return seconds
	}
	if first := retryAfter(); first != 1 {
		t.Errorf("Retry-After %d before anything is known, want 1", first)
	}
	time.Sleep(1200 * time.Millisecond) // no slot is released in this time
	if later := retryAfter(); later < 2 || later > 60 {
		t.Errorf("Retry-After %d with two queued requests and no released slot for more than a second, want 2 or more", later)
	}
	finish(c, p)
	finish(one, k.acceptFor("/1"))
	finish(two, k.acceptFor("/2"))
}

func TestAnAutoLimitStartsSmallAndGrowsWithUse(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=auto:2-40")
	limit := func() float64 { return figures(g, page)["queuegate_concurrency_limit"] }
	if got := limit(); got != 4 {
		t.Fatalf("a limit of %v at the start, want 4", got)
	}
	// Serve four requests at a time until the limit changes.
	var clients []*client
	for range 8 {
		clients = append(clients, dial(t, g))
	}
	for deadline := time.Now().Add(testTimeout); limit() <= 4; {
		if time.Now().After(deadline) {
			t.Fatalf("the limit is still %v", limit())
		}
		for i, c := range clients {
			c.send(request("GET", fmt.Sprintf("/%d", i)))
		}
		for range clients {
			p := k.accept()
			p.head()
			time.Sleep(time.Millisecond)
			p.send(okClose)
			p.close()
		}
		for _, c := range clients {
			c.response("GET").is(200, "ok")
		}
	}
}

func TestSlowerReadinessProbesReduceAnAutoLimit(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	var slow atomic.Bool
	a.listen(func(l net.Listener) {
		_ = (&http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/held":
				<-r.Context().Done()
			case slow.Load():
				time.Sleep(500 * time.Millisecond)
			}
		})}).Serve(l)
	})
	mp := freePort(t)
	g := startGateFor(t, a, fmt.Sprintf(`{"httpGet":{"port":%d}}`, a.port), "CONTAINER_CONCURRENCY=auto", "READINESS_FRESHNESS=10ms",
		fmt.Sprintf("METRICS_PORT=%d", mp))
	page := fmt.Sprintf("127.0.0.1:%d", mp)
	g.awaitPorts(page)
	for range 5 {
		g.becomesReady(activator)
	}
	for range 4 {
		c := dial(t, g)
		defer c.close()
		c.send(request("GET", "/held"))
	}
	// On a busy machine some readiness checks are slow from the beginning. Then the limit
	// is already less than 4.
	eventually(t, "all slots are in use", func() bool {
		f := figures(g, page)
		return f["queuegate_in_flight_requests"] == min(4, f["queuegate_concurrency_limit"])
	})
	slow.Store(true)
	eventually(t, "the limit is below its initial value", func() bool {
		g.ask(activator)
		return figures(g, page)["queuegate_concurrency_limit"] < 4
	})
}

func TestScrapesForUnlimitedPathsSkipTheQueue(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1", "UNLIMITED_PATHS=/metrics,/health/*", "UNLIMITED_CAPACITY=2")
	c, p := inFlight(t, k, g, "/stream")
	waiting := queued(t, g, "/waiting")
	dial(t, g).get("/rejected").plainError(503, "pending request queue full\n")
	for _, path := range []string{"/metrics", "/metrics?a", "/health/live"} {
		scraper := dial(t, g)
		scraper.send(request("GET", path))
		finish(scraper, k.acceptFor(path))
	}
	one, first := inFlight(t, k, g, "/metrics")
	two, second := inFlight(t, k, g, "/health/ready")
	a := dial(t, g).get("/metrics")
	a.plainError(503, "pending request queue full\n")
	a.field("K-Gate-Outcome", "queue-full")
	finish(one, first)
	finish(two, second)
	dial(t, g).get("/health/../stream").plainError(503, "pending request queue full\n")
	finish(c, p)
	finish(waiting, k.acceptFor("/waiting"))
	// Requests for unlimited paths are counted only if they are rejected. The two counted
	// responses are those for /stream and /waiting.
	eventually(t, "two responses and three rejections", func() bool {
		f := figures(g, page)
		return f[`queuegate_request_outcomes_total{outcome="served"}`] == 2 && f[`queuegate_request_outcomes_total{outcome="queue-full"}`] == 3
	})
}

func TestTheStatusOfAQueueRejectionIsConfigurable(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1", "QUEUE_MAX_WAIT=50ms", "QUEUE_REFUSAL_STATUS=429")
	c, p := inFlight(t, k, g, "/0")
	waiting := queued(t, g, "/waiting")
	expired := waiting.response("GET")
	expired.plainError(429, "queue wait expired\n")
	expired.field("Retry-After", "1")
	finish(c, p)
	f := figures(g, page)
	if n := f[`queuegate_request_outcomes_total{outcome="queue-wait-expired"}`]; n != 1 {
		t.Errorf("%v requests are counted as queue-wait-expired", n)
	}
}
