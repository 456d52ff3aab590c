package server

import (
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// Worker is one event loop of a Server with what the protocols on it share. Its
// methods and fields may be used on the loop only, unless said otherwise.
type Worker struct {
	Gate   *exchange.Gate // safe for any goroutine
	Loop   *loop.Loop
	Host   []byte // Host where a request has none
	Choice *upstream.Choice
	Dialer upstream.Dialer
	Stats  *upstream.Stats // of all workers
	// Router finds connections to the container, over whichever protocol.
	Router upstream.Router

	srv          *Server
	parts        []Part
	http1, http2 Part // http2 may be nil
	listeners    []*listener
	tls          tlsConns
	idle         idleSources
	trims        []func()
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

func (w *Worker) add(p Protocol) Part {
	part := p.NewPart(w)
	w.parts = append(w.parts, part)
	return part
}

// HasHTTP2 reports whether connections may be handed on to HTTP/2.
func (w *Worker) HasHTTP2() bool { return w.http2 != nil }

// SwitchToHTTP2 gives a connection of HTTP/1 to HTTP/2. read has been read from it.
func (w *Worker) SwitchToHTTP2(fd int, peer netip.AddrPort, read []byte) {
	w.http2.Adopt(fd, peer, nil, read)
}

// ShuttingDown reports that no further requests are taken. It may be called from any
// goroutine.
func (w *Worker) ShuttingDown() bool { return w.srv.shuttingDown.Load() }

// NoteEnd makes a shutdown count again: a request, a tunnel or a connection
// has ended, or a client has taken some of its last answers. It may be called from
// any goroutine.
func (w *Worker) NoteEnd() {
	if w.ShuttingDown() {
		w.srv.shutdown.handle.Wake()
	}
}

// ReportPanic reports a contained panic.
func (w *Worker) ReportPanic(v any) {
	if w.srv.cfg.Panicked != nil {
		w.srv.cfg.Panicked(v)
	}
}

// OnTrim makes f be called when the loop lets go of what a burst has left
// behind.
func (w *Worker) OnTrim(f func()) { w.trims = append(w.trims, f) }

// Date is the value of the field, formatted once a second.
func (w *Worker) Date() []byte {
	if now := w.Loop.Now(); w.date == nil || now-w.dateSecond >= int64(time.Second) {
		t := w.Loop.WallTime().UTC()
		w.dateSecond = now - int64(t.Nanosecond())
		w.date = t.AppendFormat(w.date[:0], "Mon, 02 Jan 2006 15:04:05 GMT")
	}
	return w.date
}

// stopAccepting stops accepting and closes what is idle. Connections that the kernel
// has accepted for the gate are served first, and those that have not sent
// anything yet stay open: their client has connected before.
func (w *Worker) stopAccepting() (silent bool) {
	for _, l := range w.listeners {
		l.drain()
	}
	w.closeListeners()
	silent = w.closeHandshakes()
	for _, p := range w.parts {
		silent = p.StopAccepting() || silent
	}
	return silent
}

func (w *Worker) closeListeners() {
	for _, l := range w.listeners {
		l.close()
	}
	w.listeners = nil
}

// trim gives the memory of a burst back.
func (w *Worker) trim(collect bool) {
	for _, f := range w.trims {
		f()
	}
	if collect {
		w.Loop.FreeMemory()
	}
}
