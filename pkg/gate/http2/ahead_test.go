package http2

import (
	"net/http"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// The container may use a larger window as soon as it receives SETTINGS. A smaller one
// applies when it acknowledges them (RFC 9113 section 6.9.3).
func TestAnEnlargedWindowAppliesBeforeItsAcknowledgementAndAShrunkOneAfterIt(t *testing.T) {
	held, hold := make(chan struct{}), make(chan struct{})
	defer close(hold)
	r := newRig(t, serveH2C(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/blocked" {
			return
		}
		_ = http.NewResponseController(w).Flush()
		close(held)
		<-hold
	}))
	c := r.dial()
	id := c.get("/blocked")
	testkit.Receive(t, "the request", held)
	until(t, "the head", func() bool { return c.of(id).head != nil })
	up := func() *upConn { return r.part.pool.conns[0] }
	send := func(n int) {
		if err := up().conn.handle(frame(h2.Data, 0, up().table.open[0].id, strings.Repeat("x", n))); err != nil {
			t.Error(err)
		}
	}
	r.on(func() {
		r.part.pool.lowWindowUntil = r.part.loop.Now() + int64(testkit.Timeout)
		up().sendWindowSetting()
		// The container has not acknowledged the smaller window, so it may send more.
		send(minWindow + 1)
	})
	until(t, "an acknowledgement", func() (ok bool) {
		r.on(func() { ok = up().acks.Pending() == 0 && up().ackedWindow == minWindow })
		return ok
	})
	r.on(func() {
		r.part.pool.lowWindowUntil = 0
		up().sendWindowSetting()
		if up().acks.Pending() == 0 {
			t.Error("the window has not been enlarged")
		}
		send(1000)
	})
	until(t, "all bytes sent", func() bool { g := c.of(id); return g.size == minWindow+1+1000 || g.over() })
	if g := c.of(id); g.over() {
		t.Errorf("the stream has ended: %+v, %v", g, r.faults())
	}
}

// The window is shrunk individually for the stream, and then for all streams by SETTINGS.
func TestAWindowShrunkTwiceReopens(t *testing.T) {
	held, hold := make(chan struct{}), make(chan struct{})
	r := newRig(t, serveH2C(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/blocked" {
			_ = http.NewResponseController(w).Flush()
			close(held)
			<-hold
			_, _ = w.Write(make([]byte, 100_000))
		}
	}))
	c := r.dial()
	id := c.get("/blocked")
	testkit.Receive(t, "the request", held)
	up := func() *upConn { return r.part.pool.conns[0] }
	// The gate sends no further SETTINGS until the first have been acknowledged.
	until(t, "the acknowledgement of the first SETTINGS", func() (ok bool) {
		r.on(func() { ok = up().acks.Pending() == 0 })
		return ok
	})
	r.on(func() {
		up().table.open[0].resize(minWindow)
		r.part.pool.lowWindowUntil = r.part.loop.Now() + int64(testkit.Timeout)
		up().sendWindowSetting()
	})
	until(t, "an acknowledgement", func() (ok bool) {
		r.on(func() { ok = up().acks.Pending() == 0 && up().ackedWindow == minWindow })
		return ok
	})
	r.on(func() {
		if n := up().table.open[0].recv.Size(); n < minWindow {
			t.Errorf("the window has %d bytes", n)
		}
	})
	close(hold)
	if g := c.await(id); g.size != 100_000 {
		t.Errorf("%d bytes arrived", g.size)
	}
}

// Full windows for thousands of streams would exceed the memory.
func TestTheInitialWindowShrinksWithTheNumberOfStreams(t *testing.T) {
	r := newRig(t, serveH2C(t, func(http.ResponseWriter, *http.Request) {}))
	r.on(func() {
		p := r.part.pool
		for _, c := range []struct {
			streams int
			now     uint32
			want    uint32
		}{
			{1, firstWindow, firstWindow},
			{maxReadAhead / firstWindow, firstWindow, firstWindow},
			{maxReadAhead/firstWindow + 1, firstWindow, firstWindow / 2},
			// Windows of twice the size would fit, but not with one more stream. The
			// window does not grow, because it would then have to shrink again.
			{maxReadAhead / firstWindow, firstWindow / 2, firstWindow / 2},
			{maxReadAhead / firstWindow / 2, firstWindow / 2, firstWindow},
			{100_000, firstWindow, minSharedWindow},
			{1, minWindow, firstWindow},
		} {
			p.streams = c.streams
			if got := p.initialWindow(c.now); got != c.want {
				t.Errorf("%d streams with %d bytes each get %d, want %d", c.streams, c.now, got, c.want)
			}
		}
		p.streams = 0
		r.part.buffered = budgetChunk + 1 // low memory pressure
		r.part.reserved = budgetChunk
		b := r.gate.Bodies
		n := b.Limit() / 32
		_ = b.Acquire(n)
		p.streams = 100_000
		if got := p.initialWindow(firstWindow); got != minSharedWindow {
			t.Errorf("a new connection among many streams gets windows of %d bytes", got)
		}
		p.streams, r.part.buffered, r.part.reserved = 0, 0, 0
		b.Release(n)
	})
}
