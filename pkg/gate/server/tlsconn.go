package server

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"os"
	"strings"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/internal/list"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

const (
	// helloTimeout is the maximum time from the first byte of a connection until its
	// first record is complete.
	helloTimeout = 10 * time.Second
	// handshakeTimeout is the maximum time from the ClientHello to the end of the
	// handshake.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes limits concurrent handshakes. Each loop gets an equal share, but at
	// least minHandshakes. Further handshakes are queued.
	maxHandshakes = 256
	minHandshakes = 16
	// stallTimeout replaces handshakeTimeout for a handshake that waits for its client
	// while other handshakes are queued.
	stallTimeout = 500 * time.Millisecond
)

var (
	errStalled      = errors.New("too many handshakes: closed the one that waited longest for its client")
	errDisconnected = errors.New("the client disconnected before its handshake began")
	errShuttingDown = errors.New("the gate is shutting down")
)

// TLS is a port whose connections begin with a TLS handshake.
type TLS struct {
	Config *tls.Config
	// Failed is called on a loop for each failed handshake. It may be nil.
	Failed func(peer netip.AddrPort, err error)

	done, failed atomic.Uint64
	pending      atomic.Int64
}

// Handshakes returns the number of successful handshakes, of failed ones, and of those in
// progress or queued. It may be called from any goroutine.
func (t *TLS) Handshakes() (done, failed uint64, inProgress int) {
	return t.done.Load(), t.failed.Load(), int(t.pending.Load())
}

// tlsConns holds a loop's connections to TLS ports before the end of their handshake. It
// has one list for each state, in the order in which the connections entered the state:
//
//	silent      → partial      the first byte has arrived
//	partial     → queued       the first record, the ClientHello, is complete
//	queued      → handshaking  a handshake slot is free
//	handshaking → (protocol)   the handshake has succeeded
//
// A free slot goes to the connection that was queued last. A connection may skip the
// states partial and queued, and may be closed in any state. If the client disconnects
// before the handshake begins, the connection is closed at once. This saves the CPU time
// of a signature.
type tlsConns struct {
	silent, partial     IdleSet[tlsConn, *tlsConn]
	queued, handshaking list.List[tlsConn, *tlsConn]

	freeSlots    int           // number of handshakes that may start
	stallTimeout time.Duration // maximum wait for a client while other handshakes are queued
}

func (t *tlsConns) init(w *Worker) {
	t.freeSlots, t.stallTimeout = max(maxHandshakes/w.srv.cfg.Loops, minHandshakes), stallTimeout
	t.silent.Init(w, exchange.IdleClient, exchange.MinSilence)
	t.partial.Init(w, exchange.PartialHead, exchange.MinIdle)
	w.AddIdleSource(exchange.PartialHead, w.reclaimStalled)
}

// tlsConn is a connection before the end of its handshake. Its field Since is the time at
// which the connection was accepted, its first byte arrived or its ClientHello was
// complete. The latest of these events counts.
type tlsConn struct {
	Idle[tlsConn, *tlsConn]
	worker  *Worker
	port    *TLS
	handle  loop.Handle
	sock    loop.Sock
	peer    netip.AddrPort
	layer   *loop.Layer
	session *tls.Conn // set in state handshaking
	state   tlsState
}

// tlsState is the state of a tlsConn. The type tlsConns describes the states. In
// addition, a tlsConn is done when it has been closed or a protocol has adopted it.
type tlsState uint8

const (
	tlsSilent tlsState = iota
	tlsPartial
	tlsQueued
	tlsHandshaking
	tlsDone
)

var tlsStateNames = [...]string{"silent", "partial hello", "queued", "handshaking", "done"}

// String returns the name of s.
func (s tlsState) String() string { return tlsStateNames[s] }

// acceptTLS waits for the first record of a connection.
func (w *Worker) acceptTLS(fd int, peer netip.AddrPort, port *TLS) {
	c := &tlsConn{worker: w, port: port, peer: peer}
	if err := w.Loop.Register(&c.sock, fd, c); err != nil {
		w.Loop.CloseDescriptor(fd)
		w.Gate.Descriptors.Release()
		w.ReportPanic(err)
		return
	}
	c.handle.Bind(w.Loop, c)
	w.tls.silent.Touch(c)
}

// moveTo removes c from its set or list and enters the next state.
func (c *tlsConn) moveTo(next tlsState) {
	c.handle.SetDeadline(0)
	switch t := &c.worker.tls; c.state {
	case tlsQueued:
		t.queued.Remove(c)
	case tlsHandshaking:
		t.handshaking.Remove(c)
	default:
		c.Set().Remove(c)
	}
	c.enter(next)
}

func (c *tlsConn) enter(next tlsState) {
	if l := c.worker.Gate.States; l != nil {
		l.ConnState(c.peer, "tls", c.state, next)
	}
	c.state = next
}

// Event implements loop.Handler. During a handshake, the TLS layer receives the events
// instead.
func (c *tlsConn) Event(s *loop.Sock) {
	disconnected := s.HungUp() || s.Failed()
	switch {
	case c.state > tlsQueued, !s.Readable():
	case disconnected && s.AtEOF():
		c.close(nil) // the client has sent no byte, so this is not a failed handshake
	case disconnected:
		c.close(errDisconnected)
	case c.state == tlsQueued:
	case recordComplete(s):
		c.hello()
	case c.state == tlsSilent:
		c.enter(tlsPartial)
		c.worker.tls.partial.Touch(c)
		c.handle.SetDeadline(c.Since + int64(helloTimeout))
	}
}

// recordComplete reports whether the first TLS record is complete (RFC 8446 section 5.1)
// or the bytes are not TLS. In both cases the bytes are passed to the handshake.
func recordComplete(s *loop.Sock) bool {
	const handshake, header, longest = 22, 5, 16 << 10
	var b [header]byte
	n := s.Peek(b[:])
	if n == 0 || b[0] != handshake {
		return n > 0
	}
	length := int(b[3])<<8 | int(b[4])
	return n == header && (length > longest || s.Buffered() >= header+length)
}

// hello starts or queues the handshake.
func (c *tlsConn) hello() {
	w := c.worker
	if w.ShuttingDown() {
		c.close(nil)
		return
	}
	c.Since = w.Loop.Now()
	c.port.pending.Inc()
	if w.tls.freeSlots > 0 {
		c.startHandshake()
		return
	}
	c.moveTo(tlsQueued)
	w.tls.queued.Push(c)
	w.closeStalled()
}

func (c *tlsConn) startHandshake() {
	c.moveTo(tlsHandshaking)
	c.worker.tls.handshaking.Push(c)
	c.worker.tls.freeSlots--
	c.layer = &loop.Layer{}
	c.session = tls.Server(c.layer, c.port.Config)
	c.handle.SetDeadline(c.Since + int64(handshakeTimeout))
	c.sock.StartHandshake(c.layer, clientSession{c.session, c.layer}, c.worker.srv.handshakeSlots, &c.handle)
}

// clientSession is a TLS session whose handshake fails immediately if the client
// disconnected while the handshake waited for a slot.
type clientSession struct {
	*tls.Conn
	layer *loop.Layer
}

// Handshake implements loop.Handshaker.
func (s clientSession) Handshake() error {
	if s.layer.Disconnected() {
		return errDisconnected
	}
	return s.Conn.Handshake()
}

// closeStalled closes handshakes that have waited for bytes from their clients for
// stallTimeout or longer. Each closed handshake frees a slot, and a queued connection
// gets the slot. So closeStalled returns when no connection is queued or no handshake is
// stalled. If connections are still queued, it sets a deadline for one of them, whose
// Step calls closeStalled again.
func (w *Worker) closeStalled() {
	for first := w.tls.queued.First(); first != nil; first = w.tls.queued.First() {
		c := w.stalled(w.tls.stallTimeout)
		if c == nil {
			first.handle.SetDeadline(w.Loop.Now() + int64(w.tls.stallTimeout)/10)
			return
		}
		c.close(errStalled)
	}
}

// stalled returns the oldest handshake that has waited for bytes from its client for the
// duration minWait or longer; nil = none.
func (w *Worker) stalled(minWait time.Duration) *tlsConn {
	latest := w.Loop.Now() - int64(minWait)
	for c := range w.tls.handshaking.All() {
		if since := c.sock.HandshakeWaitingSince(); since != 0 && since <= latest {
			return c
		}
	}
	return nil
}

// Step implements loop.Routine. It is called when a timeout has passed or the handshake
// has ended.
func (c *tlsConn) Step() {
	switch c.state {
	case tlsPartial:
		c.close(nil)
	case tlsQueued:
		c.worker.closeStalled()
	case tlsHandshaking:
		done, err := c.sock.HandshakeDone()
		switch {
		case err != nil:
			c.replyToPlaintext(err)
			c.close(err)
		case done:
			c.adopt()
		case c.worker.Loop.Now() >= c.Since+int64(handshakeTimeout):
			c.close(os.ErrDeadlineExceeded)
		}
	}
}

// adopt passes the connection to the protocol that ALPN has selected.
func (c *tlsConn) adopt() {
	c.port.done.Inc()
	w, p := c.worker, c.worker.http1
	if c.session.ConnectionState().NegotiatedProtocol == "h2" {
		p = w.http2
	}
	fd := c.sock.Detach()
	c.end()
	p.Adopt(fd, c.peer, c.layer, nil)
}

// plaintextReply is the local reply to a client that speaks HTTP on a TLS port.
const plaintextReply = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n" +
	"K-Gate-Outcome: bad-request\r\nProxy-Status: queuegate; error=http_request_error; details=\"this port speaks TLS only\"\r\nContent-Length: 27\r\nConnection: close\r\n\r\nthis port speaks TLS only.\n"

// replyToPlaintext replies to a client that speaks HTTP on a TLS port.
func (c *tlsConn) replyToPlaintext(err error) {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return
	}
	switch strings.TrimRight(string(header.RecordHeader[:]), " /") {
	case "GET", "POST", "HEAD", "PUT", "DELET", "PATCH", "OPTIO", "CONNE", "TRACE":
		_, _ = c.sock.Write([]byte(plaintextReply))
	}
}

// close closes the connection. An error counts as a failed handshake.
func (c *tlsConn) close(err error) {
	c.sock.Close()
	c.worker.Gate.Descriptors.Release()
	c.end()
	if err == nil {
		return
	}
	c.port.failed.Inc()
	if c.port.Failed != nil {
		c.port.Failed(c.peer, err)
	}
}

// end removes c from its list. If c was in a handshake, it starts the handshake that was
// queued last.
func (c *tlsConn) end() {
	w, was := c.worker, c.state
	c.moveTo(tlsDone)
	c.handle.RemoveTimer()
	if was == tlsQueued || was == tlsHandshaking {
		c.port.pending.Dec()
	}
	if was == tlsHandshaking {
		w.tls.freeSlots++
		if next := w.tls.queued.Last(); next != nil {
			next.startHandshake()
		}
	}
}

// closeHandshakes closes the connections whose ClientHello is complete. The result silent
// is true if there are connections without a complete ClientHello. They stay open,
// because their first request may be on its way.
func (w *Worker) closeHandshakes() (silent bool) {
	for _, l := range []*list.List[tlsConn, *tlsConn]{&w.tls.queued, &w.tls.handshaking} {
		for c := range l.All() {
			c.close(errShuttingDown)
		}
	}
	return w.tls.silent.First() != nil || w.tls.partial.First() != nil
}

// Busy implements IdleConn.
func (*tlsConn) Busy() bool { return false }

// Quiet implements IdleConn.
func (c *tlsConn) Quiet() bool { return c.Set() != &c.worker.tls.silent || c.sock.Quiet() }

// Reclaim implements IdleConn.
func (c *tlsConn) Reclaim() { c.close(nil) }

// reclaimStalled is an IdleSource. It finds the oldest TLS handshake that has waited for
// bytes from its client for exchange.MinIdle or longer.
func (w *Worker) reclaimStalled() (since int64, reclaim func()) {
	c := w.stalled(exchange.MinIdle)
	if c == nil {
		return 0, nil
	}
	return c.Since, func() { c.close(os.ErrDeadlineExceeded) }
}
