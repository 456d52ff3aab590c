package server

import (
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// Worker is an event loop of a Server, together with the state that its protocols share.
// Its methods and fields may be used only on the loop, unless their comments say
// otherwise.
type Worker struct {
	Gate   *exchange.Gate // may be used from any goroutine
	Loop   *loop.Loop
	Host   []byte // Host field for requests that have none
	Choice *upstream.Choice
	Dialer upstream.Dialer
	Stats  *upstream.Stats // shared by all workers
	// Router connects to the container over either protocol.
	Router upstream.Router

	srv          *Server
	engines      []Engine
	http1, http2 Engine // http2 may be nil
	listeners    []*listener
	tls          tlsConns
	idle         idleSources
	trims        []func() (more bool)
	date         []byte
	dateSecond   int64
}

func newWorker(s *Server, l *loop.Loop, share int) *Worker {
	w := &Worker{Gate: s.gate, Loop: l, Host: []byte(s.cfg.Upstream.Address.String()), Choice: &s.choice, Stats: &s.pools, srv: s}
	w.Dialer.Init(l, s.gate, &s.cfg.Upstream, w.Choice, w.Stats, share)
	w.tls.init(w)
	w.http1 = w.add(s.cfg.HTTP1)
	w.Router = upstream.Router{Choice: &s.choice, HTTP1: w.http1.Connector()}
	if s.cfg.HTTP2 != nil {
		w.http2 = w.add(s.cfg.HTTP2)
		w.Router.HTTP2 = w.http2.Connector()
	}
	s.gate.Descriptors.Add(w)
	l.OnTrim(w.trim)
	return w
}

func (w *Worker) add(p Protocol) Engine {
	engine := p.NewEngine(w)
	w.engines = append(w.engines, engine)
	return engine
}

// HasHTTP2 reports whether connections may switch to HTTP/2.
func (w *Worker) HasHTTP2() bool { return w.http2 != nil }

// SwitchToHTTP2 passes an HTTP/1 connection to HTTP/2. The parameter read has the bytes
// that have already been read from the connection.
func (w *Worker) SwitchToHTTP2(fd int, peer netip.AddrPort, read []byte) {
	w.http2.Adopt(fd, peer, nil, read)
}

// ShuttingDown reports whether the server has stopped accepting connections. It may be
// called from any goroutine.
func (w *Worker) ShuttingDown() bool { return w.srv.shuttingDown.Load() }

// NoteEnd makes a shutdown check its state. Call it when a request, tunnel or connection
// has ended, or when a client has read part of its last response. It may be called from
// any goroutine.
func (w *Worker) NoteEnd() {
	if w.ShuttingDown() {
		w.srv.shutdown.handle.Wake()
	}
}

// ReportPanic reports a recovered panic.
func (w *Worker) ReportPanic(v any) {
	if w.srv.cfg.Panicked != nil {
		w.srv.cfg.Panicked(v)
	}
}

// OnTrim adds a function that is called when the loop trims its free lists. If f returns
// true, another trim follows later and f is called again.
func (w *Worker) OnTrim(f func() (more bool)) { w.trims = append(w.trims, f) }

// Date returns the value of the Date field. It is formatted once a second.
func (w *Worker) Date() []byte {
	if now := w.Loop.Now(); w.date == nil || now-w.dateSecond >= int64(time.Second) {
		t := w.Loop.WallTime().UTC()
		w.dateSecond = now - int64(t.Nanosecond())
		w.date = t.AppendFormat(w.date[:0], "Mon, 02 Jan 2006 15:04:05 GMT")
	}
	return w.date
}

// stopAccepting accepts the connections in the backlog, closes the listeners, and closes
// idle connections. A connection on which the client has not sent a byte stays open,
// because its first request may be in flight. The result silent is true if there are such
// connections.
func (w *Worker) stopAccepting() (silent bool) {
	for _, l := range w.listeners {
		l.drain()
	}
	w.closeListeners()
	silent = w.closeHandshakes()
	for _, e := range w.engines {
		silent = e.StopAccepting() || silent
	}
	return silent
}

func (w *Worker) closeListeners() {
	for _, l := range w.listeners {
		l.close()
	}
	w.listeners = nil
}

// trim releases memory and idle connections after a burst.
func (w *Worker) trim(collect bool) (more bool) {
	for _, f := range w.trims {
		more = f() || more
	}
	if collect {
		w.Loop.FreeMemory()
	}
	return more
}
