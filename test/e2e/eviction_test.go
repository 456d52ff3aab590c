package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// errorEvent is the end of an evicted event stream.
const errorEvent = "event: error\ndata: {\"error\":{\"message\":\"evicted by a request of a higher priority\",\"type\":\"overloaded_error\",\"code\":\"evicted\"}}\n\n"

// evicting starts a gate with one slot. Its requests of class 6 and 7 may be evicted
// after 100 ms.
func evicting(t *testing.T, k *container, settings ...string) *gate {
	t.Helper()
	return startGate(t, k, append([]string{"CONTAINER_CONCURRENCY=1", "QUEUE_PRIORITY_BY=header:Priority", "QUEUE_EVICT=class>=6,after=100ms,rate=100"}, settings...)...)
}

func urgentRequest(t *testing.T, g *gate) *client {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", "/urgent", "Priority: 0"))
	return c
}

func TestAnOverdueRequestEvictsTheYoungestSheddableOne(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := evicting(t, k, "CONTAINER_CONCURRENCY=3")
	older, atOlder := admittedWith(t, k, g, "/older", "Priority: 7")
	victim, atVictim := admittedWith(t, k, g, "/victim", "Priority: 6")
	admitted, atAdmitted := admittedWith(t, k, g, "/kept", "Priority: 5")
	urgent := urgentRequest(t, g)
	a := victim.response("GET")
	a.plainError(503, "evicted by a request of a higher priority\n")
	a.field("K-Gate-Outcome", "evicted")
	a.field("Retry-After", "1")
	a.field("Proxy-Status", `queuegate; error=connection_limit_reached; details="evicted by a request of a higher priority"`)
	atVictim.awaitClose()
	finish(urgent, k.acceptFor("/urgent"))
	finish(older, atOlder)
	finish(admitted, atAdmitted)
	// The victim's connection stays open.
	victim.send(request("GET", "/again", "Priority: 6"))
	finish(victim, k.acceptFor("/again"))
}

func TestTheStatusOfAnEvictionIsConfigurable(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := evicting(t, k, "QUEUE_REFUSAL_STATUS=429")
	victim, _ := admittedWith(t, k, g, "/victim", "Priority: 6")
	urgent := urgentRequest(t, g)
	victim.response("GET").plainError(429, "evicted by a request of a higher priority\n")
	finish(urgent, k.acceptFor("/urgent"))
}

func TestAResponseCutByAnEvictionIsVisiblyIncomplete(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := evicting(t, k)
	for name, c := range map[string]struct {
		minor, head, body, received string
		reset                       bool
	}{
		"chunked":         {"1", "Transfer-Encoding: chunked\r\n", "4\r\npart\r\n", "4\r\npart\r\n", false},
		"length":          {"1", "Content-Length: 100\r\n", "part", "part", false},
		"until close":     {"0", "Transfer-Encoding: chunked\r\n", "4\r\npart\r\n", "part", true},
		"event stream":    {"1", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", "9\r\ndata: a\n\n\r\n", "9\r\ndata: a\n\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(errorEvent), errorEvent), false},
		"within an event": {"1", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", "8\r\ndata: a\n\r\n", "8\r\ndata: a\n\r\n", false},
	} {
		victim := dial(t, g)
		victim.send("GET /victim HTTP/1." + c.minor + "\r\nHost: gate.test\r\nPriority: 7\r\n\r\n")
		p := k.acceptFor("/victim")
		p.send("HTTP/1.1 200 OK\r\n" + c.head + "\r\n" + c.body)
		victim.head()
		urgent := urgentRequest(t, g)
		body, err := victim.readAll()
		if reset := err != nil && isReset(err); reset != c.reset || !c.reset && body != c.received {
			t.Errorf("%s: the client received %q, %v; want %q", name, body, err, c.received)
		}
		p.awaitClose()
		finish(urgent, k.acceptFor("/urgent"))
	}
}

// evictedOver2 sends a request over HTTP/2, and evicts it. If the parameter response is
// not empty, the container sends that text before the eviction. The results are the
// response, body and error that the client gets.
func evictedOver2(t *testing.T, k *container, g *gate, response string, fields ...string) (res *http.Response, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.addr+"/victim", nil)
	must(t, err)
	for _, f := range append(fields, "Priority: 7") {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	done := make(chan struct{})
	headSeen := make(chan struct{})
	go func() {
		defer close(done)
		if res, err = h2Client(t, nil).Do(r); err != nil {
			return
		}
		close(headSeen)
		defer res.Body.Close()
		var b []byte
		b, err = io.ReadAll(res.Body)
		body = string(b)
	}()
	p := k.acceptFor("/victim")
	if response != "" {
		p.send(response)
		<-headSeen
	}
	urgent := urgentRequest(t, g)
	<-done
	finish(urgent, k.acceptFor("/urgent"))
	return res, body, err
}

func TestAnEvictedRequestOverHTTP2GetsAReplyOrAReset(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := evicting(t, k, "UPSTREAM_PROTOCOL=http1")
	res, body, err := evictedOver2(t, k, g, "")
	if err != nil || res.StatusCode != 503 || res.Header.Get("K-Gate-Outcome") != "evicted" || res.Header.Get("Retry-After") != "1" || body != "evicted by a request of a higher priority\n" {
		t.Errorf("before the head: %+v, %q, %v", res, body, err)
	}
	res, body, err = evictedOver2(t, k, g, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n")
	if err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR") || res.StatusCode != 200 || body != "part" {
		t.Errorf("after the head: %+v, %q, %v; want RST_STREAM", res, body, err)
	}
	_, body, err = evictedOver2(t, k, g, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n")
	if err == nil || body != "data: a\n\n"+errorEvent {
		t.Errorf("an event stream: %q, %v; want an error event and RST_STREAM", body, err)
	}
}

func TestAnEvictedGRPCCallIsAborted(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := evicting(t, k, "UPSTREAM_PROTOCOL=http1")
	fields := []string{"Content-Type: application/grpc", "Te: trailers"}
	res, _, err := evictedOver2(t, k, g, "", fields...)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "10" || res.Header.Get("K-Gate-Outcome") != "evicted" || res.Header.Get("Grpc-Retry-Pushback-Ms") != "1000" {
		t.Errorf("before the head: %+v, %v", res, err)
	}
	res, body, err := evictedOver2(t, k, g, "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n\x00\x00\x00\x00\x02hi\r\n", fields...)
	if err != nil || body != "\x00\x00\x00\x00\x02hi" || res.Trailer.Get("Grpc-Status") != "10" || res.Trailer.Get("K-Gate-Outcome") != "evicted" {
		t.Errorf("after the head: trailers %v, body %q, %v", res.Trailer, body, err)
	}
}

func TestWithAHardLimitAnEvictedRequestHoldsItsSlotUntilTheContainerCloses(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := evicting(t, k, "CONCURRENCY_HARD=true")
	victim, p := admittedWith(t, k, g, "/victim", "Priority: 6")
	urgent := urgentRequest(t, g)
	p.awaitClose() // the close cancels the request
	k.unseen("a request while the container works for an evicted one")
	p.close()
	victim.response("GET").plainError(503, "evicted by a request of a higher priority\n")
	finish(urgent, k.acceptFor("/urgent"))
}

// The gate sends a PING after RST_STREAM, and an HTTP/2 container acknowledges it.
func TestWithAHardLimitAnEvictedStreamHoldsItsSlotUntilTheResetIsAcknowledged(t *testing.T) {
	t.Parallel()
	events := make(chan string, 10)
	acknowledge := make(chan func() error, 1)
	g := gateBefore(t, h2Script(nil, func(c *h2ScriptConn, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			events <- f.PseudoValue("path")
			if f.PseudoValue("path") == "/urgent" {
				c.respond(f.StreamID, "ok")
			}
		case *http2.RSTStreamFrame:
			events <- f.ErrCode.String()
			// Until release is closed, the container does not read the frames after
			// HEADERS.
			release := make(chan struct{})
			acknowledge <- func() error { close(release); return nil }
			<-release
		}
		return true
	}), "CONTAINER_CONCURRENCY=1", "QUEUE_PRIORITY_BY=header:Priority", "QUEUE_EVICT=class>=6,after=100ms", "CONCURRENCY_HARD=true", "UPSTREAM_PROTOCOL=h2c")
	victim := h2Start(t, h2Client(t, nil), "http://"+g.addr+"/victim", "Priority: 6")
	if got := <-events; got != "/victim" {
		t.Fatalf("the container got %s", got)
	}
	urgent := h2Start(t, h2Client(t, nil), "http://"+g.addr+"/urgent", "Priority: 0")
	if got := <-events; got != "CANCEL" {
		t.Fatalf("the container got %s, want a reset", got)
	}
	select {
	case a := <-victim:
		t.Fatalf("the slot is released before the container has acknowledged the reset: %+v", a)
	default:
	}
	must(t, (<-acknowledge)())
	(<-victim).is(t, 503, "evicted by a request of a higher priority\n")
	if got := <-events; got != "/urgent" {
		t.Errorf("the container got %s", got)
	}
	(<-urgent).is(t, 200, "ok")
}

// The gate has sent the whole request, so it does not reset the stream when the client
// disconnects.
func TestWithAHardLimitAnAbandonedStreamCanBeEvicted(t *testing.T) {
	t.Parallel()
	events := make(chan string, 10)
	g := gateBefore(t, h2Script(nil, func(c *h2ScriptConn, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			events <- f.PseudoValue("path")
			if f.PseudoValue("path") == "/urgent" {
				c.respond(f.StreamID, "ok")
			}
		case *http2.RSTStreamFrame:
			events <- f.ErrCode.String()
		}
		return true
	}), "CONTAINER_CONCURRENCY=1", "QUEUE_PRIORITY_BY=header:Priority", "QUEUE_EVICT=class>=6,after=100ms", "CONCURRENCY_HARD=true", "UPSTREAM_PROTOCOL=h2c", "SERVING_LOGGING_LEVEL=debug")
	victim := dial(t, g)
	victim.send(request("GET", "/victim", "Priority: 6"))
	if got := <-events; got != "/victim" {
		t.Fatalf("the container got %s", got)
	}
	victim.close()
	eventually(t, "the gate notices the disconnect", func() bool { return strings.Contains(g.Stderr.String(), "abandoned") })
	dial(t, g).get("/urgent", "Priority: 0").is(200, "ok")
	for _, want := range []string{"CANCEL", "/urgent"} {
		if got := <-events; got != want {
			t.Errorf("the container got %s, want %s", got, want)
		}
	}
}

func TestTunnelsAndRequestsForUnlimitedPathsAreNotEvicted(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := evicting(t, k, "CONTAINER_CONCURRENCY=2", "UNLIMITED_PATHS=/free")
	tunnel := dial(t, g)
	tunnel.send(request("GET", "/ws", "Priority: 7", "Connection: Upgrade", "Upgrade: websocket"))
	inside := k.accept()
	inside.head()
	inside.send(switching)
	tunnel.head()
	free, atFree := admittedWith(t, k, g, "/free", "Priority: 7")
	victim, _ := admittedWith(t, k, g, "/victim", "Priority: 6")
	urgent := urgentRequest(t, g)
	victim.response("GET").plainError(503, "evicted by a request of a higher priority\n")
	atUrgent := k.acceptFor("/urgent")
	next := dial(t, g)
	next.send(request("GET", "/next", "Priority: 0"))
	tunnel.send("echo")
	inside.expect("echo")
	finish(urgent, atUrgent)
	finish(next, k.acceptFor("/next"))
	finish(free, atFree)
	tunnel.close()
	inside.awaitClose()
}
