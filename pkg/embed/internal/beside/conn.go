package beside

import (
	"io"
	"net"
	"time"
)

// Conns is a listener without sockets. It discards responses.
type Conns struct {
	request []byte
	next    chan *conn
	closed  chan struct{}
}

// NewConns returns a listener whose connections send copies of request.
func NewConns(request string) *Conns {
	return &Conns{[]byte(request), make(chan *conn), make(chan struct{})}
}

// Serve sends n requests on one connection. It returns when they have been served.
func (l *Conns) Serve(n int) {
	c := &conn{request: l.request, remaining: n, done: make(chan struct{})}
	l.next <- c
	<-c.done
}

// Accept implements net.Listener.
func (l *Conns) Accept() (net.Conn, error) {
	select {
	case c := <-l.next:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Conns) Close() error {
	close(l.closed)
	return nil
}

// Addr implements net.Listener and net.Conn.
func (l *Conns) Addr() net.Addr { return address }

var address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}

// conn must not be read concurrently.
type conn struct {
	request   []byte
	remaining int // number of requests not sent yet
	unread    []byte
	done      chan struct{}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		if c.remaining == 0 {
			return 0, io.EOF
		}
		c.unread = c.request
		c.remaining--
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// Close implements net.Conn. A second call panics.
func (c *conn) Close() error {
	close(c.done)
	return nil
}

func (c *conn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *conn) LocalAddr() net.Addr              { return address }
func (c *conn) RemoteAddr() net.Addr             { return address }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
