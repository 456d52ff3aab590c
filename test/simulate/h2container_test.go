package simulate

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// h2Door is the container's end of a connection until it is known which
// protocol the gate speaks on it.
type h2Door struct {
	*upPeer
	seen []byte
}

func (d *h2Door) received(b []byte) {
	d.seen = append(d.seen, b...)
	n := min(len(d.seen), len(h2Preface))
	l := d.link
	switch over2 := string(d.seen[:n]) == h2Preface[:n]; {
	case over2 && n < 3: // POST begins like that too
	case !over2:
		if d.h2.onlyH2 {
			d.found("%s: the container speaks HTTP/2, and gets %s", l, printable(d.seen))
		}
		l.peer = d.upPeer
		d.upPeer.received(d.seen)
	case d.h2.upH2:
		c := &h2Up{upPeer: d.upPeer}
		l.peer = c
		c.begin()
		c.received(d.seen)
	default:
		l.peer = nobody{l}
		d.gone = true
		switch d.rng.IntN(4) {
		case 0:
			l.sendUp([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			l.leave()
		case 1:
			l.leave()
		case 2:
			l.abort()
		} // or it waits for more
	}
}

// nobody does not understand what it gets.
type nobody struct{ link *link }

func (nobody) connected()      {}
func (nobody) received([]byte) {}
func (n nobody) ended()        { n.link.leave() }
func (nobody) cut()            {}

// h2Up is the container's end of a connection over HTTP/2. The oracle sees each
// stream as an upPeer of its own.
type h2Up struct {
	*upPeer // of the whole connection
	end     h2End
	preface int // octets of it that have come
	streams []*h2UpStream
	latest  uint32
	own     int // initial window of streams
	most    int // streams at once; 0 = any
	strict  bool
	resizes []resize
	asked   []*request
	away    bool // GOAWAY has said that streams beyond last are not served
	last    uint32
	warned  bool
}

// h2UpStream is a request at the container.
type h2UpStream struct {
	id     uint32
	u      *upPeer
	q      *request
	send   int
	recv   int
	gifts  int // increments of recv
	owed   int
	whole  bool // the request has come to its end
	over   bool // END_STREAM has been sent
	said   int  // octets of the body
	saying bool // the head has been sent
	waits  bool
	ready  bool // the time to answer has come
}

func (c *h2Up) begin() {
	h := &c.h2
	c.upPeer.conn, c.upPeer.two = c, true
	c.end.init(c.run, c.link, c)
	c.own, c.most = pick(c.world, h.windows...), h.upMost
	if c.own == 0 {
		c.own = h2Window
	}
	var p []byte
	if c.own != h2Window {
		p = setting(p, 4, c.own)
	}
	if c.most > 0 {
		p = setting(p, 3, c.most)
	}
	if h.upList > 0 {
		p = setting(p, 6, h.upList)
	}
	if h.table != 4096 {
		p = setting(p, 1, h.table)
	}
	c.resizes = append(c.resizes, resize{change: c.own - h2Window})
	c.end.ourAcks++
	c.end.say(fSettings, 0, 0, p)
	if c.chance(h.resize) {
		c.later(c.spread(1, 500)*millisecond, func() {
			to := int(c.spread(0, 1<<18))
			c.resizes = append(c.resizes, resize{change: to - c.own})
			c.own = to
			c.end.ourAcks++
			c.end.say(fSettings, 0, 0, setting(nil, 4, to))
		})
	}
	if c.chance(h.pings) {
		c.later(c.spread(1, 500)*millisecond, func() {
			c.end.pings++
			c.end.say(fPing, 0, 0, []byte("how long"))
		})
	}
	if c.chance(h.upAway) {
		c.later(c.spread(1, 2000)*millisecond, c.goAwayBy)
	}
}

// later runs f, if the connection is still there.
func (c *h2Up) later(delay int64, f func()) {
	c.after(delay, func() {
		if !c.gone && !c.link.dead {
			f()
		}
	})
}

// goAwayBy ends the connection as a container does that wants no more streams
// on it: in one step, or announced.
func (c *h2Up) goAwayBy() {
	if !c.warned && c.rng.IntN(2) == 0 {
		c.warned = true
		c.end.say(fGoAway, 0, 0, append(word(h2LastID), word(codeNone)...))
		c.later(c.between(0, 50)*millisecond, c.goAwayBy)
		return
	}
	c.away, c.last = true, c.latest
	c.container.away++
	c.end.say(fGoAway, 0, 0, append(word(c.last), word(codeNone)...))
	c.maybeLeave()
}

// maybeLeave ends a connection that serves no more streams and has none.
func (c *h2Up) maybeLeave() {
	if c.away && len(c.streams) == 0 && c.chance(0.5) {
		c.later(c.between(0, 5)*millisecond, func() {
			c.leave()
		})
	}
}

// leave closes the connection. What the gate still sends resets it, and what it
// has not read is lost.
func (c *h2Up) leave() {
	c.gone = true
	c.lostAnswers()
	c.link.leave()
}

// received is peer.
func (c *h2Up) received(b []byte) {
	if c.gone {
		return
	}
	if rest := len(h2Preface) - c.preface; rest > 0 {
		n := min(rest, len(b))
		if string(b[:n]) != h2Preface[c.preface:c.preface+n] {
			c.found("%s: a preface goes on with %s", c.link, printable(b))
		}
		c.preface += n
		b = b[n:]
	}
	c.end.take(b)
}

// ended is peer.
func (c *h2Up) ended() {
	c.note("container %s: the gate half-closes or closes", c.link)
	c.drop()
	c.link.leave()
}

// cut is peer.
func (c *h2Up) cut() {
	c.note("container %s is cut", c.link)
	c.drop()
}

func (c *h2Up) drop() {
	c.gone = true
	for _, s := range c.streams {
		s.u.gone = true
	}
}

// missed is told of bytes that the container was not there to read.
func (c *h2Up) missed([]byte) { c.vague++ }

// settings, acked, windowUpdate, reset and goAway are h2Role.
func (c *h2Up) settings(change int) {
	for _, s := range c.streams { // those that are open too (RFC 9113 section 6.9.2)
		s.send += change
	}
	c.later(0, func() { // behind the acknowledgement
		for _, s := range slices.Clone(c.streams) {
			if s.saying {
				c.speak(s)
			}
		}
	})
}

func (c *h2Up) acked() {
	x := c.resizes[0]
	c.resizes = c.resizes[1:]
	c.strict = true
	for _, s := range c.streams {
		if s.recv += x.change; s.recv < 1000 {
			c.give(s, 1000-s.recv)
		}
	}
}

func (c *h2Up) goAway(last, code uint32) {
	if code != codeNone {
		c.end.wrong("GOAWAY with code %d to the container", code)
	}
}

func (c *h2Up) windowUpdate(id uint32, n int) {
	if id == 0 {
		for _, s := range slices.Clone(c.streams) {
			c.speak(s)
		}
	} else if s := c.of(id); s != nil {
		s.send += n
		c.speak(s)
	} else if id > c.latest || id%2 == 0 {
		c.end.wrong("WINDOW_UPDATE of %d, which is not open", id)
	}
}

func (c *h2Up) reset(id uint32, code uint32) {
	if id > c.latest || id%2 == 0 {
		c.end.wrong("RST_STREAM of %d, which is not open", id)
		return
	}
	if s := c.of(id); s != nil {
		c.note("container %s: request %d is reset by the gate, code %d", c.link, s.q.id, code)
		c.forget(s)
	}
}

func (c *h2Up) of(id uint32) *h2UpStream {
	for _, s := range c.streams {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (c *h2Up) streamOf(q *request) *h2UpStream {
	for _, s := range c.streams {
		if s.q == q {
			return s
		}
	}
	return nil
}

// forget takes a stream out of those that are open.
func (c *h2Up) forget(s *h2UpStream) {
	s.u.gone = true
	if i := slices.Index(c.streams, s); i >= 0 {
		c.streams = slices.Delete(c.streams, i, i+1)
	}
	if i := slices.Index(c.container.links, s.u); i >= 0 {
		c.container.links = slices.Delete(c.container.links, i, i+1)
	}
	c.maybeLeave()
	if len(c.streams) == 0 && c.container.idle > 0 {
		c.idleSeq++
		seq := c.idleSeq
		c.later(c.container.idle, func() {
			if len(c.streams) > 0 || c.idleSeq != seq {
				return
			}
			if c.rng.IntN(2) == 0 {
				c.end.say(fGoAway, 0, 0, append(word(c.latest), word(codeNone)...))
			}
			c.leave()
		})
	}
}

// head is h2Role.
func (c *h2Up) head(id uint32, fields [][2]string, end bool) {
	if s := c.of(id); s != nil {
		c.trailers(s, fields, end)
		return
	}
	if id <= c.latest || id%2 == 0 {
		if id%2 == 0 {
			c.end.wrong("HEADERS of %d", id)
		}
		c.lateTrailers(id)
		return // it is over here, and the gate does not know yet
	}
	c.judgeList(fields)
	c.latest = id
	path, _ := get(fields, ":path")
	method, _ := get(fields, ":method")
	q := c.requestOf(" " + path + " ")
	if q == nil {
		c.end.wrong("a request that no client sent: %q", fields)
		return
	}
	if c.away && id > c.last {
		q.refusals++
		return
	}
	if c.chance(c.h2.upRefuse) {
		q.refusals++
		c.note("container %s refuses request %d", c.link, q.id)
		c.end.sayWord(fReset, id, codeRefused)
		return
	}
	if c.most > 0 && c.strict && len(c.streams) >= c.most {
		c.end.wrong("stream %d, and %d of %d are open", id, len(c.streams), c.most)
		return
	}
	c.upPeer.served = int(id+1) / 2
	u := &upPeer{container: c.container, link: c.link, request: q, reading: !end, served: c.upPeer.served, two: true, conn: c}
	s := &h2UpStream{id: id, u: u, q: q, send: c.end.window, recv: c.own}
	for _, x := range c.resizes {
		s.recv -= x.change // the gate does not know of it yet
	}
	c.streams = append(c.streams, s)
	c.judgeHead2(u, q, method, fields, end)
	if s.recv < 1000 {
		c.later(c.between(0, 20)*millisecond, func() { c.give(s, 1000) })
	}
	c.asked = append(c.asked, q)
	q.retake2(c.world)
	q.heads++
	q.said, q.saidAt, q.startedAt, q.interimsSent = 0, 0, 0, 0
	q.headAt, q.on = c.now, u
	c.container.links = append(c.container.links, u)
	if c.tracing {
		c.note("container %s has the head of %d: %v", c.link, q.id, fields)
	}
	if end {
		c.requestWhole(s)
	}
	switch {
	case q.answer.early || end:
		c.startAnswer(s)
	case q.answer.interims != nil && q.expect:
		c.interims(s)
	case q.expect:
		c.end.sendHead(s.id, [][2]string{{":status", "100"}}, false, &c.h2.h2Weights)
	}
}

// lateTrailers handles HEADERS on a closed stream. Many containers close the
// connection then, so no other request may be on it.
func (c *h2Up) lateTrailers(id uint32) {
	if len(c.streams) > 0 {
		c.found("%s: HEADERS of %d, which is closed, beside request %d", c.link, id, c.streams[0].q.id)
	}
	if c.h2.upCuts {
		c.away, c.last = true, c.latest
		c.container.away++
		c.end.say(fGoAway, 0, 0, append(word(c.latest), word(codeBad)...))
		c.later(0, c.leave)
	}
}

// judgeList checks the size of a header list against the announced limit.
func (c *h2Up) judgeList(fields [][2]string) {
	n := 0
	for _, f := range fields {
		n += len(f[0]) + len(f[1]) + 32
	}
	if limit := c.h2.upList; limit > 0 && c.strict && n > limit {
		c.found("%s: a header list of %d octets, beyond %d", c.link, n, limit)
	}
}

// judgeHead2 compares a head with what the client sent.
func (c *h2Up) judgeHead2(u *upPeer, q *request, method string, fields [][2]string, end bool) {
	for _, want := range [][2]string{{":scheme", "http"}, {":authority", "sim"}} {
		if v, n := get(fields, want[0]); n != 1 || v != want[1] {
			c.found("request %d: %s %q", q.id, want[0], v)
		}
	}
	u.m.line = method + " over HTTP/2"
	for _, f := range fields {
		if !strings.HasPrefix(f[0], ":") {
			u.m.fields = append(u.m.fields, f)
		}
	}
	size, sizes := get(fields, "content-length")
	switch {
	case sizes > 0:
		u.m.mode = length
		if size != strconv.Itoa(len(q.body)) {
			c.found("request %d: content-length %q, of %d", q.id, size, len(q.body))
		}
	case !end:
		u.m.mode = chunked
	}
	u.judgeHead(q, method)
}

func (c *h2Up) trailers(s *h2UpStream, fields [][2]string, end bool) {
	if _, n := get(fields, "x-sim-trailer"); !end || !s.q.trail || n != 1 || s.whole {
		c.found("request %d: trailers %q, end %v", s.q.id, fields, end)
		return
	}
	s.u.m.trailers = slices.Clone(fields)
	c.requestWhole(s)
}

// data is h2Role.
func (c *h2Up) data(id uint32, p []byte, charged int, end bool) {
	if charged > 0 {
		c.end.gifts++
		n := charged + plenty(c.end.gifts, c.end.recv)
		c.end.recv += n
		c.end.allow(0, n)
	}
	s := c.of(id)
	if s == nil {
		if id > c.latest || id%2 == 0 {
			c.end.wrong("DATA of %d, which is not open", id)
		}
		return
	}
	q, u := s.q, s.u
	if s.recv -= charged; s.recv < 0 && charged > 0 {
		c.end.wrong("DATA of %d beyond its window, by %d", id, -s.recv)
		return
	}
	if s.whole || u.taken+len(p) > len(q.body) || !bytes.Equal(p, q.body[u.taken:u.taken+len(p)]) {
		c.found("request %d: its body is not what the client sent, at %d: %s", q.id, u.taken, printable(p))
		return
	}
	u.taken += len(p)
	if end {
		c.requestWhole(s)
		return
	}
	s.owed += charged
	switch {
	case c.h2.policy == delayed:
		c.later(c.spread(1, 200)*100*microsecond, func() { c.giveBack(s) })
	case c.h2.policy == atOnce || s.owed >= c.own/2:
		c.giveBack(s)
	}
}

func (c *h2Up) giveBack(s *h2UpStream) {
	n := s.owed
	s.owed = 0
	s.gifts++
	c.give(s, n+plenty(s.gifts, s.recv))
}

func (c *h2Up) give(s *h2UpStream, n int) {
	if n > 0 && !s.u.gone && !s.whole {
		s.recv += n
		c.end.allow(s.id, n)
	}
}
