package embed

import (
	"errors"
	"io"
	"net"

	"github.com/queuegate/queuegate/pkg/gate"
)

// tunnel is a hijacked connection. Its Close releases the slot.
type tunnel struct {
	net.Conn
	exchange *call
}

// Close implements net.Conn.
func (t *tunnel) Close() error {
	err := t.Conn.Close()
	t.exchange.end(gate.Tunnelled)
	return err
}

// CloseWrite half-closes the connection.
func (t *tunnel) CloseWrite() error {
	if c, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom implements io.ReaderFrom, so that package net can use splice.
func (t *tunnel) ReadFrom(src io.Reader) (int64, error) {
	if other, ok := src.(*tunnel); ok {
		src = other.Conn
	}
	return io.Copy(t.Conn, src)
}

// NetConn returns the underlying connection. Closing it does not release the slot.
func (t *tunnel) NetConn() net.Conn { return t.Conn }
