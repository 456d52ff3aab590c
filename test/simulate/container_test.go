package simulate

import (
	"bytes"
	"strconv"
	"strings"
)

// container is the application behind the gate.
type container struct {
	*run
	listening   bool
	listensAt   int64 // time at which it began to listen; valid while it listens
	stoppedAt   int64
	links       []*upPeer
	idleTimeout int64 // idle time after which connections are closed; 0 = never
	goAways     int   // GOAWAYs sent, and HTTP/2 connections that the container closed
	unused      int   // connections ended before they carried a request
}

// upPeer is the container's end of a connection, or of a stream over HTTP/2.
type upPeer struct {
	*container
	link        *link
	m           message
	request     *request // the current request
	reading     bool     // its body is incomplete
	numReceived int      // body bytes received
	responding  bool
	responded   bool
	served      int
	dirty       bool // has sent bytes outside a response
	closed      bool
	last        *request // the previous request
	idleSeq     int
	headFrom    int64 // time of the first byte of the head
	idleClosed  bool
	tunnel      int  // bytes received in a tunnel
	overH2      bool // the connection uses HTTP/2
	conn        *h2Up
}

// accept decides the result of a connection attempt.
func (c *container) accept(l *link) (listening, atOnce bool) {
	c.judgeSuspended("connects to")
	u := c.scratch.peer()
	u.container, u.link = c, l
	l.peer = u
	if c.h2.useUpstreamH2 {
		l.peer = &h2Detector{upPeer: u}
	}
	listening = c.listening
	atOnce = c.rng.IntN(2) == 0
	if listening {
		c.links = append(c.links, u)
		l.schedule(0, func() {}) // this empty event keeps the random choices of the recorded seeds
	}
	if atOnce {
		return listening, true
	}
	l.schedule(l.lag(), func() {
		if l.state != connecting || l.closedByGate {
			return
		}
		if !listening {
			l.state = connRefused
		} else {
			l.state = established
		}
		l.readinessChanged(l.file)
		l.goDown()
		l.goUp()
	})
	return listening, false
}

func (u *upPeer) connected() {}

// received implements peer.
func (u *upPeer) received(b []byte) {
	if u.tracing {
		u.note("container %s gets %s", u.link, printable(b))
	}
	if u.request == nil && len(u.m.buf) == 0 {
		u.headFrom = u.now
	}
	u.m.add(b)
	u.parse()
}

func (u *upPeer) parse() {
	for !u.closed {
		switch {
		case u.request == nil:
			if len(u.m.buf) == 0 || !u.readHead() {
				return
			}
		case u.responded && u.request.response.switches:
			u.tunnelled()
			return
		case u.reading:
			if !u.readBody() {
				return
			}
		default:
			if len(u.m.buf) > 0 && u.responding && u.request.responseSent >= u.request.response.full {
				u.dirty, u.request = true, nil // excess bytes after a complete response
				continue
			}
			if len(u.m.buf) > 0 && !u.dirty {
				u.found("request %d: %s has bytes after the request before the response is complete: %s", u.request.id, u.link, printable(u.m.buf))
			}
			return
		}
	}
}

func (u *upPeer) readHead() bool {
	u.m.reset()
	complete, err := u.m.head()
	if err != nil {
		u.found("%s: the container received a malformed head: %v", u.link, err)
		return false
	}
	if !complete {
		return false
	}
	method, target, _ := strings.Cut(u.m.line, " ")
	_, version, _ := strings.Cut(target, " ")
	q := u.requestOf(u.m.line)
	if q == nil || version != "HTTP/1.1" {
		u.found("%s: the container received a request that no client sent: %q", u.link, u.m.line)
		return false
	}
	if err := u.m.frame(false, false); err != nil {
		u.found("request %d: the container received wrong framing: %q", q.id, u.m.fields)
		return false
	}
	if q.plain != nil { // an earlier attempt used HTTP/2
		q.response, q.plain = *q.plain, nil
	}
	u.request, u.reading, u.numReceived, u.responded, u.responding = q, true, 0, false, false
	u.judgeHead(q, method)
	u.served++
	q.heads++
	q.responseSent, q.responseSentAt, q.startedAt, q.interimsSent = 0, 0, 0, 0
	q.headAt = u.now
	q.upstream = u
	if u.dirty { // excess bytes would be parsed as the next response
		q.breaks++
		q.breaksAfterSend++
		q.staleBreak = true
		u.vague++
		u.closed = true
		u.link.closeByPeer()
		return false
	}
	if u.tracing {
		u.note("container %s has the head of %d: %s", u.link, q.id, u.m.line)
	}
	if q.response.early || q.coding == noBody {
		u.startResponse()
	} else if q.response.interims != nil && q.expect {
		u.startInterims()
	} else if q.expect {
		u.link.sendUp([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	}
	return true
}

// requestOf returns the request with the number in the request line.
func (r *run) requestOf(line string) *request {
	_, rest, ok := strings.Cut(line, " /s/")
	if !ok {
		return nil
	}
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	if n == len(rest) || rest[n] != ' ' {
		return nil // the line may be incomplete
	}
	id, err := strconv.Atoi(rest[:n])
	if err != nil || id < 1 || id > len(r.requests) {
		return nil
	}
	return r.requests[id-1]
}

// judgeHead compares a head with the client's, and checks the limits.
func (u *upPeer) judgeHead(q *request, method string) {
	if method != q.method || q.badHead != "" || q.probe {
		u.found("request %d: the container received %q, the client sent %s %q", q.id, u.m.line, q.method, q.badHead)
	}
	if v, n := get(u.m.fields, "X-Sim"); n != 1 || v != strconv.Itoa(q.id) {
		u.found("request %d: fields of another request: %q", q.id, u.m.fields)
	}
	if v, n := get(u.m.fields, "X-Forwarded-For"); n != 1 || v != q.clientAddress {
		u.found("request %d: X-Forwarded-For %q, the client is %s", q.id, v, q.clientAddress)
	}
	for _, name := range []string{"Keep-Alive", "Proxy-Connection", "K-Gate-Outcome"} {
		if _, n := get(u.m.fields, name); n > 0 {
			u.found("request %d: the container received %s", q.id, name)
		}
	}
	if v, n := get(u.m.fields, "Connection"); n > 0 && (v != "Upgrade" || !q.upgrade) {
		u.found("request %d: the container received Connection %q", q.id, v)
	}
	if _, n := get(u.m.fields, "Accept-Encoding"); (n > 0) != (q.acceptsCoding && !q.mayPromise()) {
		u.found("request %d: Accept-Encoding reached the container %d times", q.id, n)
	}
	if u.m.mode != q.coding && !(q.coding == length && len(q.body) == 0 && u.m.mode == noBody) {
		u.found("request %d: framing %d at the container, the client sent %d", q.id, u.m.mode, q.coding)
	}
	if u.dirty {
		if u.link.upReached() && u.link.reachedAt < u.headFrom-u.link.delay {
			u.found("request %d: sent on %s, whose receive buffer held bytes that belong to no response", q.id, u.link)
		}
		q.tainted = true
	}
	if q.begun == 0 {
		u.found("request %d: reached the container before the gate counted it", q.id)
	}
	if u.link.segment == 0 && !u.overH2 && q.endedAt != 0 && q.endedAt < u.now-u.link.delay-u.maxDelay {
		u.found("request %d: sent to the container after it had ended at %d", q.id, q.endedAt)
	}
	idempotent := q.method == "GET" || q.method == "HEAD" || q.method == "PUT" || q.method == "DELETE"
	switch {
	case q.heads > 0 && !idempotent:
		u.found("request %d: a %s was sent twice", q.id, q.method)
	case q.heads > 1:
		u.found("request %d: sent %d times", q.id, q.heads+1)
	case q.heads > 0 && !q.staleBreak && u.vague == 0:
		u.found("request %d: retried, although the first connection had not closed while idle", q.id)
	case q.breaksAfterSend > 0 && !idempotent:
		u.found("request %d: a %s was retried after some of its bytes had been sent", q.id, q.method)
	}
	if limit := u.load.topLimit; limit > 0 && !u.dirty {
		active := 0
		for _, other := range u.links {
			if o := other.request; o != nil && o.responseSent < o.response.full && !(other.overH2 && o.endings > 0) && other.link.file != nil && !other.closed {
				active++
				if o != q {
					u.note("in progress: %d on %s", o.id, other.link)
				}
			}
		}
		if active > limit {
			u.found("request %d: the container processes %d requests, the limit is %d", q.id, active, limit)
		}
	}
}

func (u *upPeer) readBody() bool {
	q := u.request
	done, err := u.m.body(func(p []byte) {
		if u.numReceived+len(p) > len(q.body) || !bytes.Equal(p, q.body[u.numReceived:u.numReceived+len(p)]) {
			u.found("request %d: the request body differs from the client's at %d: %s", q.id, u.numReceived, printable(p))
			return
		}
		u.numReceived += len(p)
	})
	if err != nil {
		u.found("request %d: a malformed body at the container: %v", q.id, err)
		return false
	}
	if !done {
		return false
	}
	u.reading = false
	if u.numReceived != len(q.body) {
		u.found("request %d: the request body ends at %d of %d", q.id, u.numReceived, len(q.body))
	}
	if _, n := get(u.m.trailers, "X-Sim-Trailer"); q.trail && n != 1 || !q.trail && n > 0 {
		u.found("request %d: trailers %q", q.id, u.m.trailers)
	}
	q.executed++
	q.wholeAt = u.now
	switch {
	case !q.response.early && q.coding != noBody:
		u.startResponse()
	case u.responded:
		u.requestDone()
	}
	return true
}

func (u *upPeer) startInterims() {
	q := u.request
	n := bytes.LastIndex(q.response.wire[:q.response.head-4], []byte("\r\n\r\n"))
	if n > 0 {
		u.link.sendUp(q.response.wire[:n+4])
		q.interimsSent = n + 4
		q.startedAt = u.now
	}
}

// startResponse starts the response after its delay.
func (u *upPeer) startResponse() {
	q := u.request
	u.responding = true
	q.responseAt = u.now + q.response.wait
	u.schedule(q.response.wait, func() {
		if u.closed || u.request != q || u.link.closed {
			return
		}
		if q.response.silent {
			u.end(q.response.hard)
			return
		}
		u.respond(q, q.interimsSent)
	})
}

// respond sends the response from the offset from on.
func (u *upPeer) respond(q *request, from int) {
	a := &q.response
	if u.closed || u.request != q || u.link.closed {
		return
	}
	end := len(a.wire)
	if a.cutAt >= 0 {
		end = max(a.cutAt, from)
	}
	if a.extra && len(a.wire) > u.link.receive { // the excess would arrive after the next request, where no proxy could tell it from a response
		end = max(from, min(end, a.full))
	}
	n := end - from
	if a.piece > 0 {
		n = min(n, a.piece)
	}
	if n > 0 {
		u.link.sendUp(a.wire[from : from+n])
	}
	from += n
	if q.startedAt == 0 && a.begins(from) {
		q.startedAt = u.now
	}
	q.responseSent = from
	u.dirty = u.dirty || from > a.full
	if from < end {
		u.schedule(a.gap, func() { u.respond(q, from) })
		return
	}
	u.responded = true
	q.responseSentAt = u.now
	switch {
	case a.cutAt >= 0:
		u.end(a.hard)
	case a.garbage || a.lengthTooLong:
		u.end(false)
	case a.switches:
		u.parse()
	case a.closes || a.mode == untilClose && !a.bodyless(q) || a.stops && u.reading:
		u.end(false)
	case a.minor == 0 && a.mode == untilClose:
		u.end(false)
	default:
		if !u.reading {
			u.requestDone()
		}
	}
}

func (u *upPeer) requestDone() {
	u.last, u.request = u.request, nil
	u.idleSeq++
	seq := u.idleSeq
	if u.link.segment == 0 && u.chance(u.settings.w.unasked) {
		u.schedule(u.spread(1, 500)*millisecond, func() {
			if u.request == nil && u.idleSeq == seq && !u.closed && len(u.m.buf) == 0 {
				u.dirty = true
				u.unsolicited++
				u.link.sendUp([]byte(stolen))
			}
		})
	}
	if u.idleTimeout > 0 {
		u.schedule(u.idleTimeout, func() {
			if u.request == nil && u.idleSeq == seq && !u.closed && len(u.m.buf) == 0 {
				u.closed = true
				u.idleClosed = true
				u.link.closeByPeer()
			}
		})
	}
	u.parse()
}

// stolen is an unsolicited response.
const stolen = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Sim: 0\r\n\r\nstolen"

// end closes or resets the connection.
func (u *upPeer) end(hard bool) {
	u.closed = true
	unwelcome := u.mayMeanWrongProtocol()
	if u.conn != nil {
		u.conn.recordLostResponses()
	}
	if q := u.request; q != nil {
		q.breaks++
		q.brokeAt = u.now
		q.brokeHard = hard
		q.staleBreak = q.staleBreak || (u.served > 1 || unwelcome) && (q.responseSent == 0 || hard)
		q.brokeUnanswered = u.served > 1 && q.responseSent == 0 && (!u.overH2 || q.startedAt == 0)
	} else if q := u.last; q != nil && !u.link.upReached() && hard {
		q.breaks++
		q.brokeHard = true
		q.staleBreak = q.staleBreak || u.served > 1 || unwelcome
	} else if q := u.requestOf(string(u.m.buf)); q != nil {
		q.breaks++
		q.breaksAfterSend++
		q.brokeAt = u.now
		q.staleBreak = q.staleBreak || u.served > 0 || unwelcome
		q.brokeUnanswered = u.served > 0
	} else if len(u.m.buf) > 0 {
		u.vague++
	}
	if u.served == 0 {
		u.unused++
	}
	if hard {
		u.link.abort()
	} else {
		u.link.closeByPeer()
	}
}

// mayMeanWrongProtocol reports whether a close without a byte may mean to the gate that
// the container lacks the gate's protocol.
func (u *upPeer) mayMeanWrongProtocol() bool {
	if u.overH2 {
		return u.conn != nil && !u.conn.strict
	}
	return u.h2.upH2 && !u.h2.onlyH2
}

// peerClosed implements peer: the gate has half-closed or closed.
func (u *upPeer) peerClosed() {
	u.note("container %s: the gate half-closes or closes", u.link)
	if q := u.request; q != nil && q.response.switches && u.responded && !u.closed {
		q.tunnelEnded++
		u.closed = true
		u.link.closeByPeer()
		return
	}
	if u.request == nil && !u.closed || u.link.closedByGate {
		u.closed = true
		u.link.closeByPeer()
	}
}

// cut implements peer.
func (u *upPeer) cut() {
	u.note("container %s is cut", u.link)
	u.closed = true
}

// missed handles bytes that arrived after the container's close.
func (u *upPeer) missed(b []byte) {
	if q := u.request; q != nil && u.reading {
		if next := u.requestOf(string(b)); next == nil || next == q {
			return // this broken connection is already counted
		}
	}
	// The bytes may begin with the end of the previous body.
	q := u.requestOf(string(u.m.buf) + string(b))
	if q == nil {
		u.vague++
		return
	}
	u.note("container %s misses request %d", u.link, q.id)
	q.breaks++
	q.breaksAfterSend++
	q.brokeAt = u.now
	q.staleBreak = q.staleBreak || u.served > 0 || u.mayMeanWrongProtocol()
	q.brokeUnanswered = u.served > 0 && !u.dirty
	if u.served == 0 {
		u.unused++
	}
}

// tunnelled echoes tunnel bytes.
func (u *upPeer) tunnelled() {
	q := u.request
	if b := u.m.buf; len(b) > 0 {
		want := bodyOf(q.id, 0, u.tunnel+len(b))[u.tunnel:]
		if !bytes.Equal(b, want) {
			u.found("request %d: wrong tunnel bytes at the container: %s", q.id, printable(b))
		}
		u.tunnel += len(b)
		u.link.sendUp(bytes.Clone(b))
		u.m.buf = u.m.buf[:0]
	}
}

// restart stops the container, and starts it again after down.
func (c *container) restart(downTime int64) {
	c.note("container stops for %d ms", downTime/millisecond)
	c.listening, c.stoppedAt = false, c.now
	for _, u := range c.links {
		if !u.closed && !u.link.closed {
			u.end(c.rng.IntN(2) == 0)
		}
	}
	c.links = nil
	c.schedule(downTime, c.listen)
}

func (c *container) listen() {
	c.note("container listens")
	c.listening, c.listensAt = true, c.now
}
