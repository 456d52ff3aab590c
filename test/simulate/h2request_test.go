package simulate

import (
	"slices"
	"strconv"
)

// openStream opens a stream for q.
func (c *h2Client) openStream(q *request) {
	s := &h2Stream{c: c, id: uint32(2*len(c.streams) + 1), q: q, send: c.end.window, recv: c.initialWindow, openedAt: c.now}
	c.streams, c.open = append(c.streams, s), append(c.open, s)
	q.sentAt, q.clientAddress, q.on2 = c.now, c.link.address.Addr().String(), s
	c.idleConns = 0
	end := q.coding == noBody && !q.upgrade && q.frame[0] == ""
	c.end.sendHead(s.id, q.headerList(), end, &c.run.h2.h2Weights)
	if c.initialWindow == 0 {
		c.later(c.randomIn(0, 20)*millisecond, func() { c.releaseCredit(s, 1+int(c.spread(1, 1<<16))) })
	}
	if c.initialWindow < len(q.response.wire) || c.run.h2.policy == delayed || c.run.h2.piece > 0 || c.run.h2.resize > 0 {
		c.slowUntil = longest
	}
	switch {
	case q.disconnectAt >= 0 && (end || q.disconnectAt <= q.head || q.expect):
		if c.rng.IntN(2) == 0 {
			c.abortRequest(s)
		} else {
			c.later(c.spread(1, 1000)*100*microsecond, func() { c.abortRequest(s) })
		}
	case c.chance(c.run.h2.cancels):
		c.later(c.spread(1, 20_000)*100*microsecond, func() { c.abortRequest(s) })
	}
	switch {
	case s.canceled || c.disconnected:
	case end:
		s.sentEnd = true
		c.sentLastByte(s)
	case q.expect && q.badHead == "":
		s.waits = true
		c.later(q.continueTimeout, func() {
			if s.waits && s.sent == 0 && !s.uploadRejected {
				s.waits = false
				c.upload(s)
			}
		})
	case q.upgrade, q.frame[0] != "":
	default:
		c.upload(s)
	}
}

// sentLastByte records the time of the last byte of a request.
func (c *h2Client) sentLastByte(s *h2Stream) {
	c.end.whenSent(func() { s.q.sentWhole, s.q.sent = c.now, len(s.q.raw) })
	if c.end.piece == 0 {
		s.q.requestEnd = c.link.sent - c.end.padding // the gate does not wait for the padding
	}
}

// upload sends as much of a body as the windows allow.
func (c *h2Client) upload(s *h2Stream) {
	q := s.q
	for !s.waits && !s.sentEnd && !s.closed && !s.canceled && !c.disconnected && s.sent >= 0 && !(q.upgrade && !s.finalHead) && q.frame[0] == "" {
		body := q.body
		if q.upgrade {
			body = q.tunnel
		}
		rest := body[s.sent:]
		if q.piece > 0 {
			rest = rest[:min(len(rest), q.piece)]
		}
		if at := q.disconnectAt - q.head; at > s.sent {
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
			c.sentLastByte(s)
		case s.sent < len(body):
		case q.upgrade:
			return
		case q.trail:
			c.end.sendHead(s.id, [][2]string{{"x-sim-trailer", strconv.Itoa(q.id)}}, true, &c.run.h2.h2Weights)
			s.sentEnd = true
			c.sentLastByte(s)
		default:
			continue // an empty frame with END_STREAM follows
		}
		if s.sentEnd {
			c.maybeClosed(s)
			return
		}
		switch {
		case q.disconnectAt-q.head == s.sent && q.disconnectAt > q.head && q.disconnectKind != byHalfClose:
			c.abortRequest(s)
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

// abortRequest aborts a request, by a reset of the stream or of the connection.
func (c *h2Client) abortRequest(s *h2Stream) {
	if s.closed || s.canceled || c.disconnected {
		return
	}
	q := s.q
	q.endSent = s.sentEnd
	c.note("client %s aborts request %d", c.link, q.id)
	if choice := c.rng.IntN(10); choice < 3 {
		for _, s := range c.open {
			s.q.disconnectedAt, s.q.disconnectedByReset, s.q.disconnectedLink = c.now, true, c.link
			if s.q.clientOutcome == open {
				s.q.clientOutcome = disconnectedByClient
			}
		}
		c.disconnected, c.end.deadEnd = true, true
		switch choice {
		case 0:
			c.link.abort()
		case 1:
			c.link.closeByPeer()
		default:
			c.link.halfClose()
			l := c.link
			c.schedule(5*second, l.closeByPeer)
		}
		c.open = nil
		c.reconnect()
		return
	}
	c.cancel(s, codeCancel)
	c.next()
}

// cancel resets a stream.
func (c *h2Client) cancel(s *h2Stream, code uint32) {
	q := s.q
	s.canceled = true
	if q.disconnectedAt == 0 {
		q.disconnectedAt, q.disconnectedByReset, q.disconnectedLink = c.now, true, c.link
	}
	if q.clientOutcome == open {
		q.clientOutcome = disconnectedByClient
	}
	c.end.sendNumber(fReset, s.id, code)
	c.end.whenSent(func() { q.canceledAt = c.now })
	c.remove(s)
}

func (c *h2Client) remove(s *h2Stream) {
	if s.closed {
		return
	}
	s.closed = true
	if i := slices.Index(c.open, s); i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
	}
}

// maybeClosed closes a stream if both directions have ended.
func (c *h2Client) maybeClosed(s *h2Stream) {
	if s.endReceived && s.sentEnd && !s.closed {
		c.remove(s)
		c.schedule(0, c.next)
		if c.closing && len(c.open) == 0 {
			c.retire()
		}
	}
}

// retire ends a connection with GOAWAY.
func (c *h2Client) retire() {
	if c.disconnected || c.chance(c.run.h2.lateShare) {
		return // the gate closes the connection
	}
	c.later(c.randomIn(0, 3)*millisecond, func() {
		if len(c.open) == 0 {
			c.closeIdle()
		}
	})
}
