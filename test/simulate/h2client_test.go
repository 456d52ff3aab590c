package simulate

import (
	"bytes"
	"slices"
	"strings"
)

// h2Client is a client that speaks HTTP/2: several requests at once on one
// connection. What the oracle asks of any client is in client.
type h2Client struct {
	*client
	end     h2End
	streams []*h2Stream // of this connection, by (identifier-1)/2
	http1   []byte      // of this connection: a response over HTTP/1
	live    []*h2Stream // of those, the ones that are not closed
	opening bool        // thinks about the next request
	most    int         // streams at once
	own     int         // initial window of streams, as announced
	policy  policy
	owed    int // octets to be given back to the connection's window
	resizes []resize

	warnedAt  int64 // GOAWAY with the highest identifier has come
	awayAt    int64 // one with a real identifier has come
	last      uint32
	calm      bool // and it was about a slow frame
	pausedAt  int64
	vain      int  // connections in a row on which nothing was asked for
	unchecked bool // windows are not what they were when streams began
}

// resize is SETTINGS that the gate has not acknowledged.
type resize struct {
	change int    // of the windows of streams
	before uint32 // that are older than this one
}

// h2Stream is a request on its way.
type h2Stream struct {
	c        *h2Client
	id       uint32
	q        *request
	send     int // what may be sent
	recv     int // what the gate may send
	gifts    int // increments of recv
	granted  int
	charged  int
	sent     int  // octets of the body
	sentEnd  bool // END_STREAM is sent
	waits    bool // for 100, or for the time of a stall, or between two pieces
	unwanted bool // a final answer came while it waited for 100
	openedAt int64

	final    bool // the final head has come
	ended    bool // END_STREAM has come
	canceled bool // is reset by the client
	closed   bool
	taken    int
	reply    []byte
	owed     int
	paused   bool
	trailers [][2]string
}

// start connects.
func (c *h2Client) start() {
	if c.over {
		return
	}
	if len(c.todo) == 0 {
		c.over = true
		return
	}
	l := c.newLink("h2client")
	l.peer = &h2Peer{c, l}
	c.link, c.went, c.closing = l, false, false
	listening, room := c.arrive(c.backlog, l)
	switch {
	case !listening:
		if !c.mayClose() {
			c.found("client %d: connection refused, although the gate is not quiet yet", c.id)
		}
		c.over = true
		return
	case !room:
		if c.tries++; c.tries > 100 {
			c.over = true
			return
		}
		c.after(50*millisecond, c.start)
		return
	}
	h := &c.run.h2
	l.connectedAt = c.now
	c.note("client %s: client %d connects, %d requests left", l, c.id, len(c.todo))
	c.end.init(c.run, l, c)
	c.end.piece, c.end.gap = h.piece, h.pieceGap
	c.streams, c.live, c.opening, c.owed, c.resizes = nil, nil, false, 0, nil
	c.warnedAt, c.awayAt, c.last, c.calm, c.pausedAt, c.unchecked, c.http1 = 0, 0, 0, false, 0, false, nil
	c.most, c.own, c.policy = 1+c.rng.IntN(h.most), pick(c.world, h.windows...), h.policy
	c.preface()
	c.next()
}

// preface is what a connection begins with.
func (c *h2Client) preface() {
	var p []byte
	if c.own != h2Window {
		p = setting(p, 4, c.own)
	}
	if h := &c.run.h2; h.table != 4096 {
		p = setting(p, 1, h.table)
		c.end.dec.SetAllowedMaxDynamicTableSize(4096)
	}
	if c.rng.IntN(4) == 0 {
		p = setting(p, 0x4242, 7) // which means nothing
	}
	b := frame([]byte(h2Preface), fSettings, 0, 0, p)
	c.resizes = append(c.resizes, resize{})
	c.end.ourAcks++
	if c.rng.IntN(2) == 0 {
		more := c.rng.IntN(1 << 20)
		c.end.recv += more + 1
		b = frame(b, fWindow, 0, 0, word(uint32(more+1)))
	}
	c.end.write(b)
	if c.chance(c.run.h2.pings) {
		c.later(c.spread(1, 500)*millisecond, func() {
			c.end.pings++
			c.end.say(fPing, 0, 0, []byte("how long"))
		})
	}
	if c.chance(c.run.h2.resize) {
		c.later(c.spread(1, 500)*millisecond, c.resize)
	}
}

// later runs f, if the connection is still there.
func (c *h2Client) later(delay int64, f func()) {
	l := c.link
	c.after(delay, func() {
		if c.link == l && !c.went && !l.dead {
			f()
		}
	})
}

// resize changes the windows of all streams.
func (c *h2Client) resize() {
	to := int(c.spread(0, 1<<18))
	c.resizes = append(c.resizes, resize{to - c.own, uint32(2*len(c.streams) + 1)})
	c.own = to
	c.unchecked = true
	c.end.ourAcks++
	c.end.say(fSettings, 0, 0, setting(nil, 4, to))
}

// acked is h2Role.
func (c *h2Client) acked() {
	x := c.resizes[0]
	c.resizes = c.resizes[1:]
	for _, s := range c.live {
		if s.id < x.before {
			s.recv += x.change
		}
	}
	if x.before == 0 {
		return
	}
	for _, s := range c.live { // none may be left with a window that stays closed
		if s.recv < 1000 && !s.paused {
			c.give(s, 1000-s.recv)
		}
	}
}

// settings is h2Role.
func (c *h2Client) settings(change int) {
	for _, s := range c.live {
		s.send += change
		c.upload(s)
	}
	if !c.went {
		c.after(0, c.next)
	}
}

// next opens the next stream, if it may.
func (c *h2Client) next() {
	if c.went || c.closing || c.opening || c.over || c.link.dead || len(c.live) >= c.most {
		return
	}
	if len(c.todo) == 0 {
		if len(c.live) == 0 {
			c.bye()
		}
		return
	}
	q := c.todo[0]
	if q.upgrade && !c.end.connects {
		return // SETTINGS says whether that may be
	}
	c.opening = true
	c.later(q.thinks, func() {
		c.opening = false
		if len(c.todo) == 0 || c.todo[0] != q || c.closing && !(c.awayAt == 0 && c.chance(c.run.h2.inTime) && c.now-c.warnedAt < 100*millisecond) {
			return
		}
		c.todo = c.todo[1:]
		c.ask(q)
		c.next()
	})
}

// bye ends a connection on which nothing is left to do.
func (c *h2Client) bye() {
	c.went, c.over = true, len(c.todo) == 0
	defer func() { c.end.deadEnd = true }()
	if c.chance(c.run.h2.announces) {
		c.end.say(fGoAway, 0, 0, append(word(0), word(codeNone)...))
	}
	c.end.whenSent(c.link.leave)
	if !c.over {
		c.again()
	}
}

// again goes on with a new connection. Many that are slow may take the few
// descriptors that there are from each other for ever.
func (c *h2Client) again() {
	if c.vain++; c.vain > 100 && c.run.settings.descriptors > 0 {
		c.over = true
		return
	}
	c.after(c.between(0, c.run.settings.think), c.start)
}

// of finds the stream of a frame; nil: nothing is to be done about it.
func (c *h2Client) of(id uint32, what uint8) *h2Stream {
	if id%2 == 0 || int(id/2) >= len(c.streams) {
		c.end.wrong("%s of %d, which is not open", frameNames[what], id)
		return nil
	}
	s := c.streams[id/2]
	switch {
	case s.canceled:
		return nil
	case s.ended && (what == fHeaders || what == fData):
		c.end.wrong("%s of %d, which has ended", frameNames[what], id)
		return nil
	case s.closed:
		if what == fHeaders || what == fData {
			c.end.wrong("%s of %d, which is closed", frameNames[what], id)
		}
		return nil
	}
	return s
}

// h2Peer is a client on one of its connections. It may be on another one
// already.
type h2Peer struct {
	*h2Client
	on *link
}

func (p *h2Peer) received(b []byte) {
	if p.on == p.link && !p.went {
		p.take(b)
	}
}

func (p *h2Peer) ended() {
	if p.on == p.link && !p.went {
		p.h2Client.ended()
	} else {
		p.on.leave()
	}
}

func (p *h2Peer) cut() {
	if p.on == p.link && !p.went {
		p.h2Client.cut()
	}
}

// take takes bytes of the gate's.
func (c *h2Client) take(b []byte) {
	if !c.end.settled && (len(c.http1) > 0 || b[0] == 'H') {
		c.takeHTTP1(b)
		return
	}
	c.end.take(b)
	if c.end.deadEnd && !c.went {
		c.went, c.over = true, true
		c.link.abort()
	}
}

// takeHTTP1 takes bytes of a response over HTTP/1, before any frame. Only 408 is right,
// because the gate does not know the protocol until the preface is complete.
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

// give opens the windows of a stream.
func (c *h2Client) give(s *h2Stream, n int) {
	if !s.closed && !c.went && n > 0 && !s.ended {
		s.recv += n
		c.end.allow(s.id, n)
	}
}

// data is h2Role.
func (c *h2Client) data(id uint32, p []byte, charged int, end bool) {
	c.owed += charged
	switch {
	case c.policy == delayed:
		c.later(c.spread(1, 200)*100*microsecond, c.giveBack)
	case c.policy == atOnce || c.owed >= h2Window/2:
		c.giveBack()
	}
	s := c.of(id, fData)
	if s == nil {
		return
	}
	if !s.final {
		c.end.wrong("DATA of %d before its head", id)
		return
	}
	if s.recv -= charged; s.recv < 0 && charged > 0 {
		c.end.wrong("DATA of %d beyond its window, by %d", id, -s.recv)
		return
	}
	c.bodyBytes2(s, p)
	if end {
		c.complete2(s)
		return
	}
	s.owed += charged
	q := s.q
	if q.slowAt >= 0 && s.taken >= q.slowAt {
		q.slowAt = -1
		c.stall(s)
	}
	if q.leaveAfter >= 0 && s.taken >= max(q.leaveAfter, 1) {
		c.leaveStream(s)
		return
	}
	if s.paused {
		return
	}
	switch {
	case c.policy == delayed:
		c.later(c.spread(1, 200)*100*microsecond, func() { c.giveBackTo(s) })
	case c.policy == atOnce || s.owed >= c.own/2:
		c.giveBackTo(s)
	}
}

// stall stops reading, a stream or the whole connection.
func (c *h2Client) stall(s *h2Stream) {
	c.slowUntil = max(c.slowUntil, c.now+s.q.slow)
	if c.chance(c.run.h2.paused) {
		l := c.link
		l.pause()
		c.pausedAt = c.now
		c.after(s.q.slow, l.resume)
		return
	}
	s.paused = true
	c.later(s.q.slow, func() {
		s.paused = false
		c.giveBackTo(s)
	})
}

func (c *h2Client) giveBack() {
	if n := c.owed; n > 0 {
		c.owed = 0
		c.end.gifts++
		n += plenty(c.end.gifts, c.end.recv)
		c.end.recv += n
		c.end.allow(0, n)
	}
}

func (c *h2Client) giveBackTo(s *h2Stream) {
	if n := s.owed; n > 0 && !s.paused {
		s.owed = 0
		s.gifts++
		c.give(s, n+plenty(s.gifts, s.recv))
	}
}

// windowUpdate is h2Role.
func (c *h2Client) windowUpdate(id uint32, n int) {
	if id == 0 {
		if c.end.send > 256<<10 {
			c.end.wrong("the window of the connection is %d, of which %d are given back too often", c.end.send, c.end.send-256<<10)
			return
		}
		for _, s := range slices.Clone(c.live) {
			c.upload(s)
		}
		return
	}
	s := c.of(id, fWindow)
	if s == nil {
		return
	}
	s.send += n
	s.granted += n
	if s.send > c.end.window {
		c.end.wrong("the window of %d is %d, of which %d are given back too often", id, s.send, s.send-c.end.window)
		return
	}
	c.upload(s)
}

// goAway is h2Role.
func (c *h2Client) goAway(last, code uint32) {
	c.note("client %s: GOAWAY, last %d, code %d", c.link, last, code)
	c.closing = true
	switch {
	case code == codeCalm && c.run.h2SlowHeads():
		c.calm = true
	case code != codeNone:
		c.end.wrong("GOAWAY with code %d", code)
		return
	case c.drainedAt == 0 && c.run.settings.descriptors == 0:
		c.end.wrong("GOAWAY, and nothing ends")
		return
	case c.awayAt != 0 && last > c.last:
		c.end.wrong("GOAWAY for %d behind one for %d", last, c.last)
		return
	case last == h2LastID && c.warnedAt == 0:
		c.warnedAt = c.now
		if len(c.live) == 0 {
			c.retire()
		}
		return
	case last == h2LastID:
		return
	}
	c.awayAt, c.last = c.now, last
	for _, s := range slices.Clone(c.live) {
		if s.id > last {
			c.judgeRefused2(s)
			c.shut(s)
		}
	}
	if len(c.live) == 0 {
		c.retire()
	}
}

// ended is the end of what the gate sends.
func (c *h2Client) ended() {
	c.note("client %s: the gate closes", c.link)
	c.lost2(false)
	c.went = true
	c.link.leave()
	c.again()
}

// cut is a reset by the gate.
func (c *h2Client) cut() {
	c.note("client %s: is reset", c.link)
	c.lost2(true)
	c.went = true
	c.again()
}

// begin2 begins a tunnel.
func (c *h2Client) begin2(s *h2Stream) {
	q := s.q
	q.verdict = tunnelled
	q.tunnel = bodyOf(q.id, 0, int(c.spread(1, 2000)))
	c.upload(s)
	c.later(c.spread(1, 1000)*millisecond, func() {
		if !s.closed && !s.canceled && s.sent == len(q.tunnel) && !s.sentEnd {
			s.sentEnd = true
			c.end.say(fData, flagEnd, s.id, nil)
			c.maybeClosed(s)
		} else if !s.closed {
			c.leaveStream(s)
		}
	})
}

// bodyBytes2 judges bytes of an answer.
func (c *h2Client) bodyBytes2(s *h2Stream, p []byte) {
	q := s.q
	switch {
	case q.verdict == tunnelled:
		if s.taken+len(p) > s.sent || !bytes.Equal(p, q.tunnel[s.taken:s.taken+len(p)]) {
			c.found("request %d: the tunnel brings %s", q.id, printable(p))
			return
		}
	case q.gateSaid != "" || q.odd != "" || q.probe:
		s.reply = append(s.reply, p...)
	case q.tainted:
	default:
		want := q.answer.body
		if s.taken+len(p) > len(want) || !bytes.Equal(p, want[s.taken:s.taken+len(p)]) {
			c.found("request %d: the body is not the container's, at %d: %s", q.id, s.taken, printable(p))
			return
		}
	}
	s.taken += len(p)
}
