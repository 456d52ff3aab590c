package simulate

import (
	"slices"
	"strconv"
)

// ask opens a stream.
func (c *h2Client) ask(q *request) {
	s := &h2Stream{c: c, id: uint32(2*len(c.streams) + 1), q: q, send: c.end.window, recv: c.own, openedAt: c.now}
	c.streams, c.live = append(c.streams, s), append(c.live, s)
	q.sentAt, q.from, q.on2 = c.now, c.link.address.Addr().String(), s
	c.vain = 0
	end := q.coding == without && !q.upgrade && q.frame[0] == ""
	c.end.sendHead(s.id, q.fields2(), end, &c.run.h2.h2Weights)
	if c.own == 0 {
		c.later(c.between(0, 20)*millisecond, func() { c.give(s, 1+int(c.spread(1, 1<<16))) })
	}
	if c.own < len(q.answer.wire) || c.run.h2.policy == delayed || c.run.h2.piece > 0 || c.run.h2.resize > 0 {
		c.slowUntil = longest
	}
	switch {
	case q.leaveAt >= 0 && (end || q.leaveAt <= q.head || q.expect):
		if c.rng.IntN(2) == 0 {
			c.leaveStream(s)
		} else {
			c.later(c.spread(1, 1000)*100*microsecond, func() { c.leaveStream(s) })
		}
	case c.chance(c.run.h2.cancels):
		c.later(c.spread(1, 20_000)*100*microsecond, func() { c.leaveStream(s) })
	}
	switch {
	case s.canceled || c.went:
	case end:
		s.sentEnd = true
		c.whole(s)
	case q.expect && q.odd == "":
		s.waits = true
		c.later(3*second, func() {
			if s.waits && s.sent == 0 && !s.unwanted {
				s.waits = false
				c.upload(s)
			}
		})
	case q.upgrade, q.frame[0] != "":
	default:
		c.upload(s)
	}
}

// whole notes when the last byte of a request goes out.
func (c *h2Client) whole(s *h2Stream) {
	c.end.whenSent(func() { s.q.sentWhole, s.q.sent = c.now, len(s.q.raw) })
}

// upload sends as much of a body as may go.
func (c *h2Client) upload(s *h2Stream) {
	q := s.q
	for !s.waits && !s.sentEnd && !s.closed && !s.canceled && !c.went && s.sent >= 0 && !(q.upgrade && !s.final) && q.frame[0] == "" {
		body := q.body
		if q.upgrade {
			body = q.tunnel
		}
		rest := body[s.sent:]
		if q.piece > 0 {
			rest = rest[:min(len(rest), q.piece)]
		}
		if at := q.leaveAt - q.head; at > s.sent {
			rest = rest[:min(len(rest), at-s.sent)]
		}
		if at := q.stallAt - q.head; at > s.sent {
			rest = rest[:min(len(rest), at-s.sent)]
		}
		end := s.sent+len(rest) == len(body) && !q.trail && !q.upgrade && (len(rest) == 0 || c.rng.IntN(2) == 0)
		if len(rest) > 0 || end {
			n, charged := c.end.sendData(s.id, rest, s.send, end, &c.run.h2.h2Weights)
			if n == 0 && len(rest) > 0 {
				return // until a window opens
			}
			s.send -= charged
			s.charged += charged
			s.sent += n
			s.sentEnd = end && n == len(rest)
		}
		switch {
		case s.sentEnd:
			c.whole(s)
		case s.sent < len(body):
		case q.upgrade:
			return
		case q.trail:
			c.end.sendHead(s.id, [][2]string{{"x-sim-trailer", strconv.Itoa(q.id)}}, true, &c.run.h2.h2Weights)
			s.sentEnd = true
			c.whole(s)
		default:
			continue // END_STREAM comes by itself
		}
		if s.sentEnd {
			c.maybeClosed(s)
			return
		}
		switch {
		case q.leaveAt-q.head == s.sent && q.leaveAt > q.head && q.how != byHalfClose:
			c.leaveStream(s)
		case q.stallAt-q.head == s.sent && q.stallAt > q.head:
			c.pauseUpload(s, q.stall)
		case q.piece > 0:
			c.pauseUpload(s, q.gap)
		}
	}
}

func (c *h2Client) pauseUpload(s *h2Stream, delay int64) {
	s.waits = true
	c.later(delay, func() {
		s.waits = false
		c.upload(s)
	})
}

// leaveStream ends a request that is under way, by itself or with all others.
func (c *h2Client) leaveStream(s *h2Stream) {
	if s.closed || s.canceled || c.went {
		return
	}
	q := s.q
	q.endSent = s.sentEnd
	c.note("client %s leaves request %d", c.link, q.id)
	if how := c.rng.IntN(10); how < 3 {
		for _, s := range c.live {
			s.q.leftAt, s.q.leftReset, s.q.leftOn = c.now, true, c.link
			if s.q.verdict == open {
				s.q.verdict = gone
			}
		}
		c.went, c.end.deadEnd = true, true
		switch how {
		case 0:
			c.link.abort()
		case 1:
			c.link.leave()
		default:
			c.link.finish()
			l := c.link
			c.after(5*second, l.leave)
		}
		c.live = nil
		c.again()
		return
	}
	c.cancel(s, codeCancel)
	c.next()
}

// cancel resets a stream.
func (c *h2Client) cancel(s *h2Stream, code uint32) {
	q := s.q
	s.canceled = true
	if q.leftAt == 0 {
		q.leftAt, q.leftReset, q.leftOn = c.now, true, c.link
	}
	if q.verdict == open {
		q.verdict = gone
	}
	c.end.sayWord(fReset, s.id, code)
	c.end.whenSent(func() { q.canceledAt = c.now })
	c.shut(s)
}

// shut takes a stream out of those that are open.
func (c *h2Client) shut(s *h2Stream) {
	if s.closed {
		return
	}
	s.closed = true
	if i := slices.Index(c.live, s); i >= 0 {
		c.live = slices.Delete(c.live, i, i+1)
	}
}

// maybeClosed ends a stream of which both directions have.
func (c *h2Client) maybeClosed(s *h2Stream) {
	if s.ended && s.sentEnd && !s.closed {
		c.shut(s)
		c.after(0, c.next)
		if c.closing && len(c.live) == 0 {
			c.retire()
		}
	}
}

// retire ends a connection that the gate has asked to end.
func (c *h2Client) retire() {
	if c.went || c.chance(c.run.h2.late) {
		return // the gate closes it
	}
	c.later(c.between(0, 3)*millisecond, func() {
		if len(c.live) == 0 {
			c.bye()
		}
	})
}
