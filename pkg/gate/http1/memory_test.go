package http1

import (
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

func TestHeadsShareABudgetBeyondTheirFirst8KiB(t *testing.T) {
	r := newRig(t, exchange.Config{HeadMemory: 64 << 10}, options{}, func(c *containerRequest) bool { return c.respond("ok") })
	head := func(n int) string { return "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("v", n) }
	first := r.client()
	// The head needs a buffer of 64 KiB. The first 8 KiB are not charged to the budget.
	first.send(head(40 << 10))
	testkit.Until(t, "the first head to be charged", func() bool { return r.gate.Heads.Used() == 56<<10 })
	for range 3 {
		rejected := r.client()
		rejected.send(head(20 << 10))
		a := rejected.wantReply(gate.OutOfMemoryBudget)
		if a.header.Get("Retry-After") != "1" || a.body != "out of buffer memory\n" {
			t.Errorf("Retry-After %q, body %q", a.header.Get("Retry-After"), a.body)
		}
		rejected.wantEnd()
		r.client().send(head(6<<10)+"\r\n\r\n").want(200, "ok") // below 8 KiB: not charged
	}
	first.send("\r\n\r\n").want(200, "ok")
	first.send(head(50<<10)+"\r\n\r\n").want(200, "ok")
	testkit.Until(t, "the budget to be free", func() bool { return r.gate.Heads.Used() == 0 })
	r.client().send(head(20<<10)+"\r\n\r\n").want(200, "ok")
	testkit.Until(t, "all memory to be released", func() bool { return r.gate.Heads.Used() == 0 && r.gate.Bodies.Used() == 0 })
}

// A client could otherwise occupy unlimited memory with long heads whose responses it
// does not read.
func TestAHeadStaysInTheBudgetUntilItsResponseEnds(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, exchange.Config{HeadMemory: 64 << 10}, options{}, func(c *containerRequest) bool {
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		c.await(release)
		c.write("ok")
		return true
	})
	head := "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("v", 40<<10) + "\r\n\r\n"
	first := r.client()
	first.send(head)
	if _, err := first.in.Peek(1); err != nil { // the response has begun
		t.Fatal(err)
	}
	if used := r.gate.Heads.Used(); used != 56<<10 {
		t.Errorf("%d bytes in use, want %d", used, 56<<10)
	}
	r.client().send(head).wantReply(gate.OutOfMemoryBudget)
	close(release)
	first.want(200, "ok")
	testkit.Until(t, "the budget to be free", func() bool { return r.gate.Heads.Used() == 0 })
}

// When the memory of a head has been returned to the budget, no session may keep a
// reference to this head. This applies to a session that waits for its next head and to a
// session on the free list.
func TestALongHeadIsReleasedAfterItsResponse(t *testing.T) {
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool { return c.respond("ok") })
	head := "GET /long HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("v", 40<<10) + "\r\n\r\n"
	e := r.engines[0]
	dropped := func(find func() *session) func() bool {
		return func() bool {
			found := make(chan bool, 1)
			e.loop.Post(func() {
				s := find()
				found <- s != nil && s.x.Target == nil && s.req.Raw == nil && s.headMemory == 0
			})
			return testkit.Receive(t, "the loop", found)
		}
	}
	c := r.client()
	c.send(head+"GE").want(200, "ok")
	testkit.Until(t, "a session that waits for the rest of the next head to drop the long head", dropped(func() *session {
		if e.reading.First() == nil {
			return nil
		}
		return e.reading.First().session
	}))
	c.send("T / HTTP/1.1\r\nHost: a\r\n\r\n").want(200, "ok")
	c.send(head).want(200, "ok")
	testkit.Until(t, "a free session to drop its head", dropped(func() *session {
		s := e.sessions.Get()
		if s != nil {
			e.sessions.Put(s)
		}
		return s
	}))
}

func TestBodiesUseSmallBuffersWhenTheBudgetIsExhausted(t *testing.T) {
	body := strings.Repeat("0123456789", 100_000)
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool { return c.respond(body) })
	rest := r.gate.Bodies.Limit()
	if !r.gate.Bodies.Acquire(rest) {
		t.Fatal("the budget is in use")
	}
	for range 3 {
		r.client().get("/").want(200, body)
		r.client().post("/", body).want(200, body)
	}
	r.gate.Bodies.Release(rest)
	r.client().get("/").want(200, body)
	testkit.Until(t, "all memory to be released", func() bool { return r.gate.Bodies.Used() == 0 })
}
