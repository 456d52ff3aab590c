package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"syscall"
	"time"
)

// Timeout bounds every wait for the container. It only ends tests that would hang.
const Timeout = 2 * time.Minute

// ErrSilent reports that nothing arrived within [Timeout].
var ErrSilent = errors.New("nothing arrived in time")

// Client controls a [Server]. It is safe for concurrent use.
type Client struct{ rpc *rpc.Client }

// NewClient returns a Client that owns the control connection.
func NewClient(control net.Conn) *Client { return &Client{rpc.NewClient(control)} }

// Close ends the control connection.
func (c *Client) Close() error { return c.rpc.Close() }

func (c *Client) call(name string, args, reply any) error {
	if err := c.rpc.Call("Container."+name, args, reply); err != nil {
		return fmt.Errorf("container %s: %w", name, err)
	}
	return nil
}

// Port returns the container's port, which is reserved even if the container does not
// listen.
func (c *Client) Port() (port int, err error) { return port, c.call("Port", None{}, &port) }

// Listen starts to accept connections.
func (c *Client) Listen() error { return c.call("Listen", None{}, new(None)) }

// Unlisten stops accepting; open connections stay.
func (c *Client) Unlisten() error { return c.call("Unlisten", None{}, new(None)) }

// RespondAll makes every later connection respond to each head with response.
func (c *Client) RespondAll(response []byte) error { return c.call("RespondAll", response, new(None)) }

// Counts describes all connections since the start.
func (c *Client) Counts() (n Counts, err error) { return n, c.call("Counts", None{}, &n) }

// Accept waits for the next connection that has sent a byte.
func (c *Client) Accept() (*Conn, error) {
	var id int
	if err := c.call("Accept", AcceptArgs{Timeout}, &id); err != nil {
		return nil, err
	}
	return &Conn{client: c, id: id}, nil
}

// Conn is a connection of the container. A Read that gets nothing for [Timeout] fails
// with [ErrSilent].
type Conn struct {
	client *Client
	id     int
}

// Read reads bytes that the container has received. It returns io.EOF after a close by
// the peer, ECONNRESET after a reset.
func (c *Conn) Read(p []byte) (int, error) {
	var r ReadReply
	if err := c.client.call("Read", ReadArgs{c.id, len(p), Timeout}, &r); err != nil {
		return 0, err
	}
	if len(r.Data) > 0 {
		return copy(p, r.Data), nil
	}
	switch r.EndKind {
	case Open:
		return 0, ErrSilent
	case EOF:
		return 0, io.EOF
	case Reset:
		return 0, syscall.ECONNRESET
	}
	return 0, errors.New(r.EndKind)
}

// Write sends p.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.client.call("Write", WriteArgs{c.id, p}, new(None)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Fill sends the first n bytes of [Pattern] in pieces of at most piece bytes. If chunked
// is set, each piece is sent as one chunk.
func (c *Conn) Fill(n int64, piece int, chunked bool) error {
	return c.client.call("Fill", FillArgs{c.id, n, piece, chunked}, new(None))
}

// Drain reads a body of n pattern bytes and fails if any byte differs.
func (c *Conn) Drain(n int64, chunked bool) error {
	return c.client.call("Drain", DrainArgs{c.id, n, chunked}, new(None))
}

// Pause stops reading, so that the sender's window fills up.
func (c *Conn) Pause() error { return c.client.call("Pause", PauseArgs{c.id, true}, new(None)) }

// Resume reads and records again.
func (c *Conn) Resume() error { return c.client.call("Pause", PauseArgs{c.id, false}, new(None)) }

// State returns the byte counts of the connection.
func (c *Conn) State() (st State, err error) { return st, c.client.call("State", c.id, &st) }

// CloseWrite half-closes.
func (c *Conn) CloseWrite() error { return c.client.call("CloseWrite", c.id, new(None)) }

// Close closes.
func (c *Conn) Close() error { return c.client.call("Close", c.id, new(None)) }

// Abort resets.
func (c *Conn) Abort() error { return c.client.call("Abort", c.id, new(None)) }
