package serve

import (
	"container/list"
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// waiting is a connection to a port where another protocol comes first, and
// which has not begun yet.
type waiting struct {
	worker *Worker
	place  *list.Element // in worker.waiting, the longest wait first
	sock   loop.Sock
	since  int64
	peer   netip.AddrPort
	began  func(fd int, peer netip.AddrPort)
}

// await waits for the first bytes of a connection.
func (w *Worker) await(fd int, peer netip.AddrPort, began func(int, netip.AddrPort)) {
	c := &waiting{worker: w, peer: peer, began: began, since: w.Loop.Now()}
	if err := w.Loop.Register(&c.sock, fd, c); err != nil {
		w.Loop.CloseDescriptor(fd)
		w.Gate.Descriptors.Release()
		w.Panicked(err)
		return
	}
	c.place = w.waiting.PushBack(c)
}

// Event hands the descriptor on, which stays in the budget.
func (c *waiting) Event(s *loop.Sock) {
	switch {
	case !s.Readable():
	case s.Failed() || s.HungUp() && s.Ended():
		c.close()
	default:
		c.worker.waiting.Remove(c.place)
		c.began(c.sock.Detach(), c.peer)
	}
}

func (c *waiting) close() {
	c.worker.waiting.Remove(c.place)
	c.sock.Close()
	c.worker.Gate.Descriptors.Release()
}

// oldest is the connection that has waited longest, if that is long enough.
func (w *Worker) oldest() *waiting {
	if first := w.waiting.Front(); first != nil {
		if c := first.Value.(*waiting); w.Loop.Now()-c.since >= int64(gate.MinSilence) && c.sock.Quiet() {
			return c
		}
	}
	return nil
}

// Oldest is gate.IdleConnections: of those that wait for their first bytes.
func (w *Worker) Oldest(found func(gate.IdleConnection, bool)) {
	w.Loop.Post(func() {
		c := w.oldest()
		if c == nil {
			found(gate.IdleConnection{}, false)
			return
		}
		found(gate.IdleConnection{Idleness: gate.IdleClient, Since: c.since}, true)
	})
}

// CloseOldest is gate.IdleConnections.
func (w *Worker) CloseOldest(gate.Idleness) {
	w.Loop.Post(func() {
		if c := w.oldest(); c != nil {
			w.Gate.Descriptors.NoteReclaimed()
			c.close()
		}
	})
}
