package http2

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Pool holds the HTTP/2 connections of one loop to the container. It implements
// exchange.Connector.
type Pool struct {
	eng         *Engine
	dialer      *upstream.Dialer
	choice      *upstream.Choice
	stats       *upstream.Stats
	conns       []*upConn
	streamQueue exchange.WaitQueue // exchanges that wait for a stream slot or for protocol detection
	freeStreams loop.FreeList[upStream]
	responses   loop.FreeList[wire.Response]
	streams     int // number of open streams on all connections

	maxHeaderList  uint32 // the container's latest SETTINGS_MAX_HEADER_LIST_SIZE
	maxConcurrent  uint32 // the container's latest SETTINGS_MAX_CONCURRENT_STREAMS
	lowWindowUntil int64  // end of the time during which responses get minWindow, because a client read nothing
	// trailersUntil is the time until which the pool expects trailers. Until then,
	// needsExclusive assumes that trailers follow each body without a length. gRPC calls
	// are an exception, because their requests have no trailers.
	trailersUntil int64
}

func newPool(e *Engine) *Pool {
	p := &Pool{eng: e, dialer: &e.worker.Dialer, choice: e.worker.Choice, stats: e.worker.Stats, maxHeaderList: h2.DefaultMaxList, maxConcurrent: maxStreamsUpstream}
	p.freeStreams.Init(e.loop, 16, 16384, nil)
	p.responses.Init(e.loop, 16, 1024, nil)
	return p
}

// Connect implements exchange.Connector. It opens a stream on a connection with a free
// stream slot, or on a new connection.
func (p *Pool) Connect(x *exchange.Exchange, now int64, isRetry bool) (up exchange.Upstream, next int64, o gate.Outcome) {
	if x.Capacity() < minWindow {
		p.lowWindowUntil = now + lowWindowTime
	}
	var c *upConn
	if x.Dial.Attempt == nil {
		var preferNew, wait bool
		if p.needsExclusive(x) {
			c, preferNew, wait = p.chooseExclusive(x)
		} else {
			c, preferNew = p.choose(x)
		}
		if c != nil && !(preferNew && p.dialer.CanOpenExtra()) {
			return p.assign(c, x)
		}
		if wait {
			p.streamQueue.Add(x)
			return nil, now + exclusiveWait, gate.Undecided
		}
		if p.dialer.Enqueue(x) {
			return nil, 0, gate.Undecided
		}
	}
	r := p.dialer.Connect(x, now, p.protocols()...)
	if r.Conn == nil {
		if c != nil && x.Dial.Attempt == nil {
			return p.assign(c, x) // if no connection can be opened, x shares this one
		}
		return nil, r.Next, r.Outcome
	}
	if r.Conn.Protocol == "http/1.1" { // ALPN has chosen HTTP/1.1
		p.choice.NotHTTP2()
		r.Conn.Close()
		x.Wake()
		return nil, 0, gate.Undecided
	}
	c = p.open(r.Conn)
	if x.Dial.Opened++; x.Dial.Opened > maxConnects {
		return nil, 0, gate.UpstreamMalformed
	}
	return p.assign(c, x)
}

// choose returns the connection for x, and whether a new connection would be better.
func (p *Pool) choose(x *exchange.Exchange) (c *upConn, preferNew bool) {
	light := 0            // number of connections that accept streams and have fewer than busyConnStreams
	var contended *upConn // a connection that accepts streams, but whose other uploads may block x
	body := sendsData(x)
	for _, o := range p.conns {
		if !o.acceptsStreams() {
			continue
		}
		if body && o.mayBlock(x) {
			contended = o
			continue
		}
		if p.streams < busyConnStreams {
			return o, false
		}
		if len(o.table.open) < busyConnStreams {
			light++
		}
		if c == nil || x.Burst == (len(o.table.open) > len(c.table.open)) {
			c = o
		}
	}
	if c == nil {
		return contended, true
	}
	if x.Burst {
		return c, light == 1 && len(c.table.open) < busyConnStreams
	}
	return c, light == 0
}

// mayBlock reports whether the connection window is exhausted, or whether the body of x
// and other uploads on c could block each other.
func (c *upConn) mayBlock(x *exchange.Exchange) bool { return c.starved() || !c.uploads.admits(x) }

// sendsData reports whether x sends DATA, which needs the connection window.
func sendsData(x *exchange.Exchange) bool {
	req, _ := x.Downstream().Request()
	return x.Upgrade || req.HasBody()
}

// assign opens a stream for x on c, or queues x until the container's SETTINGS arrive.
func (p *Pool) assign(c *upConn, x *exchange.Exchange) (up exchange.Upstream, next int64, o gate.Outcome) {
	switch {
	case !c.proven && (c.provingDeadline != 0 || x.Upgrade || !c.accepts(x, min(unprovenHeaderList, p.maxHeaderList))): // x must wait for SETTINGS
		p.streamQueue.Add(x)
		return nil, 0, gate.Undecided
	case x.Dial.Detects:
		return nil, 0, x.Dial.LastFailure
	case c.proven && !c.accepts(x, c.settings.MaxHeaderList):
		return nil, 0, gate.HeadTooLarge
	case x.Upgrade && !c.settings.ConnectProtocol && x.Protocol == "HTTP/2.0":
		return nil, 0, gate.MethodNotAllowed
	}
	return p.openStream(c, x), 0, gate.Undecided
}

// accepts reports whether the request's header list has at most limit bytes. It measures
// the header list in the form in which the request would be sent on c.
func (c *upConn) accepts(x *exchange.Exchange, limit uint32) bool {
	req, peer := x.Downstream().Request()
	if x.Upgrade {
		prepare(c, req)
	}
	return req.FitsList(int(limit), peer, c.eng.worker.Host, c.eng.cfg.Scheme)
}

// prepare rewrites an upgrade to WebSocket into the form that the container supports. It
// returns the value of Sec-WebSocket-Accept if an HTTP/1 upgrade becomes an extended
// CONNECT.
func prepare(c *upConn, req *wire.Request) (accept []byte) {
	if c.settings.ConnectProtocol {
		return req.Extend()
	}
	if !req.HTTP2 {
		req.UndoExtend() // an attempt on another connection may have called Extend
	}
	return nil
}

// protocols returns the protocols to offer with ALPN.
func (p *Pool) protocols() []string {
	if p.choice.Known() == upstream.H2C {
		return []string{"h2"}
	}
	return []string{"h2", "http/1.1"}
}

// Cancel implements exchange.Connector.
func (p *Pool) Cancel(x *exchange.Exchange) { p.dialer.Cancel(x) }

func (p *Pool) openStream(c *upConn, x *exchange.Exchange) *upStream {
	s := p.freeStreams.Get()
	if s == nil {
		s = &upStream{}
	}
	id, _ := c.ids.Next()
	s.begin(&c.conn, x, id, h2.Idle)
	p.streams++
	_ = c.sendWindowSetting() // the new window must be announced before the request
	s.recv = h2.NewReceiveWindow(c.ackedWindow)
	if len(c.table.open) == 0 && p.needsExclusive(x) {
		c.setSharing(exclusive, 0)
	}
	s.conn, s.reused = c, c.usedBefore
	if sendsData(x) {
		c.uploads.add(s)
	}
	switch {
	case c.usedBefore:
		p.stats.Reuses.Inc()
	case c.proven:
		// Keep the number of connections opened for x, which NoteResponse may reset.
		// Otherwise x could open connections without limit if the container accepts no
		// stream on them, for example if it sends GOAWAY after SETTINGS.
		opened := x.Dial.Opened
		p.streamQueue.NoteResponse()
		x.Dial.Opened = opened
	}
	c.usedBefore = true
	c.table.add(s)
	if len(c.table.open) == 1 {
		c.lastReadAt, c.pingDeadline = p.eng.loop.Now(), 0
		c.handle.SetDeadline(c.lastReadAt + livenessTimeout)
	}
	return s
}

// release returns a closed stream to the free list.
func (p *Pool) release(s *upStream) {
	p.streams--
	s.dropResponse()
	*s = upStream{}
	p.freeStreams.Put(s)
}

func (p *Pool) getResponse() *wire.Response {
	if r := p.responses.Get(); r != nil {
		return r
	}
	return new(wire.Response)
}

func (p *Pool) putResponse(r *wire.Response) {
	r.Reset()
	p.responses.Put(r)
}

// initialWindow returns the SETTINGS_INITIAL_WINDOW_SIZE to announce on a connection. The
// parameter current is the value announced before, or firstWindow on a new connection.
func (p *Pool) initialWindow(current uint32) uint32 {
	e := p.eng
	return initialStreamWindow(current, p.streams, e.gate.Admission.Scarce(), e.loop.Now() < p.lowWindowUntil, e.pressure())
}

// sendWindowSettings updates SETTINGS_INITIAL_WINDOW_SIZE on all connections.
func (p *Pool) sendWindowSettings() {
	for _, c := range p.conns {
		c.sendWindowSetting()
	}
}

// http2Proven is called when SETTINGS on c prove that the container speaks HTTP/2.
func (p *Pool) http2Proven(c *upConn) {
	p.choice.SpeaksHTTP2(p.eng.loop.Now())
	if c.usedBefore {
		p.streamQueue.NoteResponse()
	}
	p.streamQueue.WakeAll()
}

// surplusConn returns the connection that has been idle for longest. It returns nil if
// that connection has been idle for less than exchange.MinIdle, or if the loop has no
// more than its share of connections.
func (p *Pool) surplusConn() *upConn {
	if c := p.longestIdle(); c != nil && p.dialer.BeyondShare() && p.eng.loop.Now()-c.lastReadAt >= int64(exchange.MinIdle) {
		return c
	}
	return nil
}

// reclaimable is a server.IdleSource for the connection that surplusConn returns. The
// result since is the time at which that connection became idle. The function reclaim
// closes the connection.
func (p *Pool) reclaimable() (since int64, reclaim func()) {
	c := p.surplusConn()
	if c == nil {
		return 0, nil
	}
	return c.lastReadAt, func() { c.retire(h2.NoError, gate.UpstreamClosed) }
}

// trim closes the connections that have been idle for longest, until maxIdleConns idle
// connections are left. It does not close a connection that has been idle for less than
// trimAfter. It returns true if trim must be called again for such a connection.
func (p *Pool) trim() (more bool) {
	for idle, _ := p.Idle(); idle > maxIdleConns; idle-- {
		c := p.longestIdle()
		if c == nil || p.eng.loop.Now()-c.lastReadAt < trimAfter {
			return c != nil
		}
		c.retire(h2.NoError, gate.UpstreamClosed)
	}
	return false
}

func (p *Pool) longestIdle() (c *upConn) {
	for _, o := range p.conns {
		if len(o.table.open) == 0 && o.proven && (c == nil || o.lastReadAt < c.lastReadAt) {
			c = o
		}
	}
	return c
}

// Idle returns the number of idle connections, and the number of all open connections.
func (p *Pool) Idle() (idle, open int) {
	for _, c := range p.conns {
		if len(c.table.open) == 0 {
			idle++
		}
	}
	return idle, len(p.conns)
}
