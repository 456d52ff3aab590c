package server

import (
	"slices"
	"testing"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// fakeConn is a connection of an IdleSet without a socket.
type fakeConn struct {
	Idle[fakeConn, *fakeConn]
	busy, noisy bool
	checks      int  // number of calls of Quiet
	once        bool // only the first call of Quiet returns true
}

func (c *fakeConn) Busy() bool { return c.busy }
func (c *fakeConn) Quiet() bool {
	c.checks++
	return !c.noisy && !(c.once && c.checks > 1)
}
func (c *fakeConn) Reclaim() { c.Set().Remove(c) }

// addIdle adds one connection to s for each of the given times. A time tells how long the
// connection has been idle, in units of exchange.MinIdle.
func addIdle(s *IdleSet[fakeConn, *fakeConn], times ...int64) (conns []*fakeConn) {
	for _, idle := range times {
		c := &fakeConn{}
		s.Touch(c)
		c.Since -= idle * int64(exchange.MinIdle)
		conns = append(conns, c)
	}
	return conns
}

func TestTheLongestIdleConnectionIsReclaimed(t *testing.T) {
	newTLSServer(t).do(func(w *Worker) {
		var s IdleSet[fakeConn, *fakeConn]
		s.Init(w, exchange.IdleClient, exchange.MinIdle)
		conns := addIdle(&s, 9, 8, 7, 6, 5, 0)
		conns[0].busy, conns[1].noisy, conns[3].busy = true, true, true
		for _, want := range []*fakeConn{conns[2], conns[4]} {
			since, reclaim := s.reclaimable()
			if reclaim == nil || since != want.Since {
				t.Errorf("since %d; want the connection idle since %d", since, want.Since)
				return
			}
			reclaim()
			if want.Set() != nil {
				t.Errorf("the connection idle since %d was not closed", since)
			}
		}
		if since, reclaim := s.reclaimable(); reclaim != nil {
			t.Errorf("the connection idle since %d would be closed", since)
		}
		conns[0].busy = false
		s.Touch(conns[0]) // its request has ended
		if since, reclaim := s.reclaimable(); reclaim != nil {
			t.Errorf("the connection idle since %d would be closed", since)
		}
		for c := range s.All() {
			c.busy = true
		}
		if _, reclaim := s.reclaimable(); reclaim != nil {
			t.Error("a busy connection would be closed")
		}
	})
}

func TestAConnectionBelongsToAtMostOneIdleSetAndIsCountedOnce(t *testing.T) {
	newTLSServer(t).do(func(w *Worker) {
		var a, b IdleSet[fakeConn, *fakeConn]
		a.Init(w, exchange.IdleClient, exchange.MinIdle)
		b.Init(w, exchange.PartialHead, exchange.MinIdle)
		b.Count = &atomic.Int64{}
		conns := addIdle(&a, 2, 1)
		b.Touch(conns[0])
		b.Touch(conns[0])
		if got := slices.Collect(a.All()); conns[0].Set() != &b || !slices.Equal(got, conns[1:]) || b.Count.Load() != 1 {
			t.Errorf("%d in the old set, %d counted in the new one", len(got), b.Count.Load())
		}
		conns[0].Set().Remove(conns[0])
		if b.First() != nil || conns[0].Set() != nil || b.Count.Load() != 0 {
			t.Errorf("still in the set, %d counted", b.Count.Load())
		}
	})
}

func TestAWorkerReportsItsOldestConnectionOfTheLowestRank(t *testing.T) {
	s := newTLSServer(t)
	var idle, other, unfinished IdleSet[fakeConn, *fakeConn]
	var conns []*fakeConn
	s.do(func(w *Worker) {
		unfinished.Init(w, exchange.PartialHead, exchange.MinIdle)
		idle.Init(w, exchange.IdleClient, exchange.MinIdle)
		other.Init(w, exchange.IdleClient, exchange.MinIdle)
		conns = slices.Concat(addIdle(&unfinished, 9), addIdle(&idle, 2), addIdle(&other, 3))
	})
	w := s.server.workers[0]
	for _, want := range []struct {
		conn *fakeConn
		rank exchange.Idleness
	}{{conns[2], exchange.IdleClient}, {conns[1], exchange.IdleClient}, {conns[0], exchange.PartialHead}} {
		found := make(chan exchange.IdleConnection, 1)
		w.Oldest(func(c exchange.IdleConnection, ok bool) {
			if !ok {
				t.Error("found none")
			}
			found <- c
		})
		if c := <-found; c.Idleness != want.rank || c.IdleSince != want.conn.Since {
			t.Errorf("found %+v, want rank %d and %d", c, want.rank, want.conn.Since)
		}
		w.CloseOldest(want.rank)
		s.do(func(*Worker) {
			if want.conn.Set() != nil {
				t.Error("not closed")
			}
		})
	}
	w.Oldest(func(c exchange.IdleConnection, ok bool) {
		if ok {
			t.Errorf("found %+v", c)
		}
	})
	s.do(func(*Worker) {})
}

func TestCloseOldestCallsQuietOnlyOnceBeforeItClosesAConnection(t *testing.T) {
	s := newTLSServer(t)
	var set IdleSet[fakeConn, *fakeConn]
	var c *fakeConn
	s.do(func(w *Worker) {
		set.Init(w, exchange.IdleClient, exchange.MinIdle)
		c = addIdle(&set, 2)[0]
		c.once = true
	})
	// If CloseOldest called Quiet twice, the second call would return false, and the
	// connection would not be closed.
	s.server.workers[0].CloseOldest(exchange.IdleClient)
	s.do(func(*Worker) {
		if c.Set() != nil || c.checks != 1 {
			t.Errorf("closed %v after %d checks", c.Set() == nil, c.checks)
		}
	})
}
