package simulate

import (
	"bytes"
	"slices"
	"strings"
)

// h2Client is an HTTP/2 client with concurrent requests on one connection. The oracle
// uses the fields of client for both protocols.
type h2Client struct {
	*client
	end           h2End
	streams       []*h2Stream // all streams of this connection; stream i is at (i-1)/2
	http1         []byte      // an HTTP/1 response received on this connection
	open          []*h2Stream
	thinking      bool // waits before the next request
	maxStreams    int  // maximum number of concurrent streams
	initialWindow int  // initial window of streams, as announced
	policy        policy
	uncredited    int // octets not yet returned to the connection window
	resizes       []resize

	goAwayAnnouncedAt int64 // time of the first GOAWAY of a shutdown (identifier 2^31-1)
	goAwayAt          int64 // time of the GOAWAY with the last processed stream
	last              uint32
	enhanceYourCalm   bool // the GOAWAY had the code ENHANCE_YOUR_CALM
	pausedAt          int64
	idleConns         int  // consecutive connections without a request
	unchecked         bool // the initial window changed after streams were opened
}

// resize is a change of the initial window that the gate has not acknowledged.
type resize struct {
	change          int    // of the stream windows
	firstUnaffected uint32 // the change applies to smaller stream identifiers
}

// h2Stream is a request of an h2Client.
type h2Stream struct {
	c              *h2Client
	id             uint32
	q              *request
	send           int // send window
	recv           int // receive window
	updates        int // WINDOW_UPDATEs sent for recv
	charged        int
	sent           int  // body octets sent
	sentEnd        bool // END_STREAM is sent
	waits          bool // the upload is paused, or waits for 100
	uploadRejected bool // a final response arrived instead of 100
	openedAt       int64

	finalHead   bool // the final head was received
	endReceived bool // END_STREAM was received
	canceled    bool // reset by the client
	closed      bool
	numReceived int
	reply       []byte
	uncredited  int
	paused      bool
	trailers    [][2]string
}

func (c *h2Client) start() {
	if c.done {
		return
	}
	if len(c.todo) == 0 {
		c.done = true
		return
	}
	l := c.newLink("h2client")
	l.peer = &h2Peer{c, l}
	c.link, c.disconnected, c.closing = l, false, false
	listening, room := c.arrive(c.backlog, l)
	switch {
	case !listening:
		if !c.mayClose() {
			c.found("client %d: connection refused before the drain became quiet", c.id)
		}
		c.done = true
		return
	case !room:
		if c.numAttempts++; c.numAttempts > 100 {
			c.done = true
			return
		}
		c.schedule(50*millisecond, c.start)
		return
	}
	h := &c.run.h2
	l.connectedAt = c.now
	c.note("client %s: client %d connects, %d requests left", l, c.id, len(c.todo))
	c.end.init(c.run, l, c)
	c.end.piece, c.end.gap = h.piece, h.pieceGap
	c.streams, c.open, c.thinking, c.uncredited, c.resizes = nil, nil, false, 0, nil
	c.goAwayAnnouncedAt, c.goAwayAt, c.last, c.enhanceYourCalm, c.pausedAt, c.unchecked, c.http1 = 0, 0, 0, false, 0, false, nil
	c.maxStreams, c.initialWindow, c.policy = 1+c.rng.IntN(h.most), pick(c.world, h.windows...), h.policy
	c.preface()
	c.next()
}

// preface sends the connection preface and SETTINGS.
func (c *h2Client) preface() {
	var p []byte
	if c.initialWindow != h2Window {
		p = setting(p, 4, c.initialWindow)
	}
	if h := &c.run.h2; h.table != 4096 {
		p = setting(p, 1, h.table)
		c.end.dec.SetAllowedMaxDynamicTableSize(4096)
	}
	if c.rng.IntN(4) == 0 {
		p = setting(p, 0x4242, 7) // an unknown setting
	}
	b := frame([]byte(h2Preface), fSettings, 0, 0, p)
	c.resizes = append(c.resizes, resize{})
	c.end.ourAcks++
	if c.rng.IntN(2) == 0 {
		more := c.rng.IntN(1 << 20)
		c.end.recv += more + 1
		b = frame(b, fWindow, 0, 0, uint32Bytes(uint32(more+1)))
	}
	c.end.write(b)
	if c.chance(c.run.h2.pings) {
		c.later(c.spread(1, 500)*millisecond, func() {
			c.end.pings++
			c.end.sendFrame(fPing, 0, 0, []byte("how long"))
		})
	}
	if c.chance(c.run.h2.resize) {
		c.later(c.spread(1, 500)*millisecond, c.resize)
	}
}

// later runs f after delay, unless the connection has ended.
func (c *h2Client) later(delay int64, f func()) {
	l := c.link
	c.schedule(delay, func() {
		if c.link == l && !c.disconnected && !l.closed {
			f()
		}
	})
}

// resize changes the initial window of all streams.
func (c *h2Client) resize() {
	to := int(c.spread(0, 1<<18))
	c.resizes = append(c.resizes, resize{to - c.initialWindow, uint32(2*len(c.streams) + 1)})
	c.initialWindow = to
	c.unchecked = true
	c.end.ourAcks++
	c.end.sendFrame(fSettings, 0, 0, setting(nil, 4, to))
}

// acked implements h2Role.
func (c *h2Client) acked() {
	x := c.resizes[0]
	c.resizes = c.resizes[1:]
	for _, s := range c.open {
		if s.id < x.firstUnaffected {
			s.recv += x.change
		}
	}
	if x.firstUnaffected == 0 {
		return
	}
	for _, s := range c.open { // replenish windows that are too small now
		if s.recv < 1000 && !s.paused {
			c.releaseCredit(s, 1000-s.recv)
		}
	}
}

// settings implements h2Role.
func (c *h2Client) settings(change int) {
	for _, s := range c.open {
		s.send += change
		c.upload(s)
	}
	if !c.disconnected {
		c.schedule(0, c.next)
	}
}

// next opens the next stream if the limits allow it.
func (c *h2Client) next() {
	if c.disconnected || c.closing || c.thinking || c.done || c.link.closed || len(c.open) >= c.maxStreams {
		return
	}
	if len(c.todo) == 0 {
		if len(c.open) == 0 {
			c.closeIdle()
		}
		return
	}
	q := c.todo[0]
	if q.upgrade && !c.end.connects {
		return // wait for SETTINGS_ENABLE_CONNECT_PROTOCOL
	}
	c.thinking = true
	c.later(q.thinks, func() {
		c.thinking = false
		if len(c.todo) == 0 || c.todo[0] != q || c.closing && !(c.goAwayAt == 0 && c.chance(c.run.h2.inTime) && c.now-c.goAwayAnnouncedAt < 100*millisecond) {
			return
		}
		c.todo = c.todo[1:]
		c.openStream(q)
		c.next()
	})
}

// closeIdle closes a connection that has no open streams. If requests remain, the client
// opens another connection for them.
func (c *h2Client) closeIdle() {
	c.disconnected, c.done = true, len(c.todo) == 0
	defer func() { c.end.deadEnd = true }()
	if c.chance(c.run.h2.announces) {
		c.end.sendFrame(fGoAway, 0, 0, append(uint32Bytes(0), uint32Bytes(codeNone)...))
	}
	c.end.whenSent(c.link.closeByPeer)
	if !c.done {
		c.reconnect()
	}
}

// reconnect opens a connection for the remaining requests. Its attempts are limited,
// because clients could otherwise compete for descriptors for ever.
func (c *h2Client) reconnect() {
	if c.idleConns++; c.idleConns > 100 && c.run.settings.descriptors > 0 {
		c.done = true
		return
	}
	c.schedule(c.randomIn(0, c.run.settings.think), c.start)
}

// streamOf returns the stream of a frame, or nil to ignore the frame.
func (c *h2Client) streamOf(id uint32, frameType uint8) *h2Stream {
	if id%2 == 0 || int(id/2) >= len(c.streams) {
		c.end.protocolError("%s of %d, which is not open", frameNames[frameType], id)
		return nil
	}
	s := c.streams[id/2]
	switch {
	case s.canceled:
		return nil
	case s.endReceived && (frameType == fHeaders || frameType == fData):
		c.end.protocolError("%s of %d, which has ended", frameNames[frameType], id)
		return nil
	case s.closed:
		if frameType == fHeaders || frameType == fData {
			c.end.protocolError("%s of %d, which is closed", frameNames[frameType], id)
		}
		return nil
	}
	return s
}

// h2Peer is a connection of an h2Client, which may already use a newer one.
type h2Peer struct {
	*h2Client
	conn *link
}

func (p *h2Peer) received(b []byte) {
	if p.conn == p.link && !p.disconnected {
		p.parse(b)
	}
}

func (p *h2Peer) peerClosed() {
	if p.conn == p.link && !p.disconnected {
		p.h2Client.peerClosed()
	} else {
		p.conn.closeByPeer()
	}
}

func (p *h2Peer) cut() {
	if p.conn == p.link && !p.disconnected {
		p.h2Client.cut()
	}
}

// parse parses bytes from the gate.
func (c *h2Client) parse(b []byte) {
	if !c.end.settled && (len(c.http1) > 0 || b[0] == 'H') {
		c.takeHTTP1(b)
		return
	}
	c.end.parse(b)
	if c.end.deadEnd && !c.disconnected {
		c.disconnected, c.done = true, true
		c.link.abort()
	}
}

// takeHTTP1 parses an HTTP/1 response before any frame. Only 408 is valid, which the gate
// sends if the preface is incomplete.
func (c *h2Client) takeHTTP1(b []byte) {
	const timeout = "HTTP/1.1 408 "
	before := len(c.http1)
	c.http1 = append(c.http1, b...)
	if before >= len(timeout) || len(c.http1) < len(timeout) {
		return
	}
	slow := c.run.h2Drips(len(h2Preface)) >= int64(c.run.settings.headTimeout)
	if !strings.HasPrefix(string(c.http1), timeout) || !slow {
		c.found("%s: %s over HTTP/1 (slow preface: %v)", c.link, printable(c.http1), slow)
	}
}

// releaseCredit returns n octets of credit to a stream when the policy says so.
func (c *h2Client) releaseCredit(s *h2Stream, n int) {
	if !s.closed && !c.disconnected && n > 0 && !s.endReceived {
		s.recv += n
		c.end.releaseCredit(s.id, n)
	}
}

// data implements h2Role.
func (c *h2Client) data(id uint32, p []byte, charged int, end bool) {
	c.uncredited += charged
	switch {
	case c.policy == delayed:
		c.later(c.spread(1, 200)*100*microsecond, c.returnCredit)
	case c.policy == atOnce || c.uncredited >= h2Window/2:
		c.returnCredit()
	}
	s := c.streamOf(id, fData)
	if s == nil {
		return
	}
	if !s.finalHead {
		c.end.protocolError("DATA of %d before its head", id)
		return
	}
	if s.recv -= charged; s.recv < 0 && charged > 0 {
		c.end.protocolError("DATA of %d beyond its window, by %d", id, -s.recv)
		return
	}
	c.bodyBytes2(s, p)
	if end {
		c.complete2(s)
		return
	}
	s.uncredited += charged
	q := s.q
	if q.slowAt >= 0 && s.numReceived >= q.slowAt {
		q.slowAt = -1
		c.stall(s)
	}
	if q.disconnectAfter >= 0 && s.numReceived+q.commented >= max(q.disconnectAfter, 1) {
		c.abortRequest(s)
		return
	}
	if s.paused {
		return
	}
	switch {
	case c.policy == delayed:
		c.later(c.spread(1, 200)*100*microsecond, func() { c.returnStreamCredit(s) })
	case c.policy == atOnce || s.uncredited >= c.initialWindow/2:
		c.returnStreamCredit(s)
	}
}

// stall pauses reading, on one stream or on the whole connection.
func (c *h2Client) stall(s *h2Stream) {
	c.slowUntil = max(c.slowUntil, c.now+s.q.slow)
	if c.chance(c.run.h2.paused) {
		l := c.link
		l.pause()
		c.pausedAt = c.now
		c.schedule(s.q.slow, l.resume)
		return
	}
	s.paused = true
	c.later(s.q.slow, func() {
		s.paused = false
		c.returnStreamCredit(s)
	})
}

func (c *h2Client) returnCredit() {
	if n := c.uncredited; n > 0 {
		c.uncredited = 0
		c.end.updates++
		n += extraCredit(c.end.updates, c.end.recv)
		c.end.recv += n
		c.end.releaseCredit(0, n)
	}
}

func (c *h2Client) returnStreamCredit(s *h2Stream) {
	if n := s.uncredited; n > 0 && !s.paused {
		s.uncredited = 0
		s.updates++
		c.releaseCredit(s, n+extraCredit(s.updates, s.recv))
	}
}

// windowUpdate implements h2Role.
func (c *h2Client) windowUpdate(id uint32, n int) {
	if id == 0 {
		if c.end.send > 256<<10 {
			c.end.protocolError("the connection window is %d, %d octets were credited too often", c.end.send, c.end.send-256<<10)
			return
		}
		for _, s := range slices.Clone(c.open) {
			c.upload(s)
		}
		return
	}
	s := c.streamOf(id, fWindow)
	if s == nil {
		return
	}
	s.send += n
	if s.send > c.end.window {
		c.end.protocolError("the window of stream %d is %d, %d octets were credited too often", id, s.send, s.send-c.end.window)
		return
	}
	c.upload(s)
}

// goAway implements h2Role.
func (c *h2Client) goAway(last, code uint32) {
	c.note("client %s: GOAWAY, last %d, code %d", c.link, last, code)
	c.closing = true
	switch {
	case code == codeCalm && c.run.h2SlowHeads():
		c.enhanceYourCalm = true
	case code != codeNone:
		c.end.protocolError("GOAWAY with code %d", code)
		return
	case c.drainedAt == 0 && c.run.settings.descriptors == 0:
		c.end.protocolError("GOAWAY, but the connection does not end")
		return
	case c.goAwayAt != 0 && last > c.last:
		c.end.protocolError("GOAWAY for %d after one for %d", last, c.last)
		return
	case last == h2LastID && c.goAwayAnnouncedAt == 0:
		c.goAwayAnnouncedAt = c.now
		if len(c.open) == 0 {
			c.retire()
		}
		return
	case last == h2LastID:
		return
	}
	c.goAwayAt, c.last = c.now, last
	for _, s := range slices.Clone(c.open) {
		if s.id > last {
			c.judgeRejected2(s)
			c.remove(s)
		}
	}
	if len(c.open) == 0 {
		c.retire()
	}
}

func (c *h2Client) peerClosed() {
	c.note("client %s: the gate closes", c.link)
	c.lost2(false)
	c.disconnected = true
	c.link.closeByPeer()
	c.reconnect()
}

func (c *h2Client) cut() {
	c.note("client %s: is reset", c.link)
	c.lost2(true)
	c.disconnected = true
	c.reconnect()
}

func (c *h2Client) beginTunnel2(s *h2Stream) {
	q := s.q
	q.clientOutcome = tunnelled
	q.tunnel = bodyOf(q.id, 0, int(c.spread(1, 2000)))
	c.upload(s)
	c.later(c.spread(1, 1000)*millisecond, func() {
		if !s.closed && !s.canceled && s.sent == len(q.tunnel) && !s.sentEnd {
			s.sentEnd = true
			c.end.sendFrame(fData, flagEnd, s.id, nil)
			c.maybeClosed(s)
		} else if !s.closed {
			c.abortRequest(s)
		}
	})
}

func (c *h2Client) bodyBytes2(s *h2Stream, p []byte) {
	q := s.q
	switch {
	case q.clientOutcome == tunnelled:
		if s.numReceived+len(p) > s.sent || !bytes.Equal(p, q.tunnel[s.numReceived:s.numReceived+len(p)]) {
			c.found("request %d: wrong tunnel bytes at the client: %s", q.id, printable(p))
			return
		}
	case q.gateOutcome != "" || q.badHead != "" || q.probe:
		s.reply = append(s.reply, p...)
	case q.tainted:
	default:
		if q.promised {
			p = c.takeWaiting(q, p, c.end.frameEnd-len(p))
		}
		p = c.takeEvent(q, p, s.numReceived)
		want := q.response.body
		if s.numReceived+len(p) > len(want) || !bytes.Equal(p, want[s.numReceived:s.numReceived+len(p)]) {
			c.found("request %d: the response body differs from the container's at %d: %s", q.id, s.numReceived, printable(p))
			return
		}
	}
	s.numReceived += len(p)
}
