package simulate

import (
	"slices"
	"strconv"
)

// requestWhole is the end of a request.
func (c *h2Up) requestWhole(s *h2UpStream) {
	q, u := s.q, s.u
	s.whole, u.reading = true, false
	if u.taken != len(q.body) {
		c.found("request %d: its body ends at %d of %d", q.id, u.taken, len(q.body))
	}
	// Trailers that share a connection are discarded after a second. They cannot wait
	// before the head is sent. sentWhole may be late: it is set when the client has
	// nothing more to send on its connection.
	since := q.headAt
	if q.sentWhole != 0 {
		since = min(since, q.sentWhole)
	}
	discarded := s.over || c.now-since+c.slack() >= second
	if _, n := get(u.m.trailers, "x-sim-trailer"); q.trail && n != 1 && !discarded {
		c.found("request %d: trailers %q", q.id, u.m.trailers)
	}
	q.executed++
	q.wholeAt = c.now
	switch {
	case !q.answer.early && q.coding != without:
		c.startAnswer(s)
	case s.over:
		c.forget(s)
	}
}

// startAnswer answers when its time has come.
func (c *h2Up) startAnswer(s *h2UpStream) {
	if s.u.answering {
		return
	}
	q := s.q
	s.u.answering = true
	q.answerAt = c.now + q.answer.wait
	c.later(q.answer.wait, func() {
		if s.u.gone {
			return
		}
		if q.answer.silent {
			c.breakOff(s)
			return
		}
		c.interims(s)
		if len(q.answer.interims) > 1 && c.rng.IntN(2) == 0 { // the final head meets interim ones that wait for the client
			c.later(c.between(0, 3*millisecond), func() { c.speakFirst(s) })
			return
		}
		c.speakFirst(s)
	})
}

func (c *h2Up) speakFirst(s *h2UpStream) {
	s.ready = true
	c.speak(s)
}

func (c *h2Up) interims(s *h2UpStream) {
	if s.q.interimsSent > 0 {
		return
	}
	s.q.interimsSent = 1
	for _, code := range s.q.answer.interims {
		c.end.sendHead(s.id, [][2]string{{":status", strconv.Itoa(code)}, {"x-sim", strconv.Itoa(s.q.id)}}, false, &c.h2.h2Weights)
		s.q.startedAt = c.now
	}
}

// lostAnswers notes what a reset of the connection may take along.
func (c *h2Up) lostAnswers() {
	c.container.away++ // for requests that have not left the gate
	c.end.deadEnd = true
	if c.link.upReached() {
		return
	}
	for _, q := range c.asked {
		if q.endings == 0 && q.on.link == c.link {
			q.breaks++
			q.brokeHard = true
			q.staleBreak = q.staleBreak || q.on.served > 1 || !c.strict
		}
	}
	c.asked = nil
}

// breakOff ends a stream in the middle, or its connection.
func (c *h2Up) breakOff(s *h2UpStream) {
	q := s.q
	if c.rng.IntN(5) == 0 {
		c.gone = true
		for _, o := range slices.Clone(c.streams) {
			o.u.gone = true
			o.u.end(q.answer.hard)
		}
		return
	}
	q.breaks++
	q.brokeAt, q.brokeHard = c.now, true
	q.staleBreak = q.staleBreak || s.u.served > 1 && !s.saying
	q.unheard = s.u.served > 1 && !s.saying && q.startedAt == 0
	c.end.sayWord(fReset, s.id, pick(c.world, uint32(codeInside), codeCancel, codeNone))
	c.forget(s)
}

// speak sends as much of an answer as may go.
func (c *h2Up) speak(s *h2UpStream) {
	q, a := s.q, &s.q.answer
	if !s.ready || s.u.gone || c.gone || s.waits || s.over {
		return
	}
	if !s.saying && !c.sayHead(s) {
		return
	}
	for !s.over && !s.u.gone {
		rest := a.body[s.said:]
		if a.cutAt >= a.head {
			rest = rest[:max(0, min(len(rest), a.cutAt-a.head-s.said))]
		}
		all := s.said+len(rest) == len(a.body) && a.cutAt < 0
		if a.piece > 0 && len(rest) > a.piece {
			rest, all = rest[:a.piece], false
		}
		end := all && !a.trail && (len(rest) == 0 || a.mode == length && !a.wrong || c.rng.IntN(2) == 0)
		if len(rest) > 0 || end {
			n, charged := c.end.sendData(s.id, rest, s.send, end, &c.h2.h2Weights)
			if n == 0 && len(rest) > 0 {
				return
			}
			s.send -= charged
			s.said += n
			q.said = a.head + s.said
			s.over = end && n == len(rest)
			all = all && n == len(rest)
		}
		switch {
		case s.over:
		case a.cutAt >= 0 && s.said >= min(a.cutAt-a.head, len(a.body)):
			c.breakOff(s)
			return
		case all && a.trail:
			c.end.sendHead(s.id, [][2]string{{"x-sim-trailer", strconv.Itoa(q.id)}}, true, &c.h2.h2Weights)
			s.over = true
		case a.piece > 0:
			s.waits = true
			c.later(a.gap, func() {
				s.waits = false
				c.speak(s)
			})
			return
		}
	}
	c.answerWhole(s)
}

// sayHead sends the final head. It is false if that is all.
func (c *h2Up) sayHead(s *h2UpStream) (goesOn bool) {
	q, a := s.q, &s.q.answer
	if a.cutAt >= 0 && a.cutAt < a.head {
		c.breakOff(s)
		return false
	}
	fields := [][2]string{{":status", strconv.Itoa(a.status)}, {"x-sim", strconv.Itoa(q.id)}}
	if a.garbage {
		bad := pick(c.world, [2]string{"Upper", "case"}, [2]string{"connection", "close"}, [2]string{"content-length", "1, 2"})
		c.end.sendHead(s.id, append(fields, bad), false, &c.h2.h2Weights)
		s.saying, q.said, q.startedAt, q.saidAt = true, a.head, c.now, c.now
		s.over = true
		c.later(50*millisecond, func() { c.forget(s) })
		return false
	}
	none := a.bodyless(q)
	if a.mode == length && (!none || q.method == "HEAD" || a.status == 304) {
		n := len(a.body)
		if a.wrong && !none {
			n += 1 + c.rng.IntN(100)
		}
		fields = append(fields, [2]string{"content-length", strconv.Itoa(n)})
	}
	end := none || len(a.body) == 0 && !a.trail && a.cutAt < 0 && (a.mode == length && !a.wrong || c.rng.IntN(2) == 0)
	c.end.sendHead(s.id, fields, end, &c.h2.h2Weights)
	s.saying, q.said = true, a.head
	if q.startedAt == 0 {
		q.startedAt = c.now
	}
	if end {
		s.over = true
		c.answerWhole(s)
		return false
	}
	return true
}

// answerWhole is the end of an answer.
func (c *h2Up) answerWhole(s *h2UpStream) {
	q := s.q
	q.said, q.saidAt, s.u.answered = max(q.said, q.answer.full), c.now, true
	if s.whole {
		c.forget(s)
	} else if q.answer.stops {
		c.end.sayWord(fReset, s.id, codeNone)
		c.forget(s)
	}
}

// retake2 makes the answer to q, which was drawn for HTTP/1, one over HTTP/2:
// what counts as said is 1 for the head, the octets of the body, and 1 for the
// end.
func (q *request) retake2(w *world) {
	if q.plain == nil {
		a := q.answer
		q.plain = &a
	}
	q.answer = *q.plain
	a := &q.answer
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
		a.wrong = false
	}
	a.trail = a.trail && !a.bodyless(q)
	if a.wrong {
		a.trail = false
	} else if a.mode == length {
		a.full, a.trail = min(a.full, 1+len(a.body)), false // nothing can follow
		if a.cutAt >= a.full {
			a.cutAt = -1
		}
	}
}
