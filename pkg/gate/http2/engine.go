package http2

import (
	"net/netip"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Limits towards peers (CONTRACT section L).
const (
	maxStreams      = 250
	streamWindow    = 64 << 10     // what a peer may send ahead on a stream
	connWindow      = 512 << 10    // the same for all streams of a connection
	bodyMemory      = 4 << 20      // while a loop holds less of bodies, connWindow is given back at once and not when they are taken
	outBytes        = 128 << 10    // frames that wait for a peer that does not read
	mostUnread      = 2 * outBytes // beyond them nothing is read from a client either
	freeHead        = 2 << 10      // of a stream's head do not count against gate.Heads
	mostHeads       = 512 << 10    // what the heads of a connection take where gate.Heads runs low
	putBytes        = 32 << 10     // payload that one stream adds before others have their turn
	readBytes       = 64 << 10
	prefaceTimeout  = int64(10 * time.Second)
	goAwayTimeout   = int64(time.Second)
	closeTimeout    = int64(time.Second)
	replyTimeout    = int64(5 * time.Second)
	settingsTimeout = int64(10 * time.Second)
)

// Config is what the engine needs beside the gate.
type Config struct {
	Host          []byte // Host where a request has none
	MaxHeaderList int    // octets of a head after decoding; 0 = 64 KiB
	Scheme        string // towards the container
	// Panicked is told of a contained panic, with its value.
	Panicked func(v any)
	// Departed is called when a request or tunnel has ended.
	Departed func()
}

// Stats are the figures of all loops.
type Stats struct {
	connections atomic.Int64
	faults      [16]atomic.Int64 // by h2.Fault
}

// Connections is the number of clients' connections that are open.
func (s *Stats) Connections() int { return int(s.connections.Load()) }

// HTTP2 is the state of clients' connections.
func (s *Stats) HTTP2() gate.HTTP2Stats {
	errors := make(map[string]int64)
	for i, name := range h2.Faults() {
		errors[name] = s.faults[i].Load()
	}
	return gate.HTTP2Stats{Connections: int(s.connections.Load()), Errors: errors}
}

// Engine is HTTP/2 on one loop. Its methods may be called on the loop only.
type Engine struct {
	gate      *gate.Gate
	cfg       *Config
	stats     *Stats
	loop      *loop.Loop
	connector gate.Connector
	read      []byte  // what one read brings
	head      h2.Head // what is being decoded
	frame     h2.Frame
	outs      loop.Spares[buffer]
	ins       loop.Spares[buffer]
	streams   loop.Spares[stream]
	conns     *conn
	held      int // bytes of bodies that have come and not been taken
	date      []byte
	dated     int64
	leaving   bool
}

// buffer is borrowed for as long as there is something in it.
type buffer struct{ b []byte }

// NewEngine makes the part of HTTP/2 that belongs to l. connector finds
// connections to the container.
func NewEngine(l *loop.Loop, g *gate.Gate, c *Config, s *Stats, connector gate.Connector) *Engine {
	e := &Engine{gate: g, cfg: c, stats: s, loop: l, connector: connector}
	e.outs.Init(l, 2, 64, nil)
	e.ins.Init(l, 8, 256, nil)
	e.streams.Init(l, 16, 16384, nil)
	g.Descriptors.Add(e)
	return e
}

// Adopt serves a client's connection: fd is non-blocking and belongs to the
// engine from then on. read has been read from it already. layer, nil for none,
// lies between its bytes and the engine.
func (e *Engine) Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte) {
	c := &conn{peer: peer}
	c.eng = e
	c.handle.Bind(e.loop, c)
	if e.leaving || e.loop.Register(&c.sock, fd, &c.handle) != nil {
		_ = unix.Close(fd)
		e.gate.Descriptors.Release()
		return
	}
	if layer != nil {
		c.sock.Wrap(layer)
	}
	c.begin(read)
}

// Leave tells all clients that no further streams are taken, and closes the
// connections that have none.
func (e *Engine) Leave() {
	e.leaving = true
	for c := e.conns; c != nil; {
		next := c.next
		c.goAway()
		c = next
	}
}

// Oldest is gate.IdleConnections: of connections without a stream.
func (e *Engine) Oldest(found func(gate.IdleConnection, bool)) {
	e.loop.Post(func() {
		c := e.oldestIdle()
		if c == nil {
			found(gate.IdleConnection{}, false)
			return
		}
		found(gate.IdleConnection{Idleness: gate.IdleClient, Since: c.since}, true)
	})
}

// CloseOldest is gate.IdleConnections.
func (e *Engine) CloseOldest(gate.Idleness) {
	e.loop.Post(func() {
		if c := e.oldestIdle(); c != nil {
			e.gate.Descriptors.NoteReclaimed()
			c.cut()
		}
	})
}

// oldestIdle is the connection that has been without a stream for longest, if
// that is long enough. It is asked for where descriptors run out, and not
// before.
func (e *Engine) oldestIdle() (oldest *conn) {
	latest := e.loop.Now() - int64(gate.MinIdle)
	for c := e.conns; c != nil; c = c.next {
		if len(c.streams) == 0 && c.since <= latest && (oldest == nil || c.since < oldest.since) {
			oldest = c
		}
	}
	return oldest
}

// Connections is the number of clients' connections of the loop.
func (e *Engine) Connections() (n int) {
	for c := e.conns; c != nil; c = c.next {
		n++
	}
	return n
}

func (e *Engine) link(c *conn) {
	if c.next = e.conns; c.next != nil {
		c.next.prev = c
	}
	e.conns = c
	e.stats.connections.Inc()
}

func (e *Engine) unlink(c *conn) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		e.conns = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.next, c.prev = nil, nil
	e.stats.connections.Dec()
	e.departed()
}

// dateValue is the value of Date, formatted once a second.
func (e *Engine) dateValue() []byte {
	if now := e.loop.Now(); e.date == nil || now-e.dated >= int64(time.Second) {
		t := time.Now().UTC()
		e.dated = now - int64(t.Nanosecond())
		e.date = t.AppendFormat(e.date[:0], "Mon, 02 Jan 2006 15:04:05 GMT")
	}
	return e.date
}

func (e *Engine) getOut() *buffer {
	if b := e.outs.Get(); b != nil {
		return b
	}
	return &buffer{b: make([]byte, 0, 16<<10)}
}

func (e *Engine) putOut(b *buffer) {
	if cap(b.b) <= 2*outBytes {
		b.b = b.b[:0]
		e.outs.Put(b)
	}
}

func (e *Engine) getIn() *buffer {
	if b := e.ins.Get(); b != nil {
		return b
	}
	return &buffer{b: make([]byte, 0, 4<<10)}
}

func (e *Engine) putIn(b *buffer) {
	if cap(b.b) <= streamWindow {
		b.b = b.b[:0]
		e.ins.Put(b)
	}
}

func (e *Engine) panicked(v any) {
	if e.cfg.Panicked != nil {
		e.cfg.Panicked(v)
	}
}

func (e *Engine) departed() {
	if e.cfg.Departed != nil {
		e.cfg.Departed()
	}
}
