package http2

import (
	"net/http"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// TestAContainerMaySendMoreBeforeItAcknowledges: a window that has been widened
// holds from the SETTINGS on, one that has been narrowed from their
// acknowledgement on (RFC 9113 section 6.9.3).
func TestAContainerMaySendMoreBeforeItAcknowledges(t *testing.T) {
	held, hold := make(chan struct{}), make(chan struct{})
	defer close(hold)
	r := newRig(t, serveH2C(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/held" {
			return
		}
		_ = http.NewResponseController(w).Flush()
		close(held)
		<-hold
	}))
	c := r.dial()
	id := c.get("/held")
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
		send(minWindow + 1) // has not acknowledged
	})
	until(t, "an acknowledgement", func() (ok bool) {
		r.on(func() { ok = up().acks.Pending() == 0 && up().ackedWindow == minWindow })
		return ok
	})
	r.on(func() {
		r.part.pool.lowWindowUntil = 0
		up().sendWindowSetting()
		if up().acks.Pending() == 0 {
			t.Error("the window has not been widened")
		}
		send(1000)
	})
	until(t, "all that was sent", func() bool { g := c.of(id); return g.size == minWindow+1+1000 || g.over() })
	if g := c.of(id); g.over() {
		t.Errorf("the stream has ended: %+v, %v", g, r.faults())
	}
}

// TestAWindowShrunkTwiceReopens: for its own stream, and for all.
func TestAWindowShrunkTwiceReopens(t *testing.T) {
	held, hold := make(chan struct{}), make(chan struct{})
	r := newRig(t, serveH2C(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/held" {
			_ = http.NewResponseController(w).Flush()
			close(held)
			<-hold
			_, _ = w.Write(make([]byte, 100_000))
		}
	}))
	c := r.dial()
	id := c.get("/held")
	testkit.Receive(t, "the request", held)
	up := func() *upConn { return r.part.pool.conns[0] }
	until(t, "the acknowledgement of the first SETTINGS", func() (ok bool) { // until then windows stay as they are
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
			t.Errorf("the window is %d octets large", n)
		}
	})
	close(hold)
	if g := c.await(id); g.size != 100_000 {
		t.Errorf("%d octets have come", g.size)
	}
}

// TestManyStreamsShareWhatAContainerSendsAhead: a window of the usual size for
// each of thousands would be more than there is memory for.
func TestManyStreamsShareWhatAContainerSendsAhead(t *testing.T) {
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
			{maxReadAhead / firstWindow, firstWindow / 2, firstWindow / 2}, // soon it may be too much again
			{maxReadAhead / firstWindow / 2, firstWindow / 2, firstWindow},
			{100_000, firstWindow, minSharedWindow},
			{1, minWindow, firstWindow},
		} {
			p.streams = c.streams
			if got := p.initialWindow(c.now); got != c.want {
				t.Errorf("%d streams with %d octets each get %d, want %d", c.streams, c.now, got, c.want)
			}
		}
		p.streams = 0
		r.part.buffered = budgetChunk + 1 // without a lease: some memory is in use, and none is short
		r.part.reserved = budgetChunk
		b := r.gate.Bodies
		n := b.Limit() / 32
		_ = b.Acquire(n)
		p.streams = 100_000
		if got := p.initialWindow(firstWindow); got != minSharedWindow {
			t.Errorf("a new connection among many streams gets windows of %d octets", got)
		}
		p.streams, r.part.buffered, r.part.reserved = 0, 0, 0
		b.Release(n)
	})
}
