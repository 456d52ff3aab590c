package simulate

import (
	"bytes"
	"strconv"
	"strings"
)

// container is the application behind the gate.
type container struct {
	*run
	listening bool
	listensAt int64 // since when; meaningful while it listens
	stoppedAt int64 // since when it does not
	links     []*upPeer
	idle      int64 // closes connections that have been idle for so long; 0 = does not
	away      int   // connections over HTTP/2 that it has ended by GOAWAY
	fresh     int   // connections ended that had not carried a request
}

// upPeer is the container's end of a connection.
type upPeer struct {
	*container
	link       *link
	m          message
	request    *request // is read or answered
	reading    bool     // its body has not come to its end
	taken      int      // bytes of it
	answering  bool
	answered   bool
	served     int
	dirty      bool     // has sent what belongs to no request
	gone       bool     // has ended the connection
	last       *request // the one before
	idleSeq    int
	headFrom   int64 // when the first byte of the head came
	idleClosed bool
	tunnel     int  // bytes of a tunnel
	two        bool // a stream over HTTP/2
	conn       *h2Up
}

// accept decides what becomes of an attempt to connect.
func (c *container) accept(l *link) (listening, atOnce bool) {
	u := c.scratch.peer()
	u.container, u.link = c, l
	l.peer = u
	if c.h2.up {
		l.peer = &h2Door{upPeer: u}
	}
	listening = c.listening
	atOnce = c.rng.IntN(2) == 0
	if listening {
		c.links = append(c.links, u)
		l.after(0, func() {}) // a turn of the world for each attempt
	}
	if atOnce {
		return listening, true
	}
	l.after(l.lag(), func() {
		if l.state != connecting || l.deaf {
			return
		}
		if !listening {
			l.state = refused
		} else {
			l.state = established
		}
		l.news(l.file)
		l.goDown()
		l.goUp()
	})
	return listening, false
}

func (u *upPeer) connected() {}

// received is peer.
func (u *upPeer) received(b []byte) {
	if u.tracing {
		u.note("container %s gets %s", u.link, printable(b))
	}
	if u.request == nil && len(u.m.buf) == 0 {
		u.headFrom = u.now
	}
	u.m.add(b)
	u.goOn()
}

func (u *upPeer) goOn() {
	for !u.gone {
		switch {
		case u.request == nil:
			if len(u.m.buf) == 0 || !u.readHead() {
				return
			}
		case u.answered && u.request.answer.switches:
			u.tunnelled()
			return
		case u.reading:
			if !u.readBody() {
				return
			}
		default:
			if len(u.m.buf) > 0 && u.answering && u.request.said >= u.request.answer.full {
				u.dirty, u.request = true, nil // what it would still say belongs to no answer
				continue
			}
			if len(u.m.buf) > 0 && !u.dirty {
				u.found("request %d: %s has bytes behind it before it is answered: %s", u.request.id, u.link, printable(u.m.buf))
			}
			return
		}
	}
}

// readHead begins a request.
func (u *upPeer) readHead() bool {
	u.m.reset()
	complete, err := u.m.head()
	if err != nil {
		u.found("%s: a malformed head reaches the container: %v", u.link, err)
		return false
	}
	if !complete {
		return false
	}
	method, target, _ := strings.Cut(u.m.line, " ")
	_, version, _ := strings.Cut(target, " ")
	q := u.requestOf(u.m.line)
	if q == nil || version != "HTTP/1.1" {
		u.found("%s: a request that no client sent: %q", u.link, u.m.line)
		return false
	}
	if err := u.m.frame(false, false); err != nil {
		u.found("request %d: framed badly at the container: %q", q.id, u.m.fields)
		return false
	}
	if q.plain != nil { // it was over HTTP/2 before
		q.answer, q.plain = *q.plain, nil
	}
	u.request, u.reading, u.taken, u.answered, u.answering = q, true, 0, false, false
	u.judgeHead(q, method)
	u.served++
	q.heads++
	q.said, q.saidAt, q.startedAt, q.interimsSent = 0, 0, 0, 0
	q.headAt = u.now
	q.on = u
	if u.dirty { // what it says now would be taken for the answer to the next one
		q.breaks++
		q.touched++
		q.staleBreak = true
		u.vague++
		u.gone = true
		u.link.leave()
		return false
	}
	if u.tracing {
		u.note("container %s has the head of %d: %s", u.link, q.id, u.m.line)
	}
	if q.answer.early || q.coding == without {
		u.startAnswer()
	} else if q.answer.interims != nil && q.expect {
		u.startInterims()
	} else if q.expect {
		u.link.sendUp([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	}
	return true
}

// requestOf finds the number of a request in its first line.
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
		return nil // perhaps not all of it
	}
	id, err := strconv.Atoi(rest[:n])
	if err != nil || id < 1 || id > len(r.requests) {
		return nil
	}
	return r.requests[id-1]
}

// judgeHead compares a head with what the client sent, and the moment with what
// the limits say.
func (u *upPeer) judgeHead(q *request, method string) {
	if method != q.method || q.odd != "" || q.probe {
		u.found("request %d: reaches the container as %q, sent as %s %q", q.id, u.m.line, q.method, q.odd)
	}
	if v, n := get(u.m.fields, "X-Sim"); n != 1 || v != strconv.Itoa(q.id) {
		u.found("request %d: fields of another one: %q", q.id, u.m.fields)
	}
	if v, n := get(u.m.fields, "X-Forwarded-For"); n != 1 || v != q.from {
		u.found("request %d: X-Forwarded-For %q, the client is %s", q.id, v, q.from)
	}
	for _, name := range []string{"Keep-Alive", "Proxy-Connection", "K-Gate-Outcome"} {
		if _, n := get(u.m.fields, name); n > 0 {
			u.found("request %d: %s reaches the container", q.id, name)
		}
	}
	if v, n := get(u.m.fields, "Connection"); n > 0 && (v != "Upgrade" || !q.upgrade) {
		u.found("request %d: Connection %q reaches the container", q.id, v)
	}
	if u.m.mode != q.coding && !(q.coding == length && len(q.body) == 0 && u.m.mode == without) {
		u.found("request %d: framing %d at the container, %d as sent", q.id, u.m.mode, q.coding)
	}
	if u.dirty {
		if u.link.upReached() && u.link.reachedAt < u.headFrom-u.link.delay {
			u.found("request %d: sent on %s, on which bytes stood that belong to no answer", q.id, u.link)
		}
		q.tainted = true
	}
	if q.begun == 0 {
		u.found("request %d: at the container before it has been counted", q.id)
	}
	if u.link.segment == 0 && !u.two && q.endedAt != 0 && q.endedAt < u.now-u.link.delay-u.held {
		u.found("request %d: sent to the container although it ended at %d", q.id, q.endedAt)
	}
	idempotent := q.method == "GET" || q.method == "HEAD" || q.method == "PUT" || q.method == "DELETE"
	switch {
	case q.heads > 0 && !idempotent:
		u.found("request %d: a %s is sent twice", q.id, q.method)
	case q.heads > 1:
		u.found("request %d: sent %d times", q.id, q.heads+1)
	case q.heads > 0 && !q.staleBreak && u.vague == 0:
		u.found("request %d: sent again, although the first connection was not one that had ended idle", q.id)
	case q.touched > 0 && !idempotent:
		u.found("request %d: a %s is sent again, of which bytes had gone out", q.id, q.method)
	}
	if limit := u.load.topLimit; limit > 0 && !u.dirty {
		active := 0
		for _, other := range u.links {
			if o := other.request; o != nil && o.said < o.answer.full && !(other.two && o.endings > 0) && other.link.file != nil && !other.gone {
				active++
				if o != q {
					u.note("at work: %d on %s", o.id, other.link)
				}
			}
		}
		if active > limit {
			u.found("request %d: the container works on %d requests, the limit is %d", q.id, active, limit)
		}
	}
}

func (u *upPeer) readBody() bool {
	q := u.request
	done, err := u.m.body(func(p []byte) {
		if u.taken+len(p) > len(q.body) || !bytes.Equal(p, q.body[u.taken:u.taken+len(p)]) {
			u.found("request %d: its body is not what the client sent, at %d: %s", q.id, u.taken, printable(p))
			return
		}
		u.taken += len(p)
	})
	if err != nil {
		u.found("request %d: a malformed body at the container: %v", q.id, err)
		return false
	}
	if !done {
		return false
	}
	u.reading = false
	if u.taken != len(q.body) {
		u.found("request %d: its body ends at %d of %d", q.id, u.taken, len(q.body))
	}
	if _, n := get(u.m.trailers, "X-Sim-Trailer"); q.trail && n != 1 || !q.trail && n > 0 {
		u.found("request %d: trailers %q", q.id, u.m.trailers)
	}
	q.executed++
	q.wholeAt = u.now
	switch {
	case !q.answer.early && q.coding != without:
		u.startAnswer()
	case u.answered:
		u.requestDone()
	}
	return true
}

func (u *upPeer) startInterims() {
	q := u.request
	n := bytes.LastIndex(q.answer.wire[:q.answer.head-4], []byte("\r\n\r\n"))
	if n > 0 {
		u.link.sendUp(q.answer.wire[:n+4])
		q.interimsSent = n + 4
		q.startedAt = u.now
	}
}

// startAnswer answers when its time has come.
func (u *upPeer) startAnswer() {
	q := u.request
	u.answering = true
	q.answerAt = u.now + q.answer.wait
	u.after(q.answer.wait, func() {
		if u.gone || u.request != q || u.link.dead {
			return
		}
		if q.answer.silent {
			u.end(q.answer.hard)
			return
		}
		u.say(q, q.interimsSent)
	})
}

// say sends the answer from a byte on.
func (u *upPeer) say(q *request, from int) {
	a := &q.answer
	if u.gone || u.request != q || u.link.dead {
		return
	}
	until := len(a.wire)
	if a.cutAt >= 0 {
		until = max(a.cutAt, from)
	}
	if a.extra && len(a.wire) > u.link.receive { // the rest would come when the next request is there: no proxy could tell
		until = max(from, min(until, a.full))
	}
	n := until - from
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
	q.said = from
	u.dirty = u.dirty || from > a.full
	if from < until {
		u.after(a.gap, func() { u.say(q, from) })
		return
	}
	u.answered = true
	q.saidAt = u.now
	switch {
	case a.cutAt >= 0:
		u.end(a.hard)
	case a.garbage || a.wrong:
		u.end(false)
	case a.switches:
		u.goOn()
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

// requestDone ends a request whose connection stays open.
func (u *upPeer) requestDone() {
	u.last, u.request = u.request, nil
	u.idleSeq++
	seq := u.idleSeq
	if u.link.segment == 0 && u.chance(u.settings.w.unasked) {
		u.after(u.spread(1, 500)*millisecond, func() {
			if u.request == nil && u.idleSeq == seq && !u.gone && len(u.m.buf) == 0 {
				u.dirty = true
				u.unasked++
				u.link.sendUp([]byte(stolen))
			}
		})
	}
	if u.idle > 0 {
		u.after(u.idle, func() {
			if u.request == nil && u.idleSeq == seq && !u.gone && len(u.m.buf) == 0 {
				u.gone = true
				u.idleClosed = true
				u.link.leave()
			}
		})
	}
	u.goOn()
}

// stolen is an answer that belongs to no request.
const stolen = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Sim: 0\r\n\r\nstolen"

// end ends the connection.
func (u *upPeer) end(hard bool) {
	u.gone = true
	unwelcome := u.unwelcome()
	if u.conn != nil {
		u.conn.lostAnswers()
	}
	if q := u.request; q != nil {
		q.breaks++
		q.brokeAt = u.now
		q.brokeHard = hard
		q.staleBreak = q.staleBreak || (u.served > 1 || unwelcome) && (q.said == 0 || hard)
		q.unheard = u.served > 1 && q.said == 0 && (!u.two || q.startedAt == 0)
	} else if q := u.last; q != nil && !u.link.upReached() && hard {
		q.breaks++
		q.brokeHard = true
		q.staleBreak = q.staleBreak || u.served > 1 || unwelcome
	} else if q := u.requestOf(string(u.m.buf)); q != nil {
		q.breaks++
		q.touched++
		q.brokeAt = u.now
		q.staleBreak = q.staleBreak || u.served > 0 || unwelcome
		q.unheard = u.served > 0
	} else if len(u.m.buf) > 0 {
		u.vague++
	}
	if u.served == 0 {
		u.fresh++
	}
	if hard {
		u.link.abort()
	} else {
		u.link.leave()
	}
}

// unwelcome reports whether a connection that ends without a word may mean that
// the container does not speak its protocol.
func (u *upPeer) unwelcome() bool {
	if u.two {
		return u.conn != nil && !u.conn.strict
	}
	return u.h2.upH2 && !u.h2.onlyH2
}

// ended is peer: the gate has said that no more comes.
func (u *upPeer) ended() {
	u.note("container %s: the gate half-closes or closes", u.link)
	if q := u.request; q != nil && q.answer.switches && u.answered && !u.gone {
		q.tunnelEnded++
		u.gone = true
		u.link.leave()
		return
	}
	if u.request == nil && !u.gone || u.link.deaf {
		u.gone = true
		u.link.leave()
	}
}

// cut is peer.
func (u *upPeer) cut() {
	u.note("container %s is cut", u.link)
	u.gone = true
}

// missed is told of bytes that the container was not there to read.
func (u *upPeer) missed(b []byte) {
	if q := u.request; q != nil && u.reading {
		if next := u.requestOf(string(b[:min(len(b), 200)])); next == nil || next == q {
			return // it is known that this one was broken
		}
	}
	text := string(u.m.buf) + string(b[:min(len(b), 200)])
	q := u.requestOf(text)
	if q == nil {
		u.vague++
		return
	}
	u.note("container %s misses request %d", u.link, q.id)
	q.breaks++
	q.touched++
	q.brokeAt = u.now
	q.staleBreak = q.staleBreak || u.served > 0 || u.unwelcome()
	q.unheard = u.served > 0 && !u.dirty
	if u.served == 0 {
		u.fresh++
	}
}

// tunnelled echoes.
func (u *upPeer) tunnelled() {
	q := u.request
	if b := u.m.buf; len(b) > 0 {
		want := bodyOf(q.id, 0, u.tunnel+len(b))[u.tunnel:]
		if !bytes.Equal(b, want) {
			u.found("request %d: the tunnel brings %s to the container", q.id, printable(b))
		}
		u.tunnel += len(b)
		u.link.sendUp(bytes.Clone(b))
		u.m.buf = u.m.buf[:0]
	}
}

// restart stops the container, and starts it again.
func (c *container) restart(down int64) {
	c.note("container stops for %d ms", down/millisecond)
	c.listening, c.stoppedAt = false, c.now
	for _, u := range c.links {
		if !u.gone && !u.link.dead {
			u.end(c.rng.IntN(2) == 0)
		}
	}
	c.links = nil
	c.after(down, c.listen)
}

func (c *container) listen() {
	c.note("container listens")
	c.listening, c.listensAt = true, c.now
}
