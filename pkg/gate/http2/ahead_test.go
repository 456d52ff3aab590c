package http2

import (
	"net/http"
	"strings"
	"testing"

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
	receive(t, "the request", held)
	until(t, "the head", func() bool { return c.of(id).head != nil })
	up := func() *upConn { return r.part.pool.conns[0] }
	send := func(n int) {
		if err := up().link.handle(frame(h2.Data, 0, up().streams[0].id, strings.Repeat("x", n))); err != nil {
			t.Error(err)
		}
	}
	r.on(func() {
		r.part.pool.narrow = r.part.loop.Now() + int64(patience)
		up().adapt()
		send(leastWindow + 1) // has not acknowledged
	})
	until(t, "an acknowledgement", func() (ok bool) {
		r.on(func() { ok = up().acks.Pending() == 0 && up().window == leastWindow })
		return ok
	})
	r.on(func() {
		r.part.pool.narrow = 0
		up().adapt()
		if up().acks.Pending() == 0 {
			t.Error("the window has not been widened")
		}
		send(1000)
	})
	until(t, "all that was sent", func() bool { g := c.of(id); return g.size == leastWindow+1+1000 || g.over() })
	if g := c.of(id); g.over() {
		t.Errorf("the stream has ended: %+v, %v", g, r.faults())
	}
}
