package embed

import (
	"errors"
	"io"
	"net"

	"github.com/queuegate/queuegate/pkg/gate"
)

// tunnel is a hijacked connection. Its Close gives the slot back.
type tunnel struct {
	net.Conn
	exchange *call
}

// Close is net.Conn.
func (t *tunnel) Close() error {
	err := t.Conn.Close()
	t.exchange.end(gate.Tunnelled)
	return err
}

// CloseWrite says to the peer that nothing follows.
func (t *tunnel) CloseWrite() error {
	if c, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom is io.ReaderFrom: what goes from socket to socket stays in the
// kernel where net does that.
func (t *tunnel) ReadFrom(src io.Reader) (int64, error) {
	if other, ok := src.(*tunnel); ok {
		src = other.Conn
	}
	return io.Copy(t.Conn, src)
}

// NetConn is the connection itself. Closing that keeps the slot.
func (t *tunnel) NetConn() net.Conn { return t.Conn }
