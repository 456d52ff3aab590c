package load

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/socket"
	"github.com/queuegate/queuegate/bench/internal/wire"
)

// A conn is a connection slot of a worker. It can be opened again after it was closed.
type conn struct {
	worker    *worker
	fd        int // -1 while there is no socket
	connected bool
	opened    bool // the connection was open at least once
	dead      bool // never opened again
	watched   uint32
	in        []byte // bytes received and not yet consumed
	out       wire.Output

	// The following fields belong to the protocols.
	due      int64 // due time of the current request
	busy     bool
	response response
	stream   *h2conn
}

func (c *conn) dial() error {
	w := c.worker
	fd, err := socket.DialTo(w.spec.address().As4(), w.spec.Port)
	if err != nil {
		return err
	}
	for len(w.byFD) <= fd {
		w.byFD = append(w.byFD, make([]*conn, len(w.byFD)+64)...)
	}
	c.fd, c.connected, c.in = fd, false, c.in[:0]
	w.byFD[fd] = c
	c.watched = socket.Writable
	if !c.opened {
		w.dialing++
	}
	return w.poller.Add(fd, c.watched)
}

func (c *conn) ready(events uint32) {
	if !c.connected {
		if err := socket.Connected(c.fd); err != nil {
			c.lose(fmt.Errorf("connecting: %w", err))
			return
		}
		c.connected = true
		if c.worker.protocol.open(c) && !c.worker.spec.NewConnections {
			c.worker.opened(c, c.worker.spec.Streams)
		}
		c.flush()
		return
	}
	if events&unix.EPOLLOUT != 0 {
		c.flush()
	}
	if c.fd >= 0 && events&^uint32(unix.EPOLLOUT) != 0 {
		c.read()
	}
}

var errClosed = errors.New("closed by the peer")

// read calls read(2) once. epoll is level-triggered, so it reports the remaining bytes
// again.
func (c *conn) read() {
	w := c.worker
	remaining := c.response.discardable()
	discard := remaining >= int64(len(w.scratch)) && len(c.in) == 0
	var n int
	var errno syscall.Errno
	if discard {
		n, errno = socket.Discard(c.fd, int(min(remaining, 4<<20)))
	} else {
		n, errno = socket.Read(c.fd, w.scratch)
	}
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return
	case errno != 0:
		c.lose(errno)
		return
	case n == 0:
		c.lose(errClosed)
		return
	}
	w.now = clock.Now()
	w.tally.BytesIn += int64(n)
	if discard {
		c.response.discarded(int64(n))
		return
	}
	p := w.scratch[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, p...)
		p = c.in
	}
	used, err := w.protocol.receive(c, p)
	if err != nil {
		c.lose(err)
		return
	}
	if c.fd < 0 || !c.connected {
		return // the protocol closed the connection
	}
	c.in = append(c.in[:0], p[used:]...)
	c.flush()
}

// lose closes the connection, and opens it again if the protocol asks for that.
func (c *conn) lose(cause error) {
	c.hangUp()
	c.out.Drop()
	if !c.worker.protocol.lost(c, cause) {
		c.worker.bury(c, cause)
		return
	}
	if c.fd < 0 && !c.worker.spec.NewConnections && c.worker.broken == nil {
		if err := c.dial(); err != nil {
			c.worker.broken = err
		}
	}
}

func (c *conn) hangUp() {
	if c.fd < 0 {
		return
	}
	c.worker.byFD[c.fd] = nil
	socket.Close(c.fd)
	c.fd, c.connected = -1, false
}

// flush writes as much of the queued output as the socket accepts.
func (c *conn) flush() {
	if !c.connected {
		return
	}
	n, errno := c.out.Flush(c.fd)
	c.worker.tally.BytesOut += n
	if errno != 0 {
		// Do not close the connection: the peer's last bytes may still be readable, and a
		// read detects the end.
		c.out.Drop()
	}
	events := uint32(socket.Readable)
	if c.out.Pending() {
		events |= socket.Writable
	}
	if err := c.worker.poller.Modify(c.fd, &c.watched, events); err != nil {
		c.worker.broken = err
	}
}
