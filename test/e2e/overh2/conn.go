package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// gateConn is an HTTP/2 connection to the gate, with at most one open stream.
type gateConn struct {
	net         net.Conn
	onIdleClose func() // called if the gate closes the connection between two requests
	w           *bufio.Writer
	framer      *http2.Framer
	block       bytes.Buffer
	enc         *hpack.Encoder

	mu      sync.Mutex // guards the fields below, and the writes
	changed *sync.Cond
	window  int64
	initial int64
	nextID  uint32
	goAway  bool
	dead    bool
	current *stream
	credit  int // flow-control credit that is not yet returned to the gate, in bytes
}

// ownWindow is the initial flow-control window of RFC 9113, in octets. It is the size of
// the receive windows, because overh2 does not change them by SETTINGS.
const ownWindow = 65535

// event is a frame received on a stream.
type event struct {
	fields [][2]string
	data   []byte
	flow   int // octets that count against the windows
	end    bool
	lost   bool
	code   http2.ErrCode
}

type stream struct {
	c              *gateConn
	id             uint32
	window         int64
	credit         int // credit of the stream; see gateConn.credit
	events         []event
	remoteClosed   bool // the gate has ended or reset the stream, or the connection has ended
	closed         bool // overh2 has ended or reset the stream, or the gate has reset it
	endSent        bool // overh2 has sent END_STREAM, so the gate gets the whole request
	responded      bool
	switched       bool // a tunnel is open
	tunnelDeclined bool // the response declined the tunnel
}

func newGateConn(conn net.Conn, onIdleClose func()) (*gateConn, error) {
	c := &gateConn{net: conn, onIdleClose: onIdleClose, w: bufio.NewWriterSize(conn, 64<<10), window: ownWindow, initial: ownWindow, nextID: 1}
	c.changed = sync.NewCond(&c.mu)
	c.framer = http2.NewFramer(c.w, conn)
	c.framer.SetMaxReadFrameSize(1 << 20)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = 4 << 20
	c.enc = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(c.w, http2.ClientPreface); err != nil {
		return nil, err
	}
	if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}); err != nil {
		return nil, err
	}
	go c.read()
	return c, nil
}

func (c *gateConn) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *gateConn) flush()           { c.do(func() { _ = c.w.Flush() }) }
func (c *gateConn) close()           { c.flush(); _ = c.net.Close() }
func (c *gateConn) isUnusable() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.goAway || c.dead }

func (c *gateConn) abort() {
	conn := c.net
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = t.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// open buffers a head until the next flush.
func (c *gateConn) open(r *request) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &stream{c: c, id: c.nextID, window: c.initial}
	c.nextID += 2
	c.current = st
	end := r.length == 0 && r.tunnel == ""
	c.headers(st, r.fields, end)
	return st
}

func (c *gateConn) headers(st *stream, fields [][2]string, end bool) {
	c.block.Reset()
	for _, f := range fields {
		_ = c.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	b := c.block.Bytes()
	n := min(len(b), 16<<10)
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: st.id, BlockFragment: b[:n], EndHeaders: n == len(b), EndStream: end})
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = min(len(b), 16<<10)
		_ = c.framer.WriteContinuation(st.id, n == len(b), b[:n])
	}
	st.closed = st.closed || end
	st.endSent = st.endSent || end
	c.changed.Broadcast()
}

// data sends p as fast as the windows allow, or discards p if the stream has ended.
func (st *stream) data(p []byte, end bool) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 && !st.closed {
		n := int(min(int64(len(p)), 16<<10, st.window, c.window))
		if n <= 0 {
			if c.dead {
				return
			}
			_ = c.w.Flush()
			c.changed.Wait()
			continue
		}
		st.window -= int64(n)
		c.window -= int64(n)
		_ = c.framer.WriteData(st.id, end && n == len(p), p[:n])
		st.closed = end && n == len(p)
		st.endSent = st.closed
		p = p[n:]
	}
	if end && !st.closed {
		_ = c.framer.WriteData(st.id, true, nil)
		st.closed, st.endSent = true, true
	}
	if st.closed {
		c.changed.Broadcast()
	}
}

func (st *stream) finish(trailers [][2]string) {
	if len(trailers) == 0 {
		st.data(nil, true)
		return
	}
	st.c.do(func() {
		if !st.closed {
			st.c.headers(st, trailers, true)
		}
	})
}

func (st *stream) cancel() {
	st.c.do(func() {
		if !st.remoteClosed || !st.closed {
			_ = st.c.framer.WriteRSTStream(st.id, http2.ErrCodeCancel)
			_ = st.c.w.Flush()
		}
		st.closed = true
		st.push(event{lost: true, code: http2.ErrCodeCancel})
	})
}

// push adds an event. The caller holds c.mu.
func (st *stream) push(e event) {
	if st.remoteClosed {
		if e.lost { // the response is complete; stop sending the request
			st.closed = true
			st.c.changed.Broadcast()
		}
		return
	}
	st.events = append(st.events, e)
	st.remoteClosed = e.end || e.lost
	st.closed = st.closed || e.lost
	st.c.changed.Broadcast()
}

// next returns the next event, and calls pause before it waits.
func (st *stream) next(pause func()) event {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(st.events) == 0 {
		c.mu.Unlock()
		pause()
		c.mu.Lock()
		if len(st.events) == 0 {
			c.changed.Wait()
		}
	}
	e := st.events[0]
	st.events = st.events[1:]
	return e
}

// consumed returns credit for n octets to both windows. It sends an update only for half
// a window or more, because after small updates the gate would send ever smaller frames.
func (st *stream) consumed(n int) {
	st.c.do(func() {
		st.c.credit += n
		st.credit += n
		if st.c.credit < ownWindow/2 {
			return
		}
		_ = st.c.framer.WriteWindowUpdate(0, uint32(st.c.credit))
		st.c.credit = 0
		if !st.remoteClosed {
			_ = st.c.framer.WriteWindowUpdate(st.id, uint32(st.credit))
		}
		st.credit = 0
		_ = st.c.w.Flush()
	})
}

func (st *stream) sent() bool { st.c.mu.Lock(); defer st.c.mu.Unlock(); return st.endSent }

func (st *stream) declined() bool {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	return st.tunnelDeclined || st.responded && !st.switched
}

func (st *stream) await(done func() bool) {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	for !done() && !st.c.dead {
		_ = st.c.w.Flush()
		st.c.changed.Wait()
	}
}

func (st *stream) awaitSent() { st.await(func() bool { return st.closed }) }
func (st *stream) awaitEnd()  { st.await(func() bool { return st.responded }) }

// recordResponse records that the client has the whole response.
func (st *stream) recordResponse() {
	st.c.do(func() {
		st.responded = true
		st.c.changed.Broadcast()
		st.c.reportIdleClose()
	})
}

func (c *gateConn) read() {
	code := http2.ErrCodeNo
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			var broken http2.StreamError
			if errors.As(err, &broken) {
				c.do(func() { c.current.push(event{lost: true, code: http2.ErrCodeInternal}) })
				continue
			}
			if errors.Is(err, syscall.ECONNRESET) {
				code = http2.ErrCodeInternal
			}
			break
		}
		c.do(func() { c.take(f) })
	}
	c.do(func() {
		c.dead = true
		if c.current != nil {
			c.current.push(event{lost: true, code: code})
		}
		c.reportIdleClose()
		c.changed.Broadcast()
	})
}

// reportIdleClose calls c.onIdleClose if the gate has closed the connection between two
// requests. It does nothing after a GOAWAY, because the next request then opens a new
// connection to the gate. The caller holds c.mu.
func (c *gateConn) reportIdleClose() {
	if c.dead && !c.goAway && (c.current == nil || c.current.responded) {
		c.onIdleClose()
	}
}

// take handles a frame. The caller holds c.mu.
func (c *gateConn) take(f http2.Frame) {
	st := c.current
	isCurrent := st != nil && f.Header().StreamID == st.id
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return
		}
		if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
			if st != nil {
				st.window += int64(v) - c.initial
			}
			c.initial = int64(v)
		}
		_ = c.framer.WriteSettingsAck()
		_ = c.w.Flush()
		c.changed.Broadcast()
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.framer.WritePing(true, f.Data)
			_ = c.w.Flush()
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.window += int64(f.Increment)
		} else if isCurrent {
			st.window += int64(f.Increment)
		}
		c.changed.Broadcast()
	case *http2.GoAwayFrame:
		c.goAway = true
		if st != nil && f.LastStreamID < st.id {
			st.push(event{lost: true, code: http2.ErrCodeRefusedStream})
		}
	case *http2.RSTStreamFrame:
		if isCurrent {
			st.push(event{lost: true, code: f.ErrCode})
		}
	case *http2.MetaHeadersFrame:
		if isCurrent {
			e := event{end: f.StreamEnded()}
			for _, h := range f.Fields {
				e.fields = append(e.fields, [2]string{h.Name, h.Value})
			}
			st.push(e)
		}
	case *http2.DataFrame:
		if isCurrent {
			st.push(event{data: bytes.Clone(f.Data()), flow: int(f.Length), end: f.StreamEnded()})
		}
	}
}
