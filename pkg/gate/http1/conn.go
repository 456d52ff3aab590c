package http1

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/server"
)

// conn is a client's connection. Between requests it is all that the
// connection costs: the session with its buffers comes with the first bytes of
// a request and leaves after the answer.
type conn struct {
	server.Waiting[conn, *conn]
	eng      *engine
	session  *session // nil when idle
	sock     loop.Sock
	peer     netip.AddrPort
	sentHead bool // has sent a head of HTTP/1
}

func (c *conn) close() {
	if c.sock.Open() {
		c.sock.Close()
		c.release()
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
		c.release()
	}
}

// release gives the descriptor, now closed, back to the budget.
func (c *conn) release() {
	c.Set().Remove(c)
	c.eng.gate.Descriptors.Release()
}

// disconnected reports whether the client has left (RFC 9112 section 9.5 leaves it
// open what FIN means; the default is that it means leaving).
func (c *conn) disconnected() bool {
	return c.sock.Failed() || c.sock.HungUp() && !c.eng.gate.AnswerHalfClosed
}
