package http2

import (
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"

	"go.uber.org/atomic"
)

// Sizes of what a connection buffers.
const (
	readBytes    = 8 << 10  // read from the socket at once; longer reads bypass the buffer
	directBytes  = 4 << 10  // a write of this size goes out without a copy if nothing waits
	pendingBytes = 64 << 10 // accepted for writing beyond what the socket takes
	keptBytes    = 16 << 10 // capacity of a write buffer that goes back to the pool
)

// closePatience bounds how long Close waits for the peer to take what was
// written before.
const closePatience = 5 * time.Second

// conn is a connection that makes few system calls out of many small reads and
// writes. The standard library reads a frame in two pieces and writes each
// frame by itself; here one read fetches all that has arrived, and what is
// written while another write is under way, or about to be, goes out with it.
//
// Write returns when the bytes are accepted; their failure is reported to the
// next call. At most pendingBytes are accepted ahead of the socket, so a peer
// that does not read holds its writer up.
type conn struct {
	net.Conn
	peer  netip.AddrPort
	first func(b []byte) // sees the first bytes that arrive; nil = nobody asks
	done  func()         // is told of the close; may be nil

	encrypted bool         // by TLS
	idleSince atomic.Int64 // of a client: since when there has been no stream; 0 = there is one

	socket syscall.RawConn        // is looked at before a request begins; nil = is not
	probe  func(fd uintptr)       // looks
	silent bool                   // what probe has seen; guarded by mu
	next   atomic.Pointer[stream] // the request about to begin, if others have gone before

	heard    atomic.Bool // something has arrived
	mismatch atomic.Bool // and it was another protocol than expected

	in   []byte // bytes read and not yet taken: in[r:w]
	r, w int

	resets     int   // streams that the client gave up in the current second; guarded by mu
	resetsFrom int64 // when that second began

	mu       sync.Mutex
	room     sync.Cond // signalled when out has been taken over, and at the end
	out      []byte    // accepted, not yet given to the socket
	flushing bool      // some goroutine is writing, or about to
	err      error     // of the socket; for good
	closed   bool
}

var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, keptBytes); return &b }}

// newConn wraps c. The bytes in read come first.
func newConn(c net.Conn, peer netip.AddrPort, read []byte) *conn {
	w := &conn{Conn: c, peer: peer, in: read, w: len(read)}
	w.room.L = &w.mu
	return w
}

// Read takes what has been read ahead, else what the socket has.
func (c *conn) Read(p []byte) (int, error) {
	if c.r == c.w {
		if len(p) >= readBytes {
			n, err := c.Conn.Read(p)
			c.look(p[:n])
			return n, err
		}
		if len(c.in) < readBytes {
			c.in = make([]byte, readBytes)
		}
		n, err := c.Conn.Read(c.in)
		c.r, c.w = 0, n
		c.look(c.in[:n])
		if n == 0 {
			return 0, err
		}
	}
	n := copy(p, c.in[c.r:c.w])
	c.r += n
	return n, nil
}

func (c *conn) look(b []byte) {
	if c.first != nil && len(b) > 0 {
		c.heard.Store(true)
		c.first(b)
		c.first = nil
	}
}

// Write accepts p.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) >= pendingBytes && c.err == nil && !c.closed {
		c.room.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closed:
		return 0, net.ErrClosed
	}
	if s := c.next.Load(); s != nil {
		if err := c.begin(s); err != nil {
			return 0, err
		}
	}
	if !c.flushing && len(p) >= directBytes {
		return c.writeThrough(p)
	}
	if c.out == nil {
		c.out = *writeBuffers.Get().(*[]byte)
	}
	c.out = append(c.out, p...)
	if !c.flushing {
		c.flushing = true
		go c.flush()
	}
	return len(p), nil
}

// writeThrough writes p to the socket itself. The caller holds mu.
func (c *conn) writeThrough(p []byte) (int, error) {
	c.flushing = true
	c.mu.Unlock()
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	c.flushing = false
	c.fail(err)
	if len(c.out) > 0 && err == nil {
		c.flushing = true
		go c.flush()
	} else {
		c.finish()
	}
	return n, err
}

// flush writes until nothing is left.
func (c *conn) flush() {
	runtime.Gosched() // whoever is about to write more does so first
	c.mu.Lock()
	for len(c.out) > 0 && c.err == nil {
		b := c.out
		c.out = nil
		c.room.Broadcast()
		c.mu.Unlock()
		_, err := c.Conn.Write(b)
		putWriteBuffer(b)
		c.mu.Lock()
		c.fail(err)
	}
	c.flushing = false
	c.finish()
	c.mu.Unlock()
}

// fail notes how the socket failed. The caller holds mu.
func (c *conn) fail(err error) {
	if err != nil && c.err == nil {
		c.err = err
		c.out = nil
	}
	c.room.Broadcast()
}

// finish closes the socket of a closed connection that has nothing more to
// write. The caller holds mu.
func (c *conn) finish() {
	if c.closed {
		_ = c.Conn.Close()
	}
}

func putWriteBuffer(b []byte) {
	if cap(b) <= keptBytes {
		b = b[:0]
		writeBuffers.Put(&b)
	}
}

// Close ends reading at once. What has been accepted for writing still goes
// out, for closePatience at most.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.room.Broadcast()
	if c.done != nil {
		c.done()
	}
	if !c.flushing {
		return c.Conn.Close()
	}
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	return c.Conn.SetWriteDeadline(time.Now().Add(closePatience))
}

// maxResets is how many of its streams a client may give up in a second. One
// that gives up more makes work and takes no answers (CVE-2023-44487).
const maxResets = 1000

// countReset notes a stream that the client gave up, and reports true, once,
// when there have been too many.
func (c *conn) countReset(now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now-c.resetsFrom > int64(time.Second) {
		c.resets, c.resetsFrom = 0, now
	}
	c.resets++
	return c.resets == maxResets+1
}

// cut ends the connection without regard to what waits to be written.
func (c *conn) cut() { _ = c.Conn.Close() }
