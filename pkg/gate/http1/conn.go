package http1

import (
	"fmt"
	"net/netip"
	"runtime/debug"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// conn is a client's connection. Between requests it is all that the
// connection costs: the worker with its buffers comes with the first bytes of
// a request and leaves after the answer.
type conn struct {
	eng        *engine
	task       *loop.Task // nil when idle
	prev, next *conn
	sock       loop.Sock
	peer       netip.AddrPort
	idle       bool
	spoke      bool // has sent a head of HTTP/1
}

// Event wakes an idle connection.
func (c *conn) Event(s *loop.Sock) {
	if s.Readable() {
		c.eng.loop.Start(c)
	}
}

// Run serves requests until the connection closes or goes idle.
func (c *conn) Run(t *loop.Task) {
	w, ok := t.Local.(*worker)
	if !ok {
		w = newWorker(c.eng, t)
		t.Local = w
	}
	c.task, c.idle = t, false
	c.sock.Handle(t)
	w.conn = c
	for w.request() {
	}
	w.conn = nil
	w.trim()
	c.task = nil
	if c.sock.Open() {
		c.sock.Handle(c)
		c.idle = true
	}
}

// Recovered contains a panic: this connection ends, its slot is given back.
func (c *conn) Recovered(t *loop.Task, v any) {
	if w, ok := t.Local.(*worker); ok {
		t.Local = nil
		w.abandon()
	}
	c.close()
	c.eng.panicked(fmt.Errorf("%v\n%s", v, debug.Stack()))
}

func (c *conn) close() {
	if c.sock.Open() {
		c.sock.Close()
		c.eng.unlink(c)
	}
}

// finish closes where nothing is missing.
func (c *conn) finish() {
	c.sock.Finish()
	c.close()
}

// reset closes so that the client cannot take the end for a complete answer.
func (c *conn) reset() {
	if c.sock.Open() {
		c.sock.Reset()
		c.eng.unlink(c)
	}
}

// gone reports whether the client has left (RFC 9112 section 9.5 leaves it
// open what FIN means; the default is that it means leaving).
func (c *conn) gone() bool {
	return c.sock.Failed() || c.sock.HungUp() && !c.eng.srv.gate.AnswerHalfClosed
}
