package http2

import (
	"slices"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Limits towards the container.
const (
	maxStreamsUpstream = 1000
	keptIdleConns      = 4                       // stay without streams when a burst is over
	trimAfter          = int64(10 * time.Second) // when that is
	maxResets          = 100                     // weighted stream resets after which a connection takes no new streams
	calmWeight         = 5                       // weight of a reset with ENHANCE_YOUR_CALM: Node.js ends a session after 100
	crowdedConn        = 120                     // half of what most containers take on a connection
	upConnWindow       = 1 << 20                 // on its way at most; what has come counts by its stream alone, so that none holds others up
	maxAnswerHead      = 1 << 20
	provingTimeout     = int64(2 * time.Second)
	pingAfter          = int64(15 * time.Second)
	maxReadAhead       = 512 << 10          // by containers, on all streams of a loop of whose answers nothing has been taken
	lowWindowTime      = int64(time.Second) // for which answers are not awaited ahead of clients that take nothing
)

// Pool keeps the connections over HTTP/2 to the container of one loop. It is
// the gate.Connector of HTTP/2.
type Pool struct {
	eng          *Engine
	dialer       *upstream.Dialer
	choice       *upstream.Choice
	stats        *upstream.Stats
	conns        []*upConn
	connectQueue exchange.DialLine // exchanges waiting for a stream or for protocol detection
	spare        loop.Spares[upStream]
	// responses are heads that have gone on.
	responses      loop.Spares[wire.Response]
	streams        int    // open streams on all connections
	maxHeaderList  uint32 // the container's last SETTINGS_MAX_HEADER_LIST_SIZE
	maxConcurrent  uint32 // the container's last SETTINGS_MAX_CONCURRENT_STREAMS
	lowWindowUntil int64  // instant until which windows towards the container stay minimal
	// trailersUntil is the instant until which bodies without a length are assumed
	// to end with trailers.
	trailersUntil int64
}

func newPool(e *Engine) *Pool {
	p := &Pool{eng: e, dialer: &e.worker.Dialer, choice: e.worker.Choice, stats: e.worker.Stats, maxHeaderList: h2.DefaultMaxList, maxConcurrent: maxStreamsUpstream}
	p.spare.Init(e.loop, 16, 16384, nil)
	p.responses.Init(e.loop, 16, 1024, nil)
	return p
}

// Connect is gate.Connector: a stream of a connection that has room, or of a
// new one.
func (p *Pool) Connect(x *exchange.Exchange, now int64, fresh bool) (up exchange.Upstream, next int64, o gate.Outcome) {
	if x.Capacity() < minWindow {
		p.lowWindowUntil = now + lowWindowTime
	}
	var c *upConn
	if x.Dial.Attempt == nil {
		var apart bool
		if p.needsExclusive(x) {
			c, apart = p.chooseExclusive(x)
		} else {
			c, apart = p.choose(x)
		}
		if c != nil && !(apart && p.dialer.Spare()) {
			return p.assign(c, x)
		}
		if p.dialer.Queues(x) {
			return nil, 0, gate.Undecided
		}
	}
	r := p.dialer.Connect(x, now, p.protocols()...)
	if r.Conn == nil {
		if c != nil && x.Dial.Attempt == nil {
			return p.assign(c, x) // it goes without one of its own
		}
		return nil, r.Next, r.Outcome
	}
	if r.Conn.Protocol == "http/1.1" { // chosen by TLS
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

// mostOpened limits how many connections a request opens if the container keeps
// closing them before its SETTINGS.
const maxConnects = 8

// choose returns the connection with room for x that suits it best, and whether
// a new one would suit it better. While there are few streams they share the
// first one: many frames go out in one write then. Of many, those that clients
// have begun at once fill one connection after the other, and leave one to
// clients with few streams, which take the one with the fewest: what has many
// to read and to answer does so in an order of its own. A request with a body
// avoids a connection whose window is exhausted by uploads that the container does
// not read, because it would wait until these end.
func (p *Pool) choose(x *exchange.Exchange) (c *upConn, apart bool) {
	light := 0        // connections with room and few streams
	var stuck *upConn // has room for a stream, but its connection window is exhausted
	for _, o := range p.conns {
		if !o.hasRoom() {
			continue
		}
		if o.starved() && sendsData(x) {
			stuck = o
			continue
		}
		if p.streams < crowdedConn {
			return o, false
		}
		if len(o.streams) < crowdedConn {
			light++
		}
		if c == nil || x.Burst == (len(o.streams) > len(c.streams)) {
			c = o
		}
	}
	if c == nil {
		return stuck, true
	}
	if x.Burst {
		return c, light == 1 && len(c.streams) < crowdedConn
	}
	return c, light == 0
}

// uploads reports whether x sends DATA and so needs the connection window.
func sendsData(x *exchange.Exchange) bool {
	req, _ := x.Downstream().Request()
	return x.Upgrade || req.HasBody()
}

// on begins x on c, or lets it wait until the container has proved what it
// speaks.
func (p *Pool) assign(c *upConn, x *exchange.Exchange) (up exchange.Upstream, next int64, o gate.Outcome) {
	switch {
	case !c.proven && (c.provingDeadline != 0 || x.Upgrade || !c.accepts(x, min(unprovenHeaderList, p.maxHeaderList))): // wait for SETTINGS together with others
		p.connectQueue.Join(x)
		return nil, 0, gate.Undecided
	case x.Dial.Detects:
		return nil, 0, x.Dial.Why
	case c.proven && !c.accepts(x, c.settings.MaxHeaderList):
		return nil, 0, gate.HeadTooLarge
	case x.Upgrade && !c.settings.ConnectProtocol && x.Protocol == "HTTP/2.0":
		return nil, 0, gate.MethodNotAllowed
	}
	return p.openStream(c, x), 0, gate.Undecided
}

// unprovenList is the longest header list that is sent before the container's
// SETTINGS, which may announce a limit, have arrived.
const unprovenHeaderList = 4 << 10

// accepts reports whether the header list of the request, as it would be sent on c,
// is within the limit.
func (c *upConn) accepts(x *exchange.Exchange, limit uint32) bool {
	req, peer := x.Downstream().Request()
	if x.Upgrade {
		prepare(c, req)
	}
	return req.FitsList(int(limit), peer, c.eng.worker.Host, c.eng.cfg.Scheme)
}

// prepare rewrites an upgrade to WebSocket into the form that the container
// supports. It returns the value of Sec-WebSocket-Accept for a client of HTTP/1.
func prepare(c *upConn, req *wire.Request) (accept []byte) {
	if c.settings.ConnectProtocol {
		return req.Extend()
	}
	if !req.HTTP2 {
		req.ForgetProtocol() // of a try on another connection
	}
	return nil
}

// protocols is what TLS offers.
func (p *Pool) protocols() []string {
	if p.choice.Known() == upstream.H2C {
		return []string{"h2"}
	}
	return []string{"h2", "http/1.1"}
}

// Cancel is gate.Connector.
func (p *Pool) Cancel(x *exchange.Exchange) { p.dialer.Cancel(x) }

// stream opens a stream for x.
func (p *Pool) openStream(c *upConn, x *exchange.Exchange) *upStream {
	s := p.spare.Get()
	if s == nil {
		s = &upStream{}
	}
	id, _ := c.ids.Next()
	s.stream.open(&c.conn, x, id, h2.Idle)
	p.streams++
	_ = c.sendWindowSetting() // the container is to know before it has the request
	s.recv = h2.NewReceiveWindow(c.ackedWindow)
	if len(c.streams) == 0 && p.needsExclusive(x) {
		c.setSharing(exclusive, 0)
	}
	s.conn, s.reused = c, c.usedBefore
	if c.usedBefore {
		p.stats.Reuses.Inc()
	}
	c.usedBefore = true
	c.streams = append(c.streams, s)
	if len(c.streams) == 1 {
		c.lastReadAt, c.pingDeadline = p.eng.loop.Now(), 0
		c.handle.Until(c.lastReadAt + pingAfter)
	}
	return s
}

// release takes a stream that has ended.
func (p *Pool) release(s *upStream) {
	c := s.conn
	if i := slices.Index(c.streams, s); i >= 0 {
		c.streams = slices.Delete(c.streams, i, i+1)
	}
	p.streams--
	s.dropResponse()
	*s = upStream{}
	p.spare.Put(s)
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

// ahead is how much the container may send ahead on a stream of whose answer nothing
// has been taken yet. Clients that do not take what they have asked for may have
// many streams.
func (p *Pool) initialWindow(now uint32) uint32 {
	switch {
	case p.eng.gate.Admission.Limit() != 0: // buffer whole responses, because that releases their slots
		if p.eng.short() || p.eng.tight() {
			return minWindow
		}
		return p.sharedWindow(now)
	case p.eng.pressed() || p.eng.loop.Now() < p.lowWindowUntil:
		return minWindow
	case p.eng.relaxed():
		return p.sharedWindow(now)
	}
	return min(now, p.sharedWindow(now))
}

// share is what each of many streams has of sentAhead. It gets more only once
// there is twice the room for it: each change is a frame for each connection.
func (p *Pool) sharedWindow(now uint32) uint32 {
	size := uint32(firstWindow)
	for size > minSharedWindow && int(size)*p.streams > maxReadAhead {
		size /= 2
	}
	if size > now && now >= minSharedWindow && 2*int(size)*p.streams > maxReadAhead {
		return now
	}
	return size
}

// adapt tells the container what it may send ahead on all connections: what
// comes on one shows how the clients are.
func (p *Pool) sendWindowSettings() {
	for _, c := range p.conns {
		c.sendWindowSetting()
	}
}

// proved notes that the container speaks HTTP/2, and lets those who wait go on.
func (p *Pool) http2Proven() {
	p.choice.SpeaksHTTP2(p.eng.loop.Now())
	p.connectQueue.WakeAll()
}

// spareConn is the connection that has been without streams for longest, if the
// loop has more connections to the container than its share.
func (p *Pool) spareConn() *upConn {
	if c := p.longestIdle(); c != nil && p.dialer.BeyondShare() && p.eng.loop.Now()-c.lastReadAt >= int64(exchange.MinIdle) {
		return c
	}
	return nil
}

// trim closes connections that have been without streams for long.
func (p *Pool) trim() {
	for idle, _ := p.Idle(); idle > keptIdleConns; idle-- {
		c := p.longestIdle()
		if c == nil || p.eng.loop.Now()-c.lastReadAt < trimAfter {
			return
		}
		c.retire(h2.NoError, gate.UpstreamClosed)
	}
}

func (p *Pool) longestIdle() (c *upConn) {
	for _, o := range p.conns {
		if len(o.streams) == 0 && o.proven && (c == nil || o.lastReadAt < c.lastReadAt) {
			c = o
		}
	}
	return c
}

// Idle is the number of connections that carry nothing, and all of them.
func (p *Pool) Idle() (idle, open int) {
	for _, c := range p.conns {
		if len(c.streams) == 0 {
			idle++
		}
	}
	return idle, len(p.conns)
}
