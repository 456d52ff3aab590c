package http1

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// Sizes of a worker's buffers. Heads beyond them make the buffer grow; one
// that grew large does not outlive the request.
const (
	clientBufferBytes   = 4 << 10
	upstreamBufferBytes = 16 << 10
	keptBufferBytes     = 64 << 10
)

// worker is everything that one request needs while it is under way. It
// belongs to a coroutine and serves one connection after the other.
type worker struct {
	eng  *engine
	srv  *Server
	gate *gate.Gate
	task *loop.Task
	conn *conn

	in     []byte // bytes from the client: in[r:w] is not dealt with yet
	r, w   int
	uin    []byte // bytes from the container: uin[:uw]; borrowed while there are any
	uw     int
	toUser []byte // storage of the head for the container, and of chunks
	toPeer []byte // the same for the client

	req      wire.Request
	res      wire.Response
	up       *upstream
	upload   pump
	download pump
	waiter   gate.Waiter

	passage  passage
	exchange gate.Exchange
	began    bool // the request counts as open
	observed bool // the observer has been told of it
	slot     bool // holds a slot
	starved  bool // the last dial found no descriptor
	clocks   gate.Clocks
}

func newWorker(e *engine, t *loop.Task) *worker {
	w := &worker{
		eng: e, srv: e.srv, gate: e.srv.gate, task: t,
		in: make([]byte, clientBufferBytes),
	}
	w.waiter.Notify = t.Wake
	return w
}

// trim readies the worker for another connection.
func (w *worker) trim() {
	w.r, w.w = 0, 0
	w.upload.release(&w.eng.bulks)
	w.download.release(&w.eng.bulks)
	if len(w.in) > keptBufferBytes {
		w.in = make([]byte, clientBufferBytes)
	}
	if cap(w.toUser) > keptBufferBytes {
		w.toUser = nil
	}
	if cap(w.toPeer) > keptBufferBytes {
		w.toPeer = nil
	}
	w.req.Reset()
	w.res.Reset()
}

func (w *worker) now() int64 { return w.eng.loop.Now() }

// begin counts the request.
func (w *worker) begin() {
	w.began = true
	w.passage = passage{}
	w.gate.Drain.Enter()
	w.clocks.Begin(&w.gate.Config, w.now())
	if o := w.gate.Observer; o != nil {
		w.describe()
		o.Begin(&w.exchange)
		w.observed = true
		if lines := w.exchange.TraceLines; lines != nil {
			w.req.ReplaceTrace(lines)
		}
	}
}

// describe fills the exchange with what the head says.
func (w *worker) describe() {
	r := &w.req
	w.exchange = gate.Exchange{
		Protocol: protocols[r.Minor], Method: r.Method, Target: r.Target, Host: r.FinalHost(w.srv.host),
		UserAgent: r.Probe.UserAgent, Peer: w.conn.peer, Encrypted: w.conn.sock.Layered(), Fields: r, Proxied: r.Proxied,
		RouteTag: r.RouteTag, DefaultRoute: r.DefaultRoute, HasDefaultRoute: r.HasDefaultRoute,
		Arrived: time.Duration(loop.Nanotime()),
	}
	if r.Traced {
		w.exchange.Trace = &r.Trace
	}
}

var protocols = [...]string{"HTTP/1.0", "HTTP/1.1"}

// end gives the slot back and tells how the request ended. It is the only
// way out of begin.
func (w *worker) end(outcome gate.Outcome) {
	if w.slot {
		w.slot = false
		w.gate.Admission.End()
	}
	w.began = false
	if w.passage.tunnel {
		w.gate.Drain.LeaveTunnel()
	} else {
		w.gate.Drain.Leave()
	}
	w.srv.departed()
	if w.observed {
		w.observed = false
		x := &w.exchange
		x.Outcome = outcome
		if x.Status == 0 {
			x.Status = outcome.Meaning().Status
		}
		x.Ended = time.Duration(loop.Nanotime())
		w.gate.Observer.End(x)
	}
	w.eng.answers.put(w.uin)
	w.uin, w.uw = nil, 0
}

// answerRoom is where the container's next bytes go. The buffer comes with
// the first of them: requests that wait for their answer are many.
func (w *worker) answerRoom() []byte {
	if w.uin == nil {
		w.uin = w.eng.answers.get()
	} else if w.uw == len(w.uin) {
		w.uin = grow(w.uin)
	}
	return w.uin[w.uw:]
}

// answerBuffers keeps the buffers for answers of one loop.
type answerBuffers struct{ free [][]byte }

// maxFreeAnswers bounds what stays behind after a burst: 64 × 16 KiB.
const maxFreeAnswers = 64

func (a *answerBuffers) get() []byte {
	if n := len(a.free); n > 0 {
		b := a.free[n-1]
		a.free = a.free[:n-1]
		return b
	}
	return make([]byte, upstreamBufferBytes)
}

func (a *answerBuffers) put(b []byte) {
	if len(b) == upstreamBufferBytes && len(a.free) < maxFreeAnswers {
		a.free = append(a.free, b)
	}
}

// abandon releases what a panicking request held.
func (w *worker) abandon() {
	w.dropUpstream()
	w.upload.release(&w.eng.bulks)
	w.download.release(&w.eng.bulks)
	if w.began {
		w.end(gate.InternalError)
	}
}

func (w *worker) dropUpstream() {
	if w.up != nil {
		w.up.close()
		w.up = nil
	}
}
