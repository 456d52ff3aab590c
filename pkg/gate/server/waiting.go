package server

import (
	"container/list"
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// waiting is a connection to a port of TLS whose first record, the client's
// hello, has not come whole: at first silent, then begun.
type waiting struct {
	worker *Worker
	handle loop.Handle
	list   *list.List    // one of worker's
	place  *list.Element // in list, the longest wait first
	sock   loop.Sock
	since  int64
	peer   netip.AddrPort
	hello  func(fd int, peer netip.AddrPort)
}

// helloTimeout is how long a first record may take from its first byte on.
const helloTimeout = 10 * time.Second

// await waits for the first record of a connection.
func (w *Worker) await(fd int, peer netip.AddrPort, hello func(int, netip.AddrPort)) {
	c := &waiting{worker: w, peer: peer, hello: hello}
	if err := w.Loop.Register(&c.sock, fd, c); err != nil {
		w.Loop.CloseDescriptor(fd)
		w.Gate.Descriptors.Release()
		w.Panicked(err)
		return
	}
	c.handle.Bind(w.Loop, c)
	c.join(&w.silent)
}

func (c *waiting) join(l *list.List) {
	c.list, c.since = l, c.worker.Loop.Now()
	c.place = l.PushBack(c)
}

func (c *waiting) leave() {
	c.handle.Until(0)
	c.list.Remove(c.place)
}

// Event hands the descriptor on, which stays in the budget.
func (c *waiting) Event(s *loop.Sock) {
	switch {
	case !s.Readable():
	case s.Failed() || s.HungUp() && s.Ended():
		c.close()
	case s.HungUp() || recordThere(s):
		c.leave()
		c.hello(c.sock.Detach(), c.peer)
	case c.list == &c.worker.silent:
		c.leave()
		c.join(&c.worker.begun)
		c.handle.Until(c.since + int64(helloTimeout))
	}
}

// recordThere reports whether a record of TLS has come whole (RFC 8446 section
// 5.1), or something that is none: both are for the handshake.
func recordThere(s *loop.Sock) bool {
	const handshake, header, longest = 22, 5, 16 << 10
	var b [header]byte
	n := s.Peek(b[:])
	if n == 0 || b[0] != handshake {
		return n > 0
	}
	length := int(b[3])<<8 | int(b[4])
	return n == header && (length > longest || s.Buffered() >= header+length)
}

// Step is loop.Routine: the hello has taken too long.
func (c *waiting) Step() { c.close() }

func (c *waiting) close() {
	c.leave()
	c.sock.Close()
	c.worker.Gate.Descriptors.Release()
}

// oldest is the connection of the list that has waited longest, if that is long
// enough and no more of it has come.
func (w *Worker) oldest(l *list.List, enough time.Duration) *waiting {
	if first := l.Front(); first != nil {
		if c := first.Value.(*waiting); w.Loop.Now()-c.since >= int64(enough) && (l == &w.begun || c.sock.Quiet()) {
			return c
		}
	}
	return nil
}

// Oldest is gate.IdleConnections: of those that wait for their first record.
func (w *Worker) Oldest(found func(exchange.IdleConnection, bool)) {
	w.Loop.Post(func() {
		if c := w.oldest(&w.silent, exchange.MinSilence); c != nil {
			found(exchange.IdleConnection{Idleness: exchange.IdleClient, Since: c.since}, true)
		} else if c := w.oldest(&w.begun, exchange.MinIdle); c != nil {
			found(exchange.IdleConnection{Idleness: exchange.UnfinishedHead, Since: c.since}, true)
		} else {
			found(exchange.IdleConnection{}, false)
		}
	})
}

// CloseOldest is gate.IdleConnections.
func (w *Worker) CloseOldest(rank exchange.Idleness) {
	w.Loop.Post(func() {
		l, enough := &w.silent, exchange.MinSilence
		if rank == exchange.UnfinishedHead {
			l, enough = &w.begun, exchange.MinIdle
		}
		if c := w.oldest(l, enough); c != nil {
			w.Gate.Descriptors.NoteReclaimed()
			c.close()
		}
	})
}
