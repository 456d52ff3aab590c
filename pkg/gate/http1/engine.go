package http1

import (
	"net/netip"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/server"
)

const defaultHeadTimeout = time.Minute

// Protocol implements server.Protocol for HTTP/1.
type Protocol struct {
	// HeadTimeout is the maximum time from the first to the last byte of a request
	// head; 0 = defaultHeadTimeout.
	HeadTimeout time.Duration

	idleAge        exchange.IdleAge
	lingering      atomic.Int64 // connections in lingering close
	pendingReplies atomic.Int64 // clients that have not completely read a local reply
	readingHeads   atomic.Int64 // connections with a partial request head
}

// NewEngine implements server.Protocol.
func (p *Protocol) NewEngine(w *server.Worker) server.Engine { return newEngine(p, w) }

// NumClosing implements server.Protocol. It counts connections with a partial request
// head, with a local reply that the client has not read completely, or in lingering
// close. If a connection in lingering close ended now, a reset could destroy its
// response.
func (p *Protocol) NumClosing() int {
	return int(p.readingHeads.Load() + p.pendingReplies.Load() + p.lingering.Load())
}

type connSet = server.IdleSet[conn, *conn]

// engine is the HTTP/1 part of one loop.
type engine struct {
	gate     *exchange.Gate
	cfg      *Protocol
	worker   *server.Worker
	loop     *loop.Loop
	pool     Pool
	bufs     buffers
	sessions loop.FreeList[session]
	silent   connSet // client connections that have not sent a byte
	reading  connSet // client connections with a partial head
	conns    connSet // other client connections
}

func newEngine(p *Protocol, w *server.Worker) *engine {
	e := &engine{gate: w.Gate, cfg: p, worker: w, loop: w.Loop}
	e.silent.Init(w, exchange.IdleClient, exchange.MinSilence)
	e.conns.Init(w, exchange.IdleClient, exchange.MinIdle)
	e.reading.Init(w, exchange.PartialHead, exchange.MinIdle)
	e.reading.Count = &p.readingHeads
	w.AddIdleSource(exchange.IdleUpstream, e.reclaimUpstream)
	e.bufs.init(w.Gate, w.Loop)
	e.sessions.Init(w.Loop, minFreeSessions, maxFreeSessions, nil)
	e.pool = Pool{worker: w, dialer: &w.Dialer, bufs: &e.bufs, idleAge: &p.idleAge}
	w.OnTrim(e.pool.trim)
	return e
}

// Adopt implements server.Engine.
func (e *engine) Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, _ []byte) {
	c := &conn{eng: e, peer: peer}
	if err := e.loop.Register(&c.sock, fd, c); err != nil {
		e.loop.CloseDescriptor(fd)
		e.gate.Descriptors.Release()
		e.worker.ReportPanic(err)
		return
	}
	e.silent.Touch(c)
	if layer != nil {
		c.sock.Wrap(layer)
		// A request may already be in the layer. Then the socket reports no event for it.
		c.Event(&c.sock)
	}
}

// StopAccepting implements server.Engine.
func (e *engine) StopAccepting() (silent bool) {
	for _, l := range []*connSet{&e.reading, &e.conns} {
		for c := range l.All() {
			if c.session == nil {
				c.finish()
			} else {
				c.session.handle.Wake()
			}
		}
	}
	return e.silent.First() != nil
}

// Clients implements server.Engine.
func (e *engine) Clients() int { return e.silent.Len() + e.reading.Len() + e.conns.Len() }

// Connector implements server.Engine.
func (e *engine) Connector() exchange.Connector { return &e.pool }

// IdleUpstreams implements server.Engine.
func (e *engine) IdleUpstreams() int { return len(e.pool.idle) }

// CloseIdleUpstreams implements server.Engine.
func (e *engine) CloseIdleUpstreams() {
	for n := len(e.pool.idle); n > 0; n = len(e.pool.idle) {
		e.pool.idle[n-1].close()
	}
}
