package http2

import (
	"net"
	"net/http"
	"testing"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// TestAClientThatOpensManyStreamsDoesNotHoldOthersUp: in one turn of the loop the
// many do not all begin, and one of another connection does.
func TestAClientThatOpensManyStreamsDoesNotHoldOthersUp(t *testing.T) {
	var served atomic.Int64
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) { served.Inc() }))
	many, one := r.dial(), r.dial()
	many.works()
	one.works()
	before := served.Load()
	open := func(c *conn, first, n uint32) {
		for i := range n {
			if err := c.link.handle(frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, first+2*i, getHead)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.on(func() {
		var crowd, other *conn
		for c := range r.part.clients.all() {
			if c.peer.Port() == uint16(many.conn.LocalAddr().(*net.TCPAddr).Port) {
				crowd = c
			} else {
				other = c
			}
		}
		open(crowd, 101, maxStreams)
		open(other, 101, 1)
		waiting := func(c *conn) (n int) {
			for _, s := range c.streams {
				if s.next != nil {
					n++
				}
			}
			return n
		}
		if n := waiting(crowd); n != maxStreams-beginsPerTurn {
			t.Errorf("of %d streams %d wait, want %d", maxStreams, n, maxStreams-beginsPerTurn)
		}
		if waiting(other) != 0 {
			t.Error("the stream of another connection waits")
		}
		// What is reset before it begins never does.
		if err := crowd.link.handle(frame(h2.RSTStream, 0, 101+2*(maxStreams-1), u32(8))); err != nil {
			t.Fatal(err)
		}
	})
	until(t, "all have been served", func() bool { return served.Load()-before == maxStreams })
	until(t, "none is left", func() (over bool) {
		r.on(func() {
			over = r.part.turns.crowds == 0
			for c := range r.part.clients.all() {
				over = over && len(c.streams) == 0 && c.newcomers.last == nil
			}
		})
		return over
	})
	r.dial().works()
}

// TestStreamsThatWaitEndWithTheirConnection: they have not begun.
func TestStreamsThatWaitEndWithTheirConnection(t *testing.T) {
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
	c := r.dial()
	c.works()
	r.on(func() {
		for c := range r.part.clients.all() {
			for i := range uint32(maxStreams) {
				if err := c.link.handle(frame(h2.Headers, h2.FlagEndHeaders, 101+2*i, postHead)); err != nil {
					t.Fatal(err)
				}
			}
			c.cut()
		}
		if n := r.part.turns.crowds; n != 0 {
			t.Errorf("%d connections on which streams wait", n)
		}
	})
	r.dial().works()
}
