package http1

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/server"
)

// conn is a client connection. The buffers belong to a session, which the connection has
// only from the first byte of a request until the response is complete. So an idle
// connection holds no buffers.
type conn struct {
	server.Idle[conn, *conn]
	eng      *engine
	session  *session // nil when idle
	sock     loop.Sock
	peer     netip.AddrPort
	sentHead bool // an HTTP/1 request head has been received
}

func (c *conn) close() {
	if c.sock.Open() {
		c.sock.Close()
		c.release()
	}
}

// finish closes the connection while no response is in progress. Over TLS it sends
// close_notify first, so that the client does not see a truncation.
func (c *conn) finish() {
	c.sock.Finish()
	c.close()
}

// reset closes the connection with RST, so that the client cannot mistake the end of the
// connection for the end of a response.
func (c *conn) reset() {
	if c.sock.Open() {
		c.sock.Reset()
		c.release()
	}
}

// release returns the descriptor of the closed socket to the budget.
func (c *conn) release() {
	from := idle
	if c.session != nil {
		from = c.session.phase
	}
	c.logState(from, closed)
	c.Set().Remove(c)
	c.eng.gate.Descriptors.Release()
}

// logState reports a change of state to the debug log.
func (c *conn) logState(from, to phase) {
	if l := c.eng.gate.States; l != nil && from != to {
		l.ConnState(c.peer, "http/1", from, to)
	}
}

// disconnected reports whether the client has disconnected. A FIN counts as a disconnect
// unless AllowHalfClose is set (RFC 9112 section 9.5).
func (c *conn) disconnected() bool {
	return c.sock.Failed() || c.sock.HungUp() && !c.eng.gate.AllowHalfClose
}
