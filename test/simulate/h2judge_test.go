package simulate

import (
	"slices"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// head is h2Role.
func (c *h2Client) head(id uint32, fields [][2]string, end bool) {
	s := c.of(id, fHeaders)
	if s == nil {
		return
	}
	q := s.q
	if s.final {
		if !end {
			c.end.wrong("a second head for %d", id)
			return
		}
		for _, f := range fields {
			if f[0][0] == ':' {
				c.end.wrong("%s in the trailers of %d", f[0], id)
			}
		}
		s.trailers = slices.Clone(fields)
		c.complete2(s)
		return
	}
	text, n := get(fields, ":status")
	status, _ := strconv.Atoi(text)
	if n != 1 || status < 100 || status > 599 {
		c.found("request %d: head %q", q.id, fields)
		return
	}
	own, _ := get(fields, "x-sim")
	outcome, byGate := get(fields, "k-gate-outcome")
	if own == "0" && c.unasked > 0 {
		q.tainted = true
	}
	if q.tainted {
		own = strconv.Itoa(q.id)
	}
	if own == "" && byGate == 0 && status != 100 && q.odd == "" && !q.probe {
		c.found("request %d: an answer without a sender: %q", q.id, fields)
	}
	if own != "" && own != strconv.Itoa(q.id) {
		c.found("request %d: gets the answer of request %s", q.id, own)
	}
	if status < 200 {
		if status == 101 || end {
			c.found("request %d: an interim answer that cannot be: %q, end %v", q.id, fields, end)
		}
		if !q.tainted {
			c.interim2(s, status, own != "")
		}
		return
	}
	s.final = true
	q.status, q.gateSaid, q.headCame = status, outcome, c.now
	if c.tracing {
		c.note("client %s: request %d is answered with %d %s", c.link, q.id, status, outcome)
	}
	if s.waits && s.sent == 0 && q.expect {
		s.unwanted = true
	}
	if byGate > 0 && q.grpc {
		_, said := get(fields, "grpc-status")
		if status != 200 || said != 1 || !end {
			c.found("request %d: a reply to a call of gRPC is %q, end %v", q.id, fields, end)
		}
	}
	switch {
	case byGate > 0:
		if !q.grpc {
			c.judgeReply(q, outcome, status)
			c.judgeRetry(q, fields)
		} else if q.endings != 1 || q.outcome.String() != outcome {
			c.found("request %d: answered with %s, but it has ended with %s", q.id, outcome, q.outcome)
		}
	case q.odd != "" || q.probe || q.tainted:
	case q.upgrade && status == 200 && !end:
		c.begin2(s)
		return
	case status != q.answer.status:
		c.found("request %d: status %d, the container's is %d", q.id, status, q.answer.status)
	}
	if end {
		c.complete2(s)
	} else if q.leaveAfter == 0 {
		c.leaveStream(s)
	}
}

// interim2 judges an interim answer.
func (c *h2Client) interim2(s *h2Stream, status int, own bool) {
	q := s.q
	if status == 100 {
		if s.waits && s.sent == 0 && q.expect {
			s.waits = false
			c.later(0, func() { c.upload(s) })
		}
		if !own {
			return
		}
	}
	for q.interims < len(q.answer.interims) {
		want := q.answer.interims[q.interims]
		q.interims++
		if want == status {
			return
		}
		if want != 100 {
			break
		}
	}
	c.found("request %d: interim answer %d, of %v", q.id, status, q.answer.interims)
}

// complete2 is the end of an answer.
func (c *h2Client) complete2(s *h2Stream) {
	q := s.q
	s.ended = true
	q.doneAt = c.now
	if c.tracing {
		c.note("client %s: request %d is answered whole", c.link, q.id)
	}
	_, cut := get(s.trailers, "k-gate-outcome")
	switch {
	case q.verdict == tunnelled:
	case q.gateSaid != "" || q.odd != "" || q.probe:
		q.verdict = refusedByGate
		if !q.grpc {
			c.judgeBody(q, s.reply)
		}
	case cut > 0 && q.grpc:
		q.verdict = cutOff
		c.judgeCut2(s)
	default:
		q.verdict = answered
		c.judgeWhole2(s)
	}
	switch {
	case s.sentEnd:
	case s.unwanted && c.rng.IntN(2) == 0:
		c.cancel(s, codeNone)
		c.next()
		return
	case s.unwanted:
		s.unwanted, s.waits = false, false
		c.upload(s)
	}
	c.maybeClosed(s)
}

// judgeWhole2 looks whether an answer that looks whole is whole.
func (c *h2Client) judgeWhole2(s *h2Stream) {
	q := s.q
	a := &q.answer
	if q.tainted {
		return
	}
	if !a.whole(q, q.said, a.hard) && !(a.mode == untilClose && q.breaks > 0 && !q.brokeHard) {
		c.found("request %d: an answer that looks whole and is not: %d of %d bytes", q.id, q.said, a.full)
	}
	if !a.bodyless(q) && s.taken != len(a.body) && (a.mode != untilClose || a.cutAt < 0 && q.breaks <= 1 && q.saidAt != 0) {
		c.found("request %d: the body ends at %d of %d", q.id, s.taken, len(a.body))
	}
	if q.interims < len(a.interims) {
		for _, code := range a.interims[q.interims:] {
			if code != 100 {
				c.found("request %d: interim answers %v, %d came", q.id, a.interims, q.interims)
			}
		}
	}
	if _, n := get(s.trailers, "x-sim-trailer"); a.trail && !a.bodyless(q) && n != 1 {
		c.found("request %d: the trailer is missing", q.id)
	}
	if q.begun != 1 {
		c.found("request %d: answered, counted %d times", q.id, q.begun)
	}
}

// judgeCut2 looks whether an answer that was cut may be.
func (c *h2Client) judgeCut2(s *h2Stream) {
	q := s.q
	a := &q.answer
	switch {
	case q.tainted, q.leftAt > 0:
	case q.gateSaid != "" || q.odd != "" || q.probe:
		if c.slowUntil == 0 {
			c.found("request %d: a reply of the gate's own is cut", q.id)
		}
	case q.endings == 0:
		c.found("request %d: cut, and has not ended", q.id)
	case q.outcome == gate.Served:
		c.found("request %d: cut, and has ended as served", q.id)
	case q.outcome == gate.UpstreamBrokeOff && a.whole(q, q.said, a.hard) && q.breaks == 0:
		c.found("request %d: cut, and the container's answer was whole", q.id)
	}
}

// reset is h2Role: the gate ends a stream.
func (c *h2Client) reset(id uint32, code uint32) {
	s := c.of(id, fReset)
	if s == nil {
		return
	}
	q := s.q
	c.note("client %s: request %d is reset, code %d", c.link, q.id, code)
	switch {
	case q.verdict == tunnelled:
		if code != codeCancel && code != codeInside && (code != codeNone || !s.ended) {
			c.end.wrong("a tunnel is reset with code %d", code)
		}
	case s.ended:
		if code != codeNone && code != codeInside { // its upload has taken too long, say
			c.end.wrong("RST_STREAM of %d, which has ended, with code %d", id, code)
		}
		s.sentEnd = true // there is no use in the rest
	case s.final:
		q.verdict = cutOff
		if code != codeCancel && code != codeInside {
			c.end.wrong("RST_STREAM of %d in its answer, with code %d", id, code)
		}
		c.judgeCut2(s)
	case q.odd == "400":
		q.verdict = refusedByGate
		if code != codeBad {
			c.end.wrong("RST_STREAM of %d, which is malformed, with code %d", id, code)
		}
	default:
		q.verdict = dropped
		if q.leftAt == 0 && !q.tainted {
			c.found("request %d: reset with code %d, without an answer (%s)", q.id, code, q.outcome)
		}
	}
	c.shut(s)
	c.after(0, c.next)
	if c.closing && len(c.live) == 0 {
		c.retire()
	}
}

// judgeRefused2 looks whether GOAWAY may refuse a stream.
func (c *h2Client) judgeRefused2(s *h2Stream) {
	q := s.q
	q.verdict = unread
	switch {
	case q.begun > 0:
		c.found("request %d: refused by GOAWAY, and counted", q.id)
	case c.calm, c.run.settings.descriptors > 0:
	case c.pausedAt != 0, c.end.piece > 0, c.run.h2Drips(2000) > 200*millisecond: // its acknowledgement took too long
	case c.link.inTransit() > 0 && c.now-c.warnedAt >= 800*millisecond: // its acknowledgement is behind bytes that the gate has not read
	case c.warnedAt == 0, s.openedAt <= c.warnedAt, c.now-c.warnedAt < 150*millisecond:
		c.found("request %d: refused by GOAWAY, which has not been announced", q.id)
	}
}

// lost2 judges the requests that a connection takes along.
func (c *h2Client) lost2(reset bool) {
	for _, s := range c.live {
		q := s.q
		if q.verdict != open {
			continue
		}
		q.verdict = dropped
		if s.final {
			q.verdict = cutOff
		}
		patient := c.slowUntil < longest && c.run.h2Drips(len(q.answer.wire)+2000) < 4*second
		switch {
		case q.leftAt > 0, c.calm, q.tainted:
		case s.ended:
		case q.begun > 0 && q.endings == 0:
			c.found("request %d: its connection ends (reset %v), and it has not ended", q.id, reset)
		case q.begun > 0 && c.drainedAt > 0 && (!patient || c.link.abandonable()): // the gate has waited for its client to read
		case q.begun > 0 && c.run.settings.descriptors > 0: // without a stream it was idle, and gave way
		case q.begun > 0:
			c.found("request %d: ended with %s, and its connection ends before its client knows (reset %v)", q.id, q.outcome, reset)
		case c.run.settings.descriptors > 0: // one that is idle gives way
		case c.leftAt > 0 && c.link.firstAt+c.slack() >= c.leftAt: // its first bytes came when nothing was left to wait for
		case c.ending && !c.end.settled && (c.link.firstAt == 0 || c.link.firstAt-c.link.connectedAt+c.slack() >= 100*millisecond || c.run.h2Drips(500) > second): // its first bytes take too long
		case c.link.shutAt > 0 && c.link.closedAt-c.link.shutAt >= 9*second-c.kernel.held: // the request began before its client had read GOAWAY; a shutdown ends 10 s after the first GOAWAY, which is at most 1 s earlier
		case c.run.h2SlowHeads():
		case q.odd != "" || q.probe:
			if patient {
				c.found("request %d: dropped without an answer (reset %v)", q.id, reset)
			}
		default:
			c.found("request %d: dropped without an answer (%s, reset %v)", q.id, q.outcome, reset)
		}
	}
	c.live = nil
}

// look2 looks at what holds when nothing is on its way.
func (c *h2Client) look2() {
	l := c.link
	if l == nil || c.went || l.file == nil || l.paused || !l.upReached() || !l.downReached() || l.unread() > 0 || len(c.end.queue) > 0 || l.noRoom {
		return
	}
	r := c.run
	if quiet := r.now - max(l.reachedAt, l.connectedAt, c.pausedAt); (c.end.pings > 0 || c.end.ourAcks > 0) && c.end.settled && c.slowUntil < r.now && quiet > second+r.h2Drips(100) {
		r.found("%s: PING or SETTINGS have not been acknowledged for %v", l, time.Duration(quiet))
	}
	for _, s := range c.live {
		q := s.q
		limit := r.slack() + r.trickle(q) + int64(len(q.raw))*(r.kernel.settings.delay+10*microsecond) + r.h2Drips(len(q.raw))
		if q.saidAt != 0 && q.answer.whole(q, q.said, q.answer.hard) && q.leftAt == 0 && s.sentEnd && q.verdict == open && q.on != nil && q.on.link.file != nil &&
			q.on.link.upReached() && q.on.link.downReached() && s.recv > 0 && c.end.recv > 0 && c.slowUntil < r.now &&
			r.now-max(q.saidAt, q.sentWhole, c.slowUntil, l.fullAt) > limit {
			r.found("request %d: answered %v ago, and the client does not have it", q.id, time.Duration(r.now-q.saidAt))
		}
		if q.on != nil && q.on.request == q && q.on.reading && !s.sentEnd && !s.waits && s.sent < len(q.body) && (s.send <= 0 || c.end.send <= 0) &&
			q.on.link.downReached() && q.on.link.file != nil && c.othersAreThrough() && r.now-max(q.on.link.reachedAt, l.reachedAt, l.connectedAt) > limit+second {
			r.found("request %d: stands at %d of %d, with windows of %d and %d", q.id, s.sent, len(q.body), s.send, c.end.send)
		}
		if s.ended && !s.sentEnd && !s.waits && q.endings > 0 && r.now-max(q.endedAt, q.doneAt, l.reachedAt) > limit {
			r.found("request %d: has ended, and its client may still send", q.id)
		}
	}
	if len(c.live) == 0 && c.end.send < h2Window/2-1 && r.now-l.reachedAt > second {
		r.found("%s: no stream is open, and the window of the connection is %d", l, c.end.send)
	}
}

// lookStalled looks at an answer over HTTP/2 whose container may send no more of
// it. Where the client may get more and nothing is on its way, the gate has
// passed on all that has come, and has not given it back: that never ends.
func (r *run) lookStalled(q *request) {
	if q.on == nil || !q.on.two || q.on.gone || q.on.request != q || q.leftAt > 0 || q.verdict != open || q.tainted {
		return
	}
	up, l := q.on.conn, q.on.link
	s := up.streamOf(q)
	if s == nil || s.u != q.on || !s.saying || s.over || s.waits || up.gone || s.send > 0 && up.end.send > 0 ||
		l.file == nil || l.noRoom || !l.taken() || !l.downReached() {
		return
	}
	since := max(l.reachedAt, l.cameAt, l.fullAt)
	if q.over2 {
		since = max(since, q.on2.takesFrom())
	} else {
		since = max(since, q.client.takesFrom(q))
	}
	if r.calmUntil-since > 100*millisecond+r.slack() {
		r.found("request %d: the container stands at %d of %d, with windows of %d and %d", q.id, s.said, len(q.answer.body), s.send, up.end.send)
	}
}

// takesFrom is since when the client would take more of an answer that has begun.
func (s *h2Stream) takesFrom() int64 {
	c, l := s.c, s.c.link
	if s.closed || s.ended || s.canceled || !s.final || s.recv <= 0 || c.end.recv <= 0 || c.end.ourAcks > 0 || c.went || len(c.end.queue) > 0 ||
		l == nil || l.file == nil || l.paused || l.noRoom || !l.taken() || !l.downReached() {
		return longest
	}
	since := max(l.reachedAt, l.cameAt, l.fullAt, c.pausedAt)
	if c.slowUntil < longest { // else its windows are narrow, or given back by and by
		since = max(since, c.slowUntil)
	}
	return since
}

// takesFrom is h2Stream.takesFrom over HTTP/1.
func (c *client) takesFrom(q *request) int64 {
	l := q.via
	if l == nil || l != c.link || l.file == nil || l.paused || l.noRoom || !l.taken() || !l.downReached() || len(c.asked) == 0 || c.asked[0] != q || q.headCame == 0 {
		return longest
	}
	return max(l.reachedAt, l.cameAt, l.fullAt, c.slowUntil)
}

// othersAreThrough reports whether the container has all that the client has
// sent.
func (c *h2Client) othersAreThrough() bool {
	for _, s := range c.live {
		if q := s.q; s.sent > 0 && (q.on == nil || q.on.request != q || q.on.taken != s.sent) {
			return false
		}
	}
	return true
}

// lookH2 looks at the clients over HTTP/2, when all is calm.
func (r *run) lookH2() {
	for _, c := range r.h2clients {
		c.look2()
	}
	if len(r.h2clients) == 0 || r.settings.gate.HardConcurrency {
		return
	}
	for _, q := range r.underWay {
		if q.over2 && q.canceledAt > 0 && q.leftOn.file != nil && q.leftOn.upReached() && q.leftOn.unread() == 0 && q.verdict != tunnelled && !q.answer.switches && !q.closedBefore() &&
			r.now-max(q.canceledAt, q.leftOn.reachedAt) > 10*millisecond+r.kernel.held {
			r.suspects = append(r.suspects, q)
		}
	}
	if first := firstOf(r.suspects); first != nil {
		r.found("request %d: reset by its client %v ago, and under way", first.id, time.Duration(r.now-first.canceledAt))
	}
	r.suspects = r.suspects[:0]
}

// closedBefore reports whether the stream may have been closed when its client reset
// it: the gate ignores a reset then (RFC 9113 section 5.1), and completes the upload.
func (q *request) closedBefore() bool {
	return q.endSent && q.saidAt != 0 && q.saidAt < q.canceledAt
}

func firstOf(requests []*request) (first *request) {
	for _, q := range requests {
		if first == nil || q.id < first.id {
			first = q
		}
	}
	return first
}
