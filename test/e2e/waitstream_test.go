package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const (
	waitComment   = ": queuegate waiting\n\n"
	eventStreamOK = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nX-Of: container\r\nTransfer-Encoding: chunked\r\n\r\n"
	events        = "data: 1\n\n: of the container\n\ndata: [DONE]\n\n"
)

// chunksOf frames body as two chunks.
func chunksOf(body string) string {
	half := len(body) / 2
	return fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, body[:half], len(body)-half, body[half:])
}

// completion is a request for an event stream, as sent by clients of model servers.
func completion(path string, fields ...string) string {
	const body = `{"stream":true}`
	fields = append([]string{"Accept: text/event-stream", "Accept-Encoding: gzip, br", fmt.Sprintf("Content-Length: %d", len(body))}, fields...)
	return request("POST", path, fields...) + body
}

// acceptCompletion accepts a connection, and fails unless its request is a completion
// with this path. The gate must have removed Accept-Encoding, because it can continue an
// event stream only with a body that is not encoded.
func (k *container) acceptCompletion(path string) *peer {
	k.t.Helper()
	p := k.accept()
	head := parseHead(k.t, p.head())
	if head.line != "POST "+path+" HTTP/1.1" {
		k.t.Fatalf("the container got %q", head.line)
	}
	head.lacks("Accept-Encoding")
	head.field("Accept", "text/event-stream")
	p.expect(`{"stream":true}`)
	return p
}

// promised waits for the head of an event stream that the gate begins before the
// container responds (WAIT_KEEPALIVE). The tests call this a promise.
func (c *client) promised() {
	c.t.Helper()
	a := parseHead(c.t, c.head())
	if a.status != 200 {
		c.t.Fatalf("got %s, want the head of an event stream", shorten(a.head))
	}
	a.field("Content-Type", "text/event-stream")
	a.field("Cache-Control", "no-cache")
	a.field("Transfer-Encoding", "chunked")
	a.lacks("Content-Length", "X-Of", "K-Gate-Outcome", "Proxy-Status", "Server-Timing")
	if got := c.chunk(); !strings.HasPrefix(got, waitComment) || strings.Trim(strings.ReplaceAll(got, waitComment, ""), "\n") != "" {
		c.t.Fatalf("got %s, want comments", shorten(got))
	}
}

// continued reads the event stream to its end. It fails unless the stream without the
// gate's comments is equal to body and has no trailers.
func (c *client) continued(body string) {
	c.t.Helper()
	got, trailers := c.chunked()
	if rest := strings.ReplaceAll(got, waitComment, ""); rest != body || trailers != "" {
		c.t.Fatalf("got %s and trailers %q, want comments and %s", shorten(got), trailers, shorten(body))
	}
}

// errorEvent reads the event stream to its end. It fails unless the stream without the
// gate's comments is one error event with this outcome and message.
func (c *client) errorEvent(outcome, message string) {
	c.t.Helper()
	got, _ := c.chunked()
	data, ok := strings.CutPrefix(strings.ReplaceAll(got, waitComment, ""), "event: error\ndata: ")
	var event struct {
		Error struct{ Message, Type, Code string }
	}
	if err := json.Unmarshal([]byte(data), &event); !ok || err != nil || !strings.HasSuffix(data, "}}\n\n") || strings.Count(data, "\n") != 2 {
		c.t.Fatalf("got %s, want an error event (%v)", shorten(got), err)
	}
	if e := event.Error; e.Type != "queuegate" || e.Code != outcome || e.Message != message {
		c.t.Fatalf("got %+v, want %s: %s", e, outcome, message)
	}
}

func TestAQueuedClientIsPromisedAnEventStreamThatTheContainerContinues(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "WAIT_KEEPALIVE=100ms", "SERVER_TIMING=true")
	c, p := inFlight(t, k, g, "/0")
	waiting := dial(t, g)
	waiting.send(completion("/v1/chat/completions"))
	waiting.promised()
	k.unseen("a queued request")
	finish(c, p)
	p = k.acceptCompletion("/v1/chat/completions")
	p.send(eventStreamOK + chunksOf(events))
	waiting.continued(events)
	waiting.send(request("GET", "/next"))
	if got := parseHead(t, p.head()).line; got != "GET /next HTTP/1.1" {
		t.Fatalf("the container got %q", got)
	}
	finish(waiting, p)
}

func TestAnEventStreamIsPromisedDuringAColdStart(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "WAIT_KEEPALIVE=100ms", "UPSTREAM_WAIT=5m")
	c := dial(t, g)
	c.send(request("GET", "/events", "Accept: text/event-stream"))
	c.promised()
	k.listen()
	p := k.acceptFor("/events")
	p.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: 1\n\n")
	c.continued("data: 1\n\n")
}

func TestTheGateBeginsAnEventStreamBeforeTheContainerResponds(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "WAIT_KEEPALIVE=100ms")
	c := dial(t, g)
	c.send(completion("/1"))
	p := k.acceptCompletion("/1")
	c.promised()
	p.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + eventStreamOK)
	p.send(chunksOf(events))
	c.continued(events)
}

func TestAResponseBeforeThePromiseIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	c := dial(t, startGate(t, k, "WAIT_KEEPALIVE=1h"))
	c.send(completion("/1"))
	p := k.acceptCompletion("/1")
	p.send("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nslow")
	a := c.response("POST")
	a.is(429, "slow")
	if a.has("Cache-Control") {
		t.Errorf("head %s", a.head)
	}
}

func TestAfterAPromisedEventStreamAnyOtherResponseBecomesAnErrorEvent(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "WAIT_KEEPALIVE=100ms")
	for i, c := range []struct{ response, message string }{
		{"HTTP/1.1 404 Not Found\r\nContent-Type: text/event-stream\r\nContent-Length: 2\r\n\r\nno", "upstream did not respond with an event stream: status 404"},
		{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", "upstream did not respond with an event stream: status 200"},
		{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "upstream did not respond with an event stream: status 200"},
	} {
		client := dial(t, g)
		client.send(completion("/1"))
		p := k.acceptCompletion("/1")
		client.promised()
		p.send(c.response)
		client.errorEvent("not-event-stream", c.message)
		client.send(request("GET", "/next"))
		finish(client, k.acceptFor("/next"))
		if n := figures(g, page)[`queuegate_request_outcomes_total{outcome="not-event-stream"}`]; n != float64(i+1) {
			t.Errorf("%d responses, %v counted", i+1, n)
		}
	}
}

func TestAFailureAfterAPromiseIsAnErrorEvent(t *testing.T) {
	t.Parallel()
	ends := func(t *testing.T, g *gate, outcome, message string) {
		t.Helper()
		c := dial(t, g)
		c.send(completion("/1"))
		c.promised()
		c.errorEvent(outcome, message)
	}
	t.Run("the container closes the connection", func(t *testing.T) {
		k := startContainer(t)
		g := startGate(t, k, "WAIT_KEEPALIVE=100ms")
		c := dial(t, g)
		c.send(completion("/1"))
		p := k.acceptCompletion("/1")
		c.promised()
		p.close()
		c.errorEvent("upstream-closed", "upstream closed the connection")
	})
	t.Run("the queue wait expires", func(t *testing.T) {
		k := startContainer(t)
		g := startGate(t, k, "WAIT_KEEPALIVE=100ms", "CONTAINER_CONCURRENCY=1", "QUEUE_MAX_WAIT=500ms")
		c, p := inFlight(t, k, g, "/0")
		ends(t, g, "queue-wait-expired", "queue wait expired")
		finish(c, p)
	})
	t.Run("the container does not listen", func(t *testing.T) {
		ends(t, startGate(t, startSilentContainer(t), "WAIT_KEEPALIVE=100ms", "UPSTREAM_WAIT=500ms"), "upstream-not-listening", "user container is not listening")
	})
	t.Run("the response-start timeout expires", func(t *testing.T) {
		ends(t, startGate(t, startContainer(t), "WAIT_KEEPALIVE=100ms", "REVISION_RESPONSE_START_TIMEOUT_SECONDS=1"), "response-start-timeout", "request timeout")
	})
	t.Run("the request timeout expires", func(t *testing.T) {
		ends(t, startGate(t, startContainer(t), "WAIT_KEEPALIVE=100ms", "REVISION_TIMEOUT_SECONDS=1"), "request-timeout", "request timeout")
	})
}

func TestAnEventStreamThatTheContainerTruncatesIsTruncatedAfterAPromise(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "WAIT_KEEPALIVE=100ms")
	c := dial(t, g)
	c.send(completion("/1"))
	p := k.acceptCompletion("/1")
	c.promised()
	p.send(eventStreamOK + "5\r\ndata:\r\n")
	p.close()
	got, _ := c.readAll()
	if !strings.Contains(got, "data:") || strings.Contains(got, "event: error") || strings.HasSuffix(got, "0\r\n\r\n") {
		t.Errorf("got %s, want the part of the stream and no end", shorten(got))
	}
}

func TestAnIdempotentRequestIsRetriedAfterAPromise(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "WAIT_KEEPALIVE=100ms")
	c := dial(t, g)
	c.send(request("GET", "/1"))
	p := k.acceptFor("/1")
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	c.response("GET").is(200, "ok")
	c.send(request("GET", "/2", "Accept: text/event-stream"))
	if got := parseHead(t, p.head()).line; got != "GET /2 HTTP/1.1" {
		t.Fatalf("the container got %q", got)
	}
	c.promised()
	p.close()
	k.acceptFor("/2").send(eventStreamOK + chunksOf(events))
	c.continued(events)
}

func TestAClientThatDisconnectsAfterAPromiseFreesItsPositionAndItsSlot(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1", "WAIT_KEEPALIVE=100ms")
	for closeKind, leave := range map[string]func(*client){"close": (*client).close, "reset": (*client).abort} {
		c, p := inFlight(t, k, g, "/0")
		leaver := dial(t, g)
		leaver.send(completion("/leaver"))
		leaver.promised()
		leave(leaver)
		eventually(t, closeKind+": none queued", func() bool { return queueDepth(figures(g, page)) == 0 })
		finish(c, p)
		k.unseen("the request of the client that left")

		leaver = dial(t, g)
		leaver.send(completion("/leaver"))
		p = k.acceptCompletion("/leaver")
		leaver.promised()
		leave(leaver)
		p.awaitClose()
		finish(inFlight(t, k, g, "/next"))
	}
}

func TestAnEventStreamIsPromisedOnlyToRequestsThatPreferEventStreams(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=1", "WAIT_KEEPALIVE=100ms")
	c, p := inFlight(t, k, g, "/0")
	var others []*client
	for _, head := range []string{
		request("GET", "/1"),
		request("GET", "/1", "Accept: */*"),
		request("GET", "/1", "Accept: text/*"),
		request("GET", "/1", "Accept: text/event-stream;q=0"),
		request("GET", "/1", "Accept: application/json, text/event-stream"),
		request("HEAD", "/1", "Accept: text/event-stream"),
		request("PUT", "/1", "Accept: text/event-stream", "Content-Length: 0"),
		request("POST", "/1", "Accept: text/event-stream", "Content-Length: 2") + "a",
	} {
		other := dial(t, g)
		other.send(head)
		g.awaitRead(other)
		others = append(others, other)
	}
	last := dial(t, g)
	last.send(request("GET", "/last", "Accept: application/json;q=0.9, text/event-stream, */*;q=0.1"))
	last.promised()
	for i, other := range others {
		if other.pending() {
			t.Errorf("request %d got %s", i, shorten(other.some()))
		}
		other.abort()
	}
	costGate{g, page}.reports("kn_serving_queue_depth", 1)
	finish(c, p)
	k.acceptFor("/last").send(eventStreamOK + chunksOf(events))
	last.continued(events)
}

func TestAnEventStreamPromisedToAnHTTP10ClientEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "WAIT_KEEPALIVE=100ms")
	for _, r := range []struct{ response, want string }{
		{"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", "event: error\n"},
		{eventStreamOK + chunksOf(events), events},
	} {
		c := dial(t, g)
		c.send("GET /1 HTTP/1.0\r\nHost: gate.test\r\nAccept: text/event-stream\r\nConnection: keep-alive\r\n\r\n")
		p := k.acceptFor("/1")
		a := parseHead(t, c.head())
		a.field("Content-Type", "text/event-stream")
		a.lacks("Transfer-Encoding", "Content-Length")
		p.send(r.response)
		if got, err := c.readAll(); err != nil || !strings.HasPrefix(strings.ReplaceAll(got, waitComment, ""), r.want) {
			t.Errorf("got %s (%v), want %s", shorten(got), err, shorten(r.want))
		}
	}
}

// The gate does not read the body of a queued request, so the rest of the prompt stays in
// kernel buffers.
func TestAQueuedClientWithALongPromptInKernelBuffersIsPromisedAnEventStream(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "WAIT_KEEPALIVE=100ms", "QUEUE_MAX_WAIT=2m")
	c, p := inFlight(t, k, g, "/0")
	waiting := dial(t, g)
	prompt := strings.Repeat("0123456789abcdef", 40<<10/16)
	waiting.send(request("POST", "/1", "Accept: text/event-stream", fmt.Sprintf("Content-Length: %d", len(prompt))) + prompt)
	waiting.promised()
	finish(c, p)
	p = k.accept()
	p.head()
	p.expect(prompt)
	p.send(eventStreamOK + chunksOf(events))
	waiting.continued(events)
}

func TestANavigationThatWaitsGetsAPageThatLoadsItselfAgain(t *testing.T) {
	t.Parallel()
	const navigation = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=1", "WAIT_PAGE=100ms")
	c, p := inFlight(t, k, g, "/0")
	var others []*client
	for _, head := range []string{
		request("GET", "/1", "Accept: */*"),
		request("GET", "/1", navigation, "Sec-Fetch-Mode: cors"),
		request("POST", "/1", navigation, "Content-Length: 0"),
	} {
		other := dial(t, g)
		other.send(head)
		g.awaitRead(other)
		others = append(others, other)
	}
	browser := dial(t, g)
	a := browser.get("/", navigation, "Sec-Fetch-Mode: navigate")
	if a.status != 503 || !strings.Contains(a.body, `<meta http-equiv="refresh" content="2">`) {
		t.Fatalf("got %d %s", a.status, shorten(a.body))
	}
	a.field("Content-Type", "text/html; charset=utf-8")
	a.field("Cache-Control", "no-store")
	a.field("Retry-After", "2")
	a.field("K-Gate-Outcome", "waiting-page")
	a.byGate()
	for i, other := range others {
		if other.pending() {
			t.Errorf("request %d got %s", i, shorten(other.some()))
		}
		other.abort()
	}
	eventually(t, "none queued", func() bool { return queueDepth(figures(g, page)) == 0 })
	finish(c, p)
	k.unseen("a navigation that got the page")
	browser.send(request("GET", "/2", navigation)) // the container has the request, so the gate sends no page
	p = k.acceptFor("/2")
	queuedBrowser := dial(t, g)
	if a := queuedBrowser.get("/3", navigation); a.status != 503 {
		t.Fatalf("got %d", a.status)
	}
	if browser.pending() {
		t.Errorf("got %s", shorten(browser.some()))
	}
	finish(browser, p)
}

func TestANavigationGetsAPageDuringAColdStart(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "WAIT_PAGE=100ms", "UPSTREAM_WAIT=5m")
	c := dial(t, g)
	a := c.get("/", "Accept: text/html")
	if a.status != 503 || a.get("K-Gate-Outcome") != "waiting-page" {
		t.Fatalf("got %s", a.head)
	}
	k.listen()
	c.send(request("GET", "/", "Accept: text/html"))
	finish(c, k.acceptFor("/"))
}
