package simulate

import (
	"slices"
	"strconv"
	"strings"
)

// endRequest checks that the container has received the complete request. It starts the
// response if it waits for the request, or removes the stream if the response has ended.
func (c *h2Up) endRequest(s *h2UpStream) {
	q, u := s.q, s.u
	s.requestDone, u.reading = true, false
	if u.numReceived != len(q.body) {
		c.found("request %d: the request body ends at %d of %d", q.id, u.numReceived, len(q.body))
	}
	// On a shared connection the gate discards trailers that it cannot send within a
	// second. start is the earliest time at which that second can have begun. sentWhole
	// can be later than the end of this request, because it also covers other bytes of
	// the connection.
	start := q.headAt
	if q.sentWhole != 0 {
		start = min(start, q.sentWhole)
	}
	discarded := s.endSent || c.now-start+c.slack() >= second
	if _, n := get(u.m.trailers, "x-sim-trailer"); q.trail && n != 1 && !discarded {
		c.found("request %d: trailers %q", q.id, u.m.trailers)
	}
	q.executed++
	q.wholeAt = c.now
	switch {
	case !q.response.early && q.coding != noBody:
		c.startResponse(s)
	case s.endSent:
		c.remove(s)
	}
}

// startResponse starts the response after its delay.
func (c *h2Up) startResponse(s *h2UpStream) {
	if s.u.responding {
		return
	}
	q := s.q
	s.u.responding = true
	q.responseAt = c.now + q.response.wait
	c.later(q.response.wait, func() {
		if s.u.closed {
			return
		}
		if q.response.silent {
			c.abort(s)
			return
		}
		c.sendInterims(s)
		if len(q.response.interims) > 1 && c.rng.IntN(2) == 0 { // the delayed final head may arrive while the gate still queues interim heads
			c.later(c.randomIn(0, 3*millisecond), func() { c.speakFirst(s) })
			return
		}
		c.speakFirst(s)
	})
}

func (c *h2Up) speakFirst(s *h2UpStream) {
	s.ready = true
	c.respond(s)
}

func (c *h2Up) sendInterims(s *h2UpStream) {
	if s.q.interimsSent > 0 {
		return
	}
	s.q.interimsSent = 1
	for _, code := range s.q.response.interims {
		c.end.sendHead(s.id, [][2]string{{":status", strconv.Itoa(code)}, {"x-sim", strconv.Itoa(s.q.id)}}, false, &c.h2.h2Weights)
		s.q.startedAt = c.now
	}
}

// recordLostResponses records the responses that a reset of the connection discards.
func (c *h2Up) recordLostResponses() {
	// Count the end of the connection like a GOAWAY. Both can be the reason why a request
	// fails that the gate has assigned to the connection but not sent yet.
	c.container.goAways++
	c.end.deadEnd = true
	if c.link.upReached() {
		return
	}
	for _, q := range c.unsent {
		if q.endings == 0 && q.upstream.link == c.link {
			q.breaks++
			q.brokeHard = true
			q.staleBreak = q.staleBreak || q.upstream.served > 1 || !c.strict
		}
	}
	c.unsent = nil
}

// abort resets a stream or its connection.
func (c *h2Up) abort(s *h2UpStream) {
	q := s.q
	if c.rng.IntN(5) == 0 {
		c.closed = true
		for _, o := range slices.Clone(c.streams) {
			o.u.closed = true
			o.u.end(q.response.hard)
		}
		return
	}
	q.breaks++
	q.brokeAt, q.brokeHard = c.now, true
	q.staleBreak = q.staleBreak || s.u.served > 1 && !s.headSent
	q.brokeUnanswered = s.u.served > 1 && !s.headSent && q.startedAt == 0
	c.end.sendNumber(fReset, s.id, pick(c.world, uint32(codeInside), codeCancel, codeNone))
	c.remove(s)
}

// respond sends as much of a response as the windows allow.
func (c *h2Up) respond(s *h2UpStream) {
	q, a := s.q, &s.q.response
	if !s.ready || s.u.closed || c.closed || s.paused || s.endSent {
		return
	}
	if !s.headSent && !c.respondHead(s) {
		return
	}
	for !s.endSent && !s.u.closed {
		rest := a.body[s.numSent:]
		if a.cutAt >= a.head {
			rest = rest[:max(0, min(len(rest), a.cutAt-a.head-s.numSent))]
		}
		all := s.numSent+len(rest) == len(a.body) && a.cutAt < 0
		if a.piece > 0 && len(rest) > a.piece {
			rest, all = rest[:a.piece], false
		}
		end := all && !a.trail && (len(rest) == 0 || a.mode == length && !a.lengthTooLong || c.rng.IntN(2) == 0)
		if len(rest) > 0 || end {
			n, charged := c.end.sendData(s.id, rest, s.send, end, &c.h2.h2Weights)
			if n == 0 && len(rest) > 0 {
				return
			}
			s.send -= charged
			s.numSent += n
			q.responseSent = a.head + s.numSent
			s.endSent = end && n == len(rest)
			all = all && n == len(rest)
		}
		switch {
		case s.endSent:
		case a.cutAt >= 0 && s.numSent >= min(a.cutAt-a.head, len(a.body)):
			c.abort(s)
			return
		case all && a.trail:
			c.end.sendHead(s.id, [][2]string{{"x-sim-trailer", strconv.Itoa(q.id)}}, true, &c.h2.h2Weights)
			s.endSent = true
		case a.piece > 0:
			s.paused = true
			c.later(a.gap, func() {
				s.paused = false
				c.respond(s)
			})
			return
		}
	}
	c.endResponse(s)
}

// respondHead sends the final head. It returns false if the response has ended.
func (c *h2Up) respondHead(s *h2UpStream) (goesOn bool) {
	q, a := s.q, &s.q.response
	if a.cutAt >= 0 && a.cutAt < a.head {
		c.abort(s)
		return false
	}
	fields := [][2]string{{":status", strconv.Itoa(a.status)}, {"x-sim", strconv.Itoa(q.id)}}
	for _, f := range a.fields {
		fields = append(fields, [2]string{strings.ToLower(f[0]), f[1]})
	}
	if a.garbage {
		invalid := pick(c.world, [2]string{"Upper", "case"}, [2]string{"connection", "close"}, [2]string{"content-length", "1, 2"})
		c.end.sendHead(s.id, append(fields, invalid), false, &c.h2.h2Weights)
		s.headSent, q.responseSent, q.startedAt, q.responseSentAt = true, a.head, c.now, c.now
		s.endSent = true
		c.later(50*millisecond, func() { c.remove(s) })
		return false
	}
	none := a.bodyless(q)
	if a.mode == length && (!none || q.method == "HEAD" || a.status == 304) {
		n := len(a.body)
		if a.lengthTooLong && !none {
			n += 1 + c.rng.IntN(100)
		}
		fields = append(fields, [2]string{"content-length", strconv.Itoa(n)})
	}
	end := none || len(a.body) == 0 && !a.trail && a.cutAt < 0 && (a.mode == length && !a.lengthTooLong || c.rng.IntN(2) == 0)
	c.end.sendHead(s.id, fields, end, &c.h2.h2Weights)
	s.headSent, q.responseSent = true, a.head
	if q.startedAt == 0 {
		q.startedAt = c.now
	}
	if end {
		s.endSent = true
		c.endResponse(s)
		return false
	}
	return true
}

// endResponse records that the response has been sent. It removes the stream if the
// request has ended, or if the container resets the stream.
func (c *h2Up) endResponse(s *h2UpStream) {
	q := s.q
	q.responseSent, q.responseSentAt, s.u.responded = max(q.responseSent, q.response.full), c.now, true
	if s.requestDone {
		c.remove(s)
	} else if q.response.stops {
		c.end.sendNumber(fReset, s.id, codeNone)
		c.remove(s)
	}
}

// responseToHTTP2 converts the response to HTTP/2. In its offsets the head counts 1, each
// body octet 1, and the end 1.
func (q *request) responseToHTTP2(w *world) {
	if q.plain == nil {
		a := q.response
		q.plain = &a
	}
	q.response = *q.plain
	a := &q.response
	if a.mode != length {
		a.mode = chunked
	}
	switch {
	case a.cutAt >= a.head:
		a.cutAt = 1 + min(len(a.body), a.cutAt-a.head)
	case a.cutAt >= 0:
		a.cutAt = 0
	}
	a.minor, a.extra, a.surplus, a.closes = 1, false, false, false
	a.head, a.first = 1, 1
	a.full = len(a.body) + 2
	if a.bodyless(q) {
		a.full, a.cutAt = 1, min(a.cutAt, 0)
		a.lengthTooLong = false
	}
	a.trail = a.trail && !a.bodyless(q)
	if a.lengthTooLong {
		a.trail = false
	} else if a.mode == length {
		a.full, a.trail = min(a.full, 1+len(a.body)), false // Content-Length determines the end, so there are no trailers
		if a.cutAt >= a.full {
			a.cutAt = -1
		}
	}
}
