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

// Limits towards peers (CONTRACT section L).
const (
	maxStreams      = 250
	streamWindow    = 64 << 10         // what a peer may send ahead on a stream
	firstWindow     = 16 << 10         // the same from the container, before the client takes half of that
	minSharedWindow = 256              // likewise, however many streams there are
	minWindow       = 128              // likewise, while there are clients that do not
	pressuredWindow = 2 << 10          // and from then on, while a good part of the memory is in use
	connWindow      = 256 << 10        // what a peer may send ahead on all streams of a connection that carries bodies
	maxUnwritten    = 70 << 10         // frames that wait for a peer that does not read
	maxBatch        = 128 << 10        // frames of a batch, where the peer reads
	maxUnwrittenLow = 16 << 10         // the same where there is no memory left
	maxUnread       = 2 * maxUnwritten // beyond them nothing is read from a client either
	uncountedHead   = 2 << 10          // of a stream's head do not count against gate.Heads
	maxConnHeads    = 512 << 10        // what the heads of a connection take where gate.Heads runs low
	maxWideBuffers  = 8                // of the buffers that follow, before frames are written in the middle of a batch
	narrowBytes     = 16 << 10         // a buffer for frames, with little or no payload
	wideBytes       = 88 << 10         // and with as much as may wait
	quotaBytes      = 32 << 10         // payload that one stream adds before others have their turn
	readBytes       = 64 << 10
	headBytes       = 4 << 10 // the same from clients that send no bodies: some hundred heads
	minHeadBytes    = 1 << 10 // the same once there were
	manyFrames      = 256     // in a turn of the loop
	prefaceTimeout  = int64(10 * time.Second)
	goAwayTimeout   = int64(time.Second)
	goAwayGrace     = int64(200 * time.Millisecond) // for streams that a client had begun when it read GOAWAY
	replyTimeout    = int64(5 * time.Second)
)

// Protocol is HTTP/2 on all loops.
type Protocol struct {
	MaxHeaderList int           // octets of a head after decoding; 0 = 64 KiB
	Scheme        string        // towards the container
	HeadTimeout   time.Duration // from the first byte of a field block, or of any frame, to its last; 0 = a minute

	connections atomic.Int64
	faults      [16]atomic.Int64 // by h2.Fault
}

// On implements server.Protocol.
func (p *Protocol) On(w *server.Worker) server.Part { return newEngine(p, w) }

// Unfinished implements server.Protocol. It counts all connections, because clients
// close theirs after GOAWAY.
func (p *Protocol) Unfinished() int { return int(p.connections.Load()) }

// Stats are the figures of clients' connections. It may be called at any time.
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

// Engine is HTTP/2 on one loop. Its methods may be called on the loop only.
type Engine struct {
	gate    *exchange.Gate
	cfg     *Protocol
	worker  *server.Worker
	loop    *loop.Loop
	clock   func() int64 // the loop's Nanotime
	pool    *Pool
	read    []byte  // what one read brings
	head    h2.Head // what is being decoded
	frame   h2.Frame
	outs    loop.Spares[buffer] // of narrowBytes
	wides   loop.Spares[buffer] // of wideBytes
	buffers [len(bufferSizes)]loop.Spares[buffer]
	streams loop.Spares[downStream]
	clients
	pacer        pacer
	frames       uint32 // that have been handled
	framesBefore uint32 // of them, before this turn of the loop
	iterationAt  int64  // when that began
	wide         int    // buffers of wideBytes that are borrowed
	bufferBytes  int    // octets of buffers for bodies, full or not
	buffered     int    // octets that bodies and frames take: see memory.go
	reserved     int    // of them from the gate's budget
	leaving      bool
}

// buffer is borrowed for as long as there is something in it.
type buffer struct {
	b    []byte
	wide bool // for frames, of wideBytes
}

func newEngine(p *Protocol, w *server.Worker) *Engine {
	e := &Engine{gate: w.Gate, cfg: p, worker: w, loop: w.Loop, clock: w.Loop.Nanotime}
	e.clients.eng = e
	e.outs.Init(w.Loop, 2, 64, nil)
	e.wides.Init(w.Loop, 1, 16, nil)
	for i, size := range bufferSizes {
		e.buffers[i].Init(w.Loop, 1, min(max(8, maxFreeBytes/size), 1024), nil)
	}
	e.streams.Init(w.Loop, 16, 16384, nil)
	e.pool = newPool(e)
	e.pacer.init(e)
	w.OnTrim(e.pool.trim)
	return e
}

// Adopt implements server.Part.
func (e *Engine) Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte) {
	c := &downConn{peer: peer}
	c.eng = e
	c.handle.Bind(e.loop, c)
	if e.loop.Register(&c.sock, fd, &c.handle) != nil {
		e.loop.CloseDescriptor(fd)
		e.gate.Descriptors.Release()
		return
	}
	if layer != nil {
		c.sock.Wrap(layer)
	}
	c.begin(read)
}

// Leave implements server.Part. It sends GOAWAY to all clients, including those
// that have not sent a byte yet.
func (e *Engine) Leave() (silent bool) {
	e.leaving = true
	for c := range e.clients.all() {
		c.goAway()
	}
	return false
}

// Connector implements server.Part.
func (e *Engine) Connector() exchange.Connector { return e.pool }

// IdleUpstreams implements server.Part.
func (e *Engine) IdleUpstreams() int {
	idle, _ := e.pool.Idle()
	return idle
}

// framesOfTurn is how many frames have been handled in this turn of the loop.
func (e *Engine) framesThisIteration() uint32 {
	if now := e.loop.Now(); e.iterationAt != now {
		e.iterationAt, e.framesBefore = now, e.frames
	}
	return e.frames - e.framesBefore
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

// inSizes are those of buffers for what comes on a stream.
var bufferSizes = [...]int{minWindow, 1 << 10, pressuredWindow, 4 << 10, 16 << 10, streamWindow}

// spareIns is what the spare ones of each size may take, about.
const maxFreeBytes = 512 << 10

// getIn gives a buffer for n octets and what follows them.
func (e *Engine) getBuffer(n int) *buffer {
	b := e.newBuffer(n)
	e.bufferBytes += cap(b.b)
	return b
}

func (e *Engine) newBuffer(n int) *buffer {
	for i, size := range bufferSizes {
		if n <= size {
			for j := range e.buffers[i:min(i+2, len(e.buffers))] { // a spare one of the next size is better than another
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
	if i := slices.Index(bufferSizes[:], cap(b.b)); i >= 0 && (cap(b.b) < streamWindow || !e.tight()) {
		b.b = b.b[:0]
		e.buffers[i].Put(b)
	}
}
