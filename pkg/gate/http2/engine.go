package http2

import (
	"net/netip"
	"slices"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Protocol implements server.Protocol for HTTP/2. It holds the state that all loops
// share.
type Protocol struct {
	MaxHeaderList int           // maximum size of a received head in bytes, after decoding; 0 = 64 KiB
	Scheme        string        // scheme of requests to the container
	HeadTimeout   time.Duration // maximum time from the first byte of a frame or field block to its last byte; 0 = 1 min

	connections atomic.Int64
	faults      [16]atomic.Int64 // number of violations, indexed by h2.Fault
}

// NewEngine implements server.Protocol.
func (p *Protocol) NewEngine(w *server.Worker) server.Engine { return newEngine(p, w) }

// NumClosing implements server.Protocol. It counts all client connections, because
// clients should close them after GOAWAY.
func (p *Protocol) NumClosing() int { return int(p.connections.Load()) }

// Stats returns the statistics of the client connections of all loops. It may be called
// concurrently.
func (p *Protocol) Stats() gate.HTTP2Stats {
	errors := make(map[string]int64)
	for i, name := range h2.Faults() {
		errors[name] = p.faults[i].Load()
	}
	return gate.HTTP2Stats{Connections: int(p.connections.Load()), Errors: errors}
}

func (p *Protocol) headTimeout() int64 {
	if p.HeadTimeout == 0 {
		return int64(time.Minute)
	}
	return int64(p.HeadTimeout)
}

// Engine is HTTP/2 on one loop. Its methods must be called on that loop.
type Engine struct {
	gate    *exchange.Gate
	cfg     *Protocol
	worker  *server.Worker
	loop    *loop.Loop
	clock   func() int64 // the loop's Nanotime
	pool    *Pool
	read    []byte  // buffer for one read
	head    h2.Head // the head that is being decoded
	frame   h2.Frame
	outs    loop.FreeList[buffer] // free output buffers of narrowBytes
	wides   loop.FreeList[buffer] // free output buffers of wideBytes
	buffers [len(bufferSizes)]loop.FreeList[buffer]
	streams loop.FreeList[downStream]
	clients
	pacer  pacer
	frames uint32 // number of frames handled
	// runFrames is the value of the counter frames at the first call of
	// framesThisIteration in the present iteration.
	runFrames   uint32
	iterationAt int64                       // time of the iteration in which runFrames was set
	wide        int                         // number of wide buffers in use
	bufferBytes int                         // total capacity of the stream buffers in use
	buffered    int                         // number of bytes of DATA and of frames that are buffered; see memory.go
	reserved    int                         // number of bytes charged to the gate's memory for bodies
	draining    bool                        // StopAccepting has been called
	loadStreams map[*downStream]*loadStream // streams in phaseLoadReports; nil until there is one
}

// buffer is an output buffer or the receive buffer of a stream.
type buffer struct {
	b    []byte
	wide bool // the capacity is wideBytes
}

func newEngine(p *Protocol, w *server.Worker) *Engine {
	e := &Engine{gate: w.Gate, cfg: p, worker: w, loop: w.Loop, clock: w.Loop.Nanotime}
	e.clients.init(e)
	e.outs.Init(w.Loop, 2, 64, nil)
	e.wides.Init(w.Loop, 1, 16, nil)
	for i, size := range bufferSizes {
		e.buffers[i].Init(w.Loop, 1, min(max(8, maxFreeBytes/size), 1024), nil)
	}
	e.streams.Init(w.Loop, 16, 16384, nil)
	e.pool = newPool(e)
	e.pacer.init(e)
	w.AddIdleSource(exchange.IdleUpstream, e.pool.reclaimable)
	w.OnTrim(e.pool.trim)
	return e
}

// Adopt implements server.Engine.
func (e *Engine) Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte) {
	c := &downConn{peer: peer}
	c.eng = e
	c.handle.Bind(e.loop, c)
	if e.loop.Register(&c.socket, fd, &c.handle) != nil {
		e.loop.CloseDescriptor(fd)
		e.gate.Descriptors.Release()
		return
	}
	if layer != nil {
		c.socket.Wrap(layer)
	}
	c.begin(read)
}

// StopAccepting implements server.Engine. It sends GOAWAY to all clients. A client whose
// preface has not arrived gets GOAWAY after the preface.
func (e *Engine) StopAccepting() (silent bool) {
	e.draining = true
	e.endLoadStreams()
	for c := range e.clients.all() {
		c.goAway()
	}
	return false
}

// Clients implements server.Engine.
func (e *Engine) Clients() int { return e.clients.idle.Len() + e.clients.reading.Len() }

// Connector implements server.Engine.
func (e *Engine) Connector() exchange.Connector { return e.pool }

// IdleUpstreams implements server.Engine.
func (e *Engine) IdleUpstreams() int {
	idle, _ := e.pool.Idle()
	return idle
}

// CloseIdleUpstreams implements server.Engine.
func (e *Engine) CloseIdleUpstreams() {
	for _, c := range slices.Clone(e.pool.conns) {
		if len(c.table.open) == 0 {
			c.retire(h2.NoError, gate.UpstreamClosed)
		}
	}
}

// framesThisIteration returns the number of frames that the loop has handled since the
// first call of this method in the present iteration.
func (e *Engine) framesThisIteration() uint32 {
	if now := e.loop.Now(); e.iterationAt != now {
		e.iterationAt, e.runFrames = now, e.frames
	}
	return e.frames - e.runFrames
}

func (e *Engine) getOut() *buffer {
	if b := e.outs.Get(); b != nil {
		return b
	}
	return &buffer{b: make([]byte, 0, narrowBytes)}
}

func (e *Engine) getWide() *buffer {
	e.wide++
	if b := e.wides.Get(); b != nil {
		return b
	}
	return &buffer{b: make([]byte, 0, wideBytes), wide: true}
}

func (e *Engine) putOut(b *buffer) {
	b.b = b.b[:0]
	list := &e.outs
	if b.wide {
		list = &e.wides
		e.wide--
	}
	if cap(b.b) <= wideBytes {
		list.Put(b)
	}
}

// bufferSizes are the capacities of receive buffers.
var bufferSizes = [...]int{minWindow, 1 << 10, pressuredWindow, 4 << 10, 16 << 10, streamWindow}

// getBuffer returns a buffer for at least n bytes.
func (e *Engine) getBuffer(n int) *buffer {
	b := e.newBuffer(n)
	e.bufferBytes += cap(b.b)
	return b
}

func (e *Engine) newBuffer(n int) *buffer {
	for i, size := range bufferSizes {
		if n <= size {
			for j := range e.buffers[i:min(i+2, len(e.buffers))] { // a free buffer of the next size saves an allocation
				if b := e.buffers[i+j].Get(); b != nil {
					return b
				}
			}
			n = size
			break
		}
	}
	return &buffer{b: make([]byte, 0, n)}
}

func (e *Engine) putBuffer(b *buffer) {
	e.bufferBytes -= cap(b.b)
	if i := slices.Index(bufferSizes[:], cap(b.b)); i >= 0 && (cap(b.b) < streamWindow || e.pressure() < pressureHigh) {
		b.b = b.b[:0]
		e.buffers[i].Put(b)
	}
}
