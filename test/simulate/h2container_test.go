package simulate

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// h2Detector is the container's end of a connection whose protocol is not known yet.
type h2Detector struct {
	*upPeer
	seen []byte
}

func (d *h2Detector) received(b []byte) {
	d.seen = append(d.seen, b...)
	n := min(len(d.seen), len(h2Preface))
	l := d.link
	switch over2 := string(d.seen[:n]) == h2Preface[:n]; {
	case over2 && n < 3: // PRI and POST begin with P
	case !over2:
		if d.h2.onlyH2 {
			d.found("%s: the container speaks HTTP/2 but received %s", l, printable(d.seen))
		}
		l.peer = d.upPeer
		d.upPeer.received(d.seen)
	case d.h2.upH2:
		c := &h2Up{upPeer: d.upPeer}
		l.peer = c
		c.begin()
		c.received(d.seen)
	default:
		l.peer = ignoringPeer{l}
		d.closed = true
		switch d.rng.IntN(4) {
		case 0:
			l.sendUp([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			l.closeByPeer()
		case 1:
			l.closeByPeer()
		case 2:
			l.abort()
		} // else: wait for more bytes
	}
}

// ignoringPeer ignores all bytes, and closes after the gate's close.
type ignoringPeer struct{ link *link }

func (ignoringPeer) connected()      {}
func (ignoringPeer) received([]byte) {}
func (n ignoringPeer) peerClosed()   { n.link.closeByPeer() }
func (ignoringPeer) cut()            {}

// h2Up is the container's end of an HTTP/2 connection. The oracle has a separate upPeer
// for each stream.
type h2Up struct {
	*upPeer         // upPeer of the connection; each stream has its own
	end             h2End
	preface         int // octets of the preface received
	streams         []*h2UpStream
	latest          uint32
	initialWindow   int // initial window of streams, as announced
	maxStreams      int // maximum number of concurrent streams; 0 = unlimited
	strict          bool
	windowless      bool // new streams have no window for some time
	resizes         []resize
	unsent          []*request
	goAwaySent      bool // GOAWAY was sent: streams above last are not processed
	last            uint32
	goAwayAnnounced bool
}

type h2UpStream struct {
	id          uint32
	u           *upPeer
	q           *request
	send        int
	recv        int
	updates     int // WINDOW_UPDATEs sent for recv
	uncredited  int
	requestDone bool // the request is complete
	endSent     bool // END_STREAM has been sent
	numSent     int  // body octets sent
	headSent    bool // the final head has been sent
	paused      bool
	ready       bool // the delay of the response has passed
}

func (c *h2Up) begin() {
	h := &c.h2
	c.upPeer.conn, c.upPeer.overH2 = c, true
	c.end.init(c.run, c.link, c)
	c.initialWindow, c.maxStreams = pick(c.world, h.windows...), h.upMost
	if c.initialWindow == 0 {
		c.initialWindow = h2Window
	}
	if c.windowless = c.wait.chance(c.wait.closed); c.windowless {
		c.initialWindow = 0
	}
	var p []byte
	if c.initialWindow != h2Window {
		p = setting(p, 4, c.initialWindow)
	}
	if c.maxStreams > 0 {
		p = setting(p, 3, c.maxStreams)
	}
	if h.upList > 0 {
		p = setting(p, 6, h.upList)
	}
	if h.table != 4096 {
		p = setting(p, 1, h.table)
	}
	c.resizes = append(c.resizes, resize{change: c.initialWindow - h2Window})
	c.end.ourAcks++
	c.end.sendFrame(fSettings, 0, 0, p)
	if c.chance(h.resize) {
		c.later(c.spread(1, 500)*millisecond, func() {
			to := int(c.spread(0, 1<<18))
			c.resizes = append(c.resizes, resize{change: to - c.initialWindow})
			c.initialWindow = to
			c.end.ourAcks++
			c.end.sendFrame(fSettings, 0, 0, setting(nil, 4, to))
		})
	}
	if c.chance(h.pings) {
		c.later(c.spread(1, 500)*millisecond, func() {
			c.end.pings++
			c.end.sendFrame(fPing, 0, 0, []byte("how long"))
		})
	}
	if c.chance(h.upGoAway) {
		c.later(c.spread(1, 2000)*millisecond, c.goAwayBy)
	}
}

// later runs f after delay, unless the connection has ended.
func (c *h2Up) later(delay int64, f func()) {
	c.schedule(delay, func() {
		if !c.closed && !c.link.closed {
			f()
		}
	})
}

// goAwayBy sends GOAWAY, either at once or after an announcement (GOAWAY with the highest
// identifier).
func (c *h2Up) goAwayBy() {
	if !c.goAwayAnnounced && c.rng.IntN(2) == 0 {
		c.goAwayAnnounced = true
		c.end.sendFrame(fGoAway, 0, 0, append(uint32Bytes(h2LastID), uint32Bytes(codeNone)...))
		c.later(c.randomIn(0, 50)*millisecond, c.goAwayBy)
		return
	}
	c.goAwaySent, c.last = true, c.latest
	c.container.goAways++
	c.end.sendFrame(fGoAway, 0, 0, append(uint32Bytes(c.last), uint32Bytes(codeNone)...))
	c.closeIfDone()
}

// closeIfDone closes a connection without streams that accepts no new ones.
func (c *h2Up) closeIfDone() {
	if c.goAwaySent && len(c.streams) == 0 && c.chance(0.5) {
		c.later(c.randomIn(0, 5)*millisecond, func() {
			c.close()
		})
	}
}

// close closes the connection. Further bytes from the gate cause RST, which discards the
// bytes that the gate has not read.
func (c *h2Up) close() {
	c.closed = true
	c.recordLostResponses()
	c.link.closeByPeer()
}

// received implements peer.
func (c *h2Up) received(b []byte) {
	if c.closed {
		return
	}
	if rest := len(h2Preface) - c.preface; rest > 0 {
		n := min(rest, len(b))
		if string(b[:n]) != h2Preface[c.preface:c.preface+n] {
			c.found("%s: the connection preface continues with %s", c.link, printable(b))
		}
		c.preface += n
		b = b[n:]
	}
	c.end.parse(b)
}

// peerClosed implements peer.
func (c *h2Up) peerClosed() {
	c.note("container %s: the gate half-closes or closes", c.link)
	c.drop()
	c.link.closeByPeer()
}

// cut implements peer.
func (c *h2Up) cut() {
	c.note("container %s is cut", c.link)
	c.drop()
}

func (c *h2Up) drop() {
	c.closed = true
	for _, s := range c.streams {
		s.u.closed = true
	}
}

// missed records that bytes from the gate were lost, because the container had closed the
// connection. It does not determine which requests they belong to.
func (c *h2Up) missed([]byte) { c.vague++ }

// settings, acked, windowUpdate, reset and goAway implement h2Role.
func (c *h2Up) settings(change int) {
	for _, s := range c.streams { // SETTINGS also change the windows of open streams (RFC 9113 section 6.9.2)
		s.send += change
	}
	c.later(0, func() { // after the acknowledgement of SETTINGS
		for _, s := range slices.Clone(c.streams) {
			if s.headSent {
				c.respond(s)
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
			c.releaseCredit(s, 1000-s.recv)
		}
	}
}

func (c *h2Up) goAway(last, code uint32) {
	if code != codeNone {
		c.end.protocolError("GOAWAY with code %d to the container", code)
	}
}

func (c *h2Up) windowUpdate(id uint32, n int) {
	if id == 0 {
		for _, s := range slices.Clone(c.streams) {
			c.respond(s)
		}
	} else if s := c.streamByID(id); s != nil {
		s.send += n
		c.respond(s)
	} else if id > c.latest || id%2 == 0 {
		c.end.protocolError("WINDOW_UPDATE of %d, which is not open", id)
	}
}

func (c *h2Up) reset(id uint32, code uint32) {
	if id > c.latest || id%2 == 0 {
		c.end.protocolError("RST_STREAM of %d, which is not open", id)
		return
	}
	if s := c.streamByID(id); s != nil {
		c.note("container %s: request %d is reset by the gate, code %d", c.link, s.q.id, code)
		c.remove(s)
	}
}

func (c *h2Up) streamByID(id uint32) *h2UpStream {
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

func (c *h2Up) remove(s *h2UpStream) {
	s.u.closed = true
	if i := slices.Index(c.streams, s); i >= 0 {
		c.streams = slices.Delete(c.streams, i, i+1)
	}
	if i := slices.Index(c.container.links, s.u); i >= 0 {
		c.container.links = slices.Delete(c.container.links, i, i+1)
	}
	c.closeIfDone()
	if len(c.streams) == 0 && c.container.idleTimeout > 0 {
		c.idleSeq++
		seq := c.idleSeq
		c.later(c.container.idleTimeout, func() {
			if len(c.streams) > 0 || c.idleSeq != seq {
				return
			}
			if c.rng.IntN(2) == 0 {
				c.end.sendFrame(fGoAway, 0, 0, append(uint32Bytes(c.latest), uint32Bytes(codeNone)...))
			}
			c.close()
		})
	}
}

// head implements h2Role.
func (c *h2Up) head(id uint32, fields [][2]string, end bool) {
	if s := c.streamByID(id); s != nil {
		c.trailers(s, fields, end)
		return
	}
	if id <= c.latest || id%2 == 0 {
		if id%2 == 0 {
			c.end.protocolError("HEADERS of %d", id)
		}
		c.lateTrailers(id)
		return // the container has closed the stream, but the gate does not know that yet
	}
	c.judgeList(fields)
	c.latest = id
	path, _ := get(fields, ":path")
	method, _ := get(fields, ":method")
	q := c.requestOf(" " + path + " ")
	if q == nil {
		c.end.protocolError("the container received a request that no client sent: %q", fields)
		return
	}
	if c.goAwaySent && id > c.last {
		q.numUnprocessed++
		return
	}
	if c.chance(c.h2.upReject) {
		q.numUnprocessed++
		c.note("container %s rejects request %d", c.link, q.id)
		c.end.sendNumber(fReset, id, codeRefused)
		return
	}
	if c.maxStreams > 0 && c.strict && len(c.streams) >= c.maxStreams {
		c.end.protocolError("stream %d opened, but %d of %d are already open", id, len(c.streams), c.maxStreams)
		return
	}
	c.upPeer.served = int(id+1) / 2
	u := &upPeer{container: c.container, link: c.link, request: q, reading: !end, served: c.upPeer.served, overH2: true, conn: c}
	s := &h2UpStream{id: id, u: u, q: q, send: c.end.window, recv: c.initialWindow}
	for _, x := range c.resizes {
		s.recv -= x.change // the change is not acknowledged, so it does not apply to a new stream
	}
	c.streams = append(c.streams, s)
	c.judgeHead2(u, q, method, fields, end)
	if s.recv < 1000 {
		delay := c.randomIn(0, 20) * millisecond
		if c.windowless {
			delay = c.wait.randomIn(0, 3000) * millisecond
		}
		c.later(delay, func() { c.releaseCredit(s, 1000) })
	}
	c.unsent = append(c.unsent, q)
	q.responseToHTTP2(c.world)
	q.heads++
	q.responseSent, q.responseSentAt, q.startedAt, q.interimsSent = 0, 0, 0, 0
	q.headAt, q.upstream = c.now, u
	c.container.links = append(c.container.links, u)
	if c.tracing {
		c.note("container %s has the head of %d: %v", c.link, q.id, fields)
	}
	if end {
		c.endRequest(s)
	}
	switch {
	case q.response.early || end:
		c.startResponse(s)
	case q.response.interims != nil && q.expect:
		c.sendInterims(s)
	case q.expect:
		c.end.sendHead(s.id, [][2]string{{":status", "100"}}, false, &c.h2.h2Weights)
	}
}

// lateTrailers handles HEADERS on a closed stream. Many servers then close the
// connection, so the gate must not send trailers if the connection carries other
// requests.
func (c *h2Up) lateTrailers(id uint32) {
	if len(c.streams) > 0 {
		c.found("%s: HEADERS on closed stream %d, on the same connection as request %d", c.link, id, c.streams[0].q.id)
	}
	if c.h2.upCuts {
		c.goAwaySent, c.last = true, c.latest
		c.container.goAways++
		c.end.sendFrame(fGoAway, 0, 0, append(uint32Bytes(c.latest), uint32Bytes(codeBad)...))
		c.later(0, c.close)
	}
}

// judgeList checks the container's SETTINGS_MAX_HEADER_LIST_SIZE.
func (c *h2Up) judgeList(fields [][2]string) {
	n := 0
	for _, f := range fields {
		n += len(f[0]) + len(f[1]) + 32
	}
	if limit := c.h2.upList; limit > 0 && c.strict && n > limit {
		c.found("%s: a header list of %d octets, above the limit of %d", c.link, n, limit)
	}
}

// judgeHead2 compares the request head that the container received with the head that the
// client sent.
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
	if _, n := get(fields, "x-sim-trailer"); !end || !s.q.trail || n != 1 || s.requestDone {
		c.found("request %d: trailers %q, end %v", s.q.id, fields, end)
		return
	}
	s.u.m.trailers = slices.Clone(fields)
	c.endRequest(s)
}

// data implements h2Role.
func (c *h2Up) data(id uint32, p []byte, charged int, end bool) {
	if charged > 0 {
		c.end.updates++
		n := charged + extraCredit(c.end.updates, c.end.recv)
		c.end.recv += n
		c.end.releaseCredit(0, n)
	}
	s := c.streamByID(id)
	if s == nil {
		if id > c.latest || id%2 == 0 {
			c.end.protocolError("DATA of %d, which is not open", id)
		}
		return
	}
	q, u := s.q, s.u
	if s.recv -= charged; s.recv < 0 && charged > 0 {
		c.end.protocolError("DATA of %d beyond its window, by %d", id, -s.recv)
		return
	}
	if s.requestDone || u.numReceived+len(p) > len(q.body) || !bytes.Equal(p, q.body[u.numReceived:u.numReceived+len(p)]) {
		c.found("request %d: the request body differs from the client's at %d: %s", q.id, u.numReceived, printable(p))
		return
	}
	u.numReceived += len(p)
	if end {
		c.endRequest(s)
		return
	}
	s.uncredited += charged
	switch {
	case c.h2.policy == delayed:
		c.later(c.spread(1, 200)*100*microsecond, func() { c.returnCredit(s) })
	case c.h2.policy == atOnce || s.uncredited >= c.initialWindow/2:
		c.returnCredit(s)
	}
}

func (c *h2Up) returnCredit(s *h2UpStream) {
	n := s.uncredited
	s.uncredited = 0
	s.updates++
	c.releaseCredit(s, n+extraCredit(s.updates, s.recv))
}

func (c *h2Up) releaseCredit(s *h2UpStream, n int) {
	if n > 0 && !s.u.closed && !s.requestDone {
		s.recv += n
		c.end.releaseCredit(s.id, n)
	}
}
