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
	// helloTimeout is how long a first record may take from its first byte on.
	helloTimeout = 10 * time.Second
	// handshakeTimeout is how long a client may take for its handshake, from its
	// hello on.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes bounds those under way, and minHandshakes is what each loop may
	// have of them; others are queued.
	maxHandshakes = 256
	minHandshakes = 16
	// stallTimeout replaces handshakeTimeout for those that wait for their
	// clients, while others are queued.
	stallTimeout = 500 * time.Millisecond
)

var (
	errStalled      = errors.New("too many handshakes: this one waited longest for its client")
	errShuttingDown = errors.New("the gate shuts down")
)

// TLS is what a port needs whose connections begin with a TLS handshake.
type TLS struct {
	Config *tls.Config
	// Failed is called, on a loop, for each handshake that failed. It may be nil.
	Failed func(peer netip.AddrPort, err error)

	done, failed atomic.Uint64
	pending      atomic.Int64
}

// Handshakes counts those that have succeeded, those that have failed, and those
// under way or queued. It may be called at any time.
func (t *TLS) Handshakes() (done, failed uint64, underWay int) {
	return t.done.Load(), t.failed.Load(), int(t.pending.Load())
}

// tlsConns are the connections of a loop to ports of TLS whose handshake is not
// over, in the order in which they entered their state:
//
//	silent  → begun    the first byte has come
//	begun   → queued   the first record, the client's hello, has come whole
//	queued  → shaking  there are few enough handshakes; the youngest is first: its client is still there
//	shaking → (engine) the handshake has succeeded
//
// From each of them a connection may be closed.
type tlsConns struct {
	silent, partial     IdleSet[tlsConn, *tlsConn]
	queued, handshaking list.List[tlsConn, *tlsConn]

	freeSlots    int           // handshakes that may begin
	stallTimeout time.Duration // how long one may wait for its client while others are queued
}

func (t *tlsConns) init(w *Worker) {
	t.freeSlots, t.stallTimeout = max(maxHandshakes/w.srv.cfg.Loops, minHandshakes), stallTimeout
	t.silent.Init(w, exchange.IdleClient, exchange.MinSilence)
	t.partial.Init(w, exchange.UnfinishedHead, exchange.MinIdle)
	w.AddIdleSource(exchange.UnfinishedHead, w.reclaimStalled)
}

// tlsConn is a connection whose handshake is not over. Its Since is when it was
// accepted, its first byte came or, from then on, its hello.
type tlsConn struct {
	Idle[tlsConn, *tlsConn]
	worker  *Worker
	port    *TLS
	handle  loop.Handle
	sock    loop.Sock
	peer    netip.AddrPort
	layer   *loop.Layer
	session *tls.Conn // while shaking
	state   tlsState
}

// tlsState is a state of tlsConns, or over: closed or handed on.
type tlsState uint8

const (
	tlsSilent tlsState = iota
	tlsPartial
	tlsQueued
	tlsHandshaking
	tlsDone
)

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

// moveTo takes c out of its set or list, for the next state.
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
	c.state = next
}

// Event implements loop.Handler. During a handshake the layer has the events.
func (c *tlsConn) Event(s *loop.Sock) {
	switch {
	case c.state > tlsPartial, !s.Readable():
	case s.Failed() || s.HungUp() && s.Ended():
		c.close(nil)
	case s.HungUp() || recordComplete(s):
		c.hello()
	case c.state == tlsSilent:
		c.state = tlsPartial
		c.worker.tls.partial.Touch(c)
		c.handle.SetDeadline(c.Since + int64(helloTimeout))
	}
}

// recordComplete reports whether a record of TLS has come whole (RFC 8446 section
// 5.1), or something that is none: both are for the handshake.
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

// hello begins the handshake, or queues it.
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
	c.sock.StartHandshake(c.layer, c.session, c.worker.srv.handshakeSlots, &c.handle)
}

// closeStalled closes handshakes that have waited for their clients for long, as many
// as others are queued. The first of these, which is started last, looks again.
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

// stalled is the handshake that began first of those that have waited for their
// clients for long enough, or nil.
func (w *Worker) stalled(enough time.Duration) *tlsConn {
	until := w.Loop.Now() - int64(enough)
	for c := range w.tls.handshaking.All() {
		if since := c.sock.HandshakeWaitingSince(); since != 0 && since <= until {
			return c
		}
	}
	return nil
}

// Step implements loop.Routine: a timeout has passed, or the handshake is over.
func (c *tlsConn) Step() {
	switch c.state {
	case tlsPartial:
		c.close(nil)
	case tlsQueued:
		c.worker.closeStalled()
	case tlsHandshaking:
		over, err := c.sock.HandshakeDone()
		switch {
		case err != nil:
			c.replyToPlaintext(err)
			c.close(err)
		case over:
			c.adopt()
		case c.worker.Loop.Now() >= c.Since+int64(handshakeTimeout):
			c.close(os.ErrDeadlineExceeded)
		}
	}
}

// adopt gives the connection to the protocol that ALPN has chosen.
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

// replyToPlaintext tells a client that speaks HTTP to a port of TLS what is wrong.
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

// close closes the connection. err is the error of its handshake, if that is under
// way.
func (c *tlsConn) close(err error) {
	shaking := c.state == tlsHandshaking
	c.sock.Close()
	c.worker.Gate.Descriptors.Release()
	c.end()
	if !shaking {
		return
	}
	c.port.failed.Inc()
	if c.port.Failed != nil {
		c.port.Failed(c.peer, err)
	}
}

// end takes c from its list and, after a handshake, starts the youngest that is
// queued.
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

// closeHandshakes closes the connections whose handshake has begun, and reports whether
// there are others: their first request may be on its way.
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

// reclaimStalled is the IdleSource of handshakes.
func (w *Worker) reclaimStalled() (since int64, reclaim func()) {
	c := w.stalled(exchange.MinIdle)
	if c == nil {
		return 0, nil
	}
	return c.Since, func() { c.close(os.ErrDeadlineExceeded) }
}
