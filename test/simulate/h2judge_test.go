package simulate

import (
	"slices"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// head implements h2Role.
func (c *h2Client) head(id uint32, fields [][2]string, end bool) {
	s := c.streamOf(id, fHeaders)
	if s == nil {
		return
	}
	q := s.q
	if s.finalHead {
		if !end {
			c.end.protocolError("a second head for %d", id)
			return
		}
		for _, f := range fields {
			if f[0][0] == ':' {
				c.end.protocolError("%s in the trailers of %d", f[0], id)
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
	simField, _ := get(fields, "x-sim")
	outcome, byGate := get(fields, "k-gate-outcome")
	if simField == "0" && c.unsolicited > 0 {
		q.tainted = true
	}
	if q.tainted {
		simField = strconv.Itoa(q.id)
	}
	if simField == "" && byGate == 0 && c.promises(q, status, fields, c.link.writeOf(c.end.frameEnd)) {
		simField = strconv.Itoa(q.id)
	}
	if simField == "" && byGate == 0 && status != 100 && q.badHead == "" && !q.probe {
		c.found("request %d: a response that neither container nor gate sent: %q", q.id, fields)
	}
	if simField != "" && simField != strconv.Itoa(q.id) {
		c.found("request %d: got the response to request %s", q.id, simField)
	}
	if status < 200 {
		if status == 101 || end {
			c.found("request %d: an impossible interim response: %q, end %v", q.id, fields, end)
		}
		if !q.tainted {
			c.interim2(s, status, simField != "")
		}
		return
	}
	s.finalHead = true
	q.status, q.gateOutcome, q.headReceivedAt = status, outcome, c.now
	if c.tracing {
		c.note("client %s: request %d received %d %s", c.link, q.id, status, outcome)
	}
	if s.waits && s.sent == 0 && q.expect {
		s.uploadRejected = true
	}
	if byGate > 0 && q.grpc {
		_, numStatuses := get(fields, "grpc-status")
		if status != 200 || numStatuses != 1 || !end {
			c.found("request %d: an invalid local reply to a gRPC call: %q, end %v", q.id, fields, end)
		}
	}
	switch {
	case byGate > 0:
		if !q.grpc {
			c.judgeReply(q, outcome, status)
			c.judgeRetry(q, fields)
		} else if q.endings != 1 || q.outcome.String() != outcome {
			c.found("request %d: the reply says %s, but the outcome is %s", q.id, outcome, q.outcome)
		}
	case q.badHead != "" || q.probe || q.tainted || q.promised:
	case q.upgrade && status == 200 && !end:
		c.beginTunnel2(s)
		return
	case status != q.response.status:
		c.found("request %d: status %d, the container sent %d", q.id, status, q.response.status)
	}
	if end {
		c.complete2(s)
	} else if q.disconnectAfter == 0 {
		c.abortRequest(s)
	}
}

// interim2 checks an interim response.
func (c *h2Client) interim2(s *h2Stream, status int, isContainers bool) {
	q := s.q
	if status == 100 {
		if s.waits && s.sent == 0 && q.expect {
			s.waits = false
			c.later(0, func() { c.upload(s) })
		}
		if !isContainers {
			return
		}
	}
	for q.interims < len(q.response.interims) {
		want := q.response.interims[q.interims]
		q.interims++
		if want == status {
			return
		}
		if want != 100 {
			break
		}
	}
	c.found("request %d: interim response %d, want one of %v", q.id, status, q.response.interims)
}

// complete2 handles the end of a response.
func (c *h2Client) complete2(s *h2Stream) {
	q := s.q
	s.endReceived = true
	q.doneAt = c.now
	if c.tracing {
		c.note("client %s: the response to request %d is complete", c.link, q.id)
	}
	_, cut := get(s.trailers, "k-gate-outcome")
	byContainer := cut > 0 || c.judgeWaited(q, true)
	switch {
	case q.clientOutcome == tunnelled:
	case !byContainer:
		q.clientOutcome = rejectedByGate
	case q.gateOutcome != "" || q.badHead != "" || q.probe:
		q.clientOutcome = rejectedByGate
		if !q.grpc {
			c.judgeBody(q, s.reply)
		}
	case cut > 0 && q.grpc:
		q.clientOutcome = cutOff
		c.judgeCut2(s)
	default:
		q.clientOutcome = complete
		c.judgeWhole2(s)
	}
	switch {
	case s.sentEnd:
	case s.uploadRejected && c.rng.IntN(2) == 0:
		c.cancel(s, codeNone)
		c.next()
		return
	case s.uploadRejected:
		s.uploadRejected, s.waits = false, false
		c.upload(s)
	}
	c.maybeClosed(s)
}

// judgeWhole2 checks that a response without an error is complete.
func (c *h2Client) judgeWhole2(s *h2Stream) {
	q := s.q
	a := &q.response
	if q.tainted {
		return
	}
	if !a.isComplete(q, q.responseSent, a.hard) && !(a.mode == untilClose && q.breaks > 0 && !q.brokeHard) {
		c.found("request %d: a truncated response looks complete: %d of %d bytes", q.id, q.responseSent, a.full)
	}
	if !a.bodyless(q) && s.numReceived != len(a.body) && (a.mode != untilClose || a.cutAt < 0 && q.breaks <= 1 && q.responseSentAt != 0) {
		c.found("request %d: the response body ends at %d of %d", q.id, s.numReceived, len(a.body))
	}
	if q.interims < len(a.interims) && !q.promised {
		for _, code := range a.interims[q.interims:] {
			if code != 100 {
				c.found("request %d: interim responses %v, the client received %d", q.id, a.interims, q.interims)
			}
		}
	}
	if _, n := get(s.trailers, "x-sim-trailer"); a.trail && !a.bodyless(q) && n != 1 {
		c.found("request %d: the response trailer is missing", q.id)
	}
	if q.begun != 1 {
		c.found("request %d: answered, but counted %d times", q.id, q.begun)
	}
}

// judgeCut2 checks that a fault explains a truncated response.
func (c *h2Client) judgeCut2(s *h2Stream) {
	q := s.q
	a := &q.response
	c.judgeWaited(q, false)
	switch {
	case q.tainted, q.disconnectedAt > 0:
	case q.gateOutcome != "" || q.badHead != "" || q.probe:
		if c.slowUntil == 0 {
			c.found("request %d: a local reply was cut", q.id)
		}
	case q.endings == 0:
		c.found("request %d: cut, but the exchange has not ended", q.id)
	case q.outcome == gate.Served:
		c.found("request %d: cut, but its outcome is served", q.id)
	case q.outcome == gate.UpstreamBrokeOff && a.isComplete(q, q.responseSent, a.hard) && q.breaks == 0:
		c.found("request %d: cut, although the container's response was complete", q.id)
	}
}

// reset implements h2Role: the gate resets a stream.
func (c *h2Client) reset(id uint32, code uint32) {
	s := c.streamOf(id, fReset)
	if s == nil {
		return
	}
	q := s.q
	c.note("client %s: request %d is reset, code %d", c.link, q.id, code)
	switch {
	case q.clientOutcome == tunnelled:
		if code != codeCancel && code != codeInside && (code != codeNone || !s.endReceived) {
			c.end.protocolError("a tunnel is reset with code %d", code)
		}
	case s.endReceived:
		if code != codeNone && code != codeInside { // INTERNAL_ERROR is allowed, for example after an upload timeout
			c.end.protocolError("RST_STREAM of %d, which has ended, with code %d", id, code)
		}
		s.sentEnd = true // the client does not send the rest of the upload
	case s.finalHead:
		q.clientOutcome = cutOff
		if code != codeCancel && code != codeInside {
			c.end.protocolError("RST_STREAM of %d during its response, with code %d", id, code)
		}
		c.judgeCut2(s)
	case q.badHead == "400":
		q.clientOutcome = rejectedByGate
		if code != codeBad {
			c.end.protocolError("RST_STREAM of %d, which is malformed, with code %d", id, code)
		}
	default:
		q.clientOutcome = dropped
		if q.disconnectedAt == 0 && !q.tainted {
			c.found("request %d: reset with code %d, without a response (%s)", q.id, code, q.outcome)
		}
	}
	c.remove(s)
	c.schedule(0, c.next)
	if c.closing && len(c.open) == 0 {
		c.retire()
	}
}

// judgeRejected2 checks that a stream may be rejected by GOAWAY.
func (c *h2Client) judgeRejected2(s *h2Stream) {
	q := s.q
	q.clientOutcome = unread
	switch {
	case q.begun > 0:
		c.found("request %d: rejected by GOAWAY, but counted", q.id)
	case c.enhanceYourCalm, c.run.settings.descriptors > 0:
	case c.pausedAt != 0, c.end.piece > 0, c.run.h2Drips(2000) > 200*millisecond: // the gate received the PING ACK late
	case c.link.inTransit() > 0 && c.now-c.goAwayAnnouncedAt >= 800*millisecond: // the gate has not read the PING ACK
	case c.goAwayAnnouncedAt == 0, s.openedAt <= c.goAwayAnnouncedAt, c.now-c.goAwayAnnouncedAt < 150*millisecond:
		c.found("request %d: rejected by a GOAWAY that was not announced", q.id)
	}
}

// lost2 handles the end of a client's connection. It sets the outcomes of the requests
// that were still open, and reports a fault unless some event of the run explains why
// they got no complete response.
func (c *h2Client) lost2(reset bool) {
	for _, s := range c.open {
		q := s.q
		if q.clientOutcome != open {
			continue
		}
		q.clientOutcome = dropped
		if s.finalHead {
			q.clientOutcome = cutOff
		}
		patient := c.slowUntil < longest && c.run.h2Drips(len(q.response.wire)+2000) < 4*second
		switch {
		case q.disconnectedAt > 0, c.enhanceYourCalm, q.tainted:
		case s.endReceived:
		case q.begun > 0 && q.endings == 0:
			c.found("request %d: the client's connection ended (reset %v), but the exchange has not", q.id, reset)
		case q.begun > 0 && c.drainedAt > 0 && (!patient || c.link.abandonable()): // the client read too slowly in a drain
		// The gate had no open stream, and closed the connection to free its descriptor.
		case q.begun > 0 && c.run.settings.descriptors > 0:
		case q.begun > 0:
			c.found("request %d: outcome %s, but the connection ended before the client received it (reset %v)", q.id, q.outcome, reset)
		case c.run.settings.descriptors > 0: // reclaimed, because it was idle
		case c.drainDoneAt > 0 && c.link.firstAt+c.slack() >= c.drainDoneAt: // the first bytes arrived after the shutdown had stopped waiting
		case c.closeAllowed && !c.end.settled && (c.link.firstAt == 0 || c.link.firstAt-c.link.connectedAt+c.slack() >= 100*millisecond || c.run.h2Drips(500) > second): // a shutdown may have closed the connection, because the first bytes were late
		// The request began before its client had read GOAWAY. A shutdown ends 10 s after
		// the first GOAWAY, and the half-close was at most 1 s after it, so 9 s remain.
		case c.link.shutAt > 0 && c.link.closedAt-c.link.shutAt >= 9*second-c.kernel.maxDelay:
		case c.run.h2SlowHeads():
		case q.badHead != "" || q.probe:
			if patient {
				c.found("request %d: dropped without a response (reset %v)", q.id, reset)
			}
		default:
			c.found("request %d: dropped without a response (%s, reset %v)", q.id, q.outcome, reset)
		}
	}
	c.open = nil
}

// checkInvariants2 checks what holds when nothing is in transit.
func (c *h2Client) checkInvariants2() {
	l := c.link
	if l == nil || c.disconnected || l.file == nil || l.paused || !l.upReached() || !l.downReached() || l.unread() > 0 || len(c.end.queue) > 0 || l.noRoom {
		return
	}
	r := c.run
	if quiet := r.now - max(l.reachedAt, l.connectedAt, c.pausedAt); (c.end.pings > 0 || c.end.ourAcks > 0) && c.end.settled && c.slowUntil < r.now && quiet > second+r.h2Drips(100) {
		r.found("%s: PING or SETTINGS not acknowledged for %v", l, time.Duration(quiet))
	}
	for _, s := range c.open {
		q := s.q
		limit := r.slack() + r.trickle(q) + int64(len(q.raw))*(r.kernel.settings.delay+10*microsecond) + r.h2Drips(len(q.raw))
		if q.responseSentAt != 0 && q.response.isComplete(q, q.responseSent, q.response.hard) && q.disconnectedAt == 0 && s.sentEnd && q.clientOutcome == open && q.upstream != nil && q.upstream.link.file != nil &&
			q.upstream.link.upReached() && q.upstream.link.downReached() && s.recv > 0 && c.end.recv > 0 && c.slowUntil < r.now &&
			r.now-max(q.responseSentAt, q.sentWhole, c.slowUntil, l.fullAt) > limit {
			r.found("request %d: the container responded %v ago, but the client has not received the response", q.id, time.Duration(r.now-q.responseSentAt))
		}
		if q.upstream != nil && q.upstream.request == q && q.upstream.reading && !s.sentEnd && !s.waits && s.sent < len(q.body) && (s.send <= 0 || c.end.send <= 0) &&
			q.upstream.link.downReached() && q.upstream.link.file != nil && c.uploadsArrived() && r.now-max(q.upstream.link.reachedAt, l.reachedAt, l.connectedAt) > limit+second {
			r.found("request %d: the upload is stuck at %d of %d, with windows of %d and %d", q.id, s.sent, len(q.body), s.send, c.end.send)
		}
		if s.endReceived && !s.sentEnd && !s.waits && q.endings > 0 && r.now-max(q.endedAt, q.doneAt, l.reachedAt) > limit {
			r.found("request %d: ended, but its client can still send", q.id)
		}
	}
	if len(c.open) == 0 && c.end.send < h2Window/2-1 && r.now-l.reachedAt > second {
		r.found("%s: no stream is open, but the connection window is %d", l, c.end.send)
	}
}

// checkStalled finds a response that never ends: the gate has forwarded everything, but
// has not returned the credit to the container.
func (r *run) checkStalled(q *request) {
	if q.upstream == nil || !q.upstream.overH2 || q.upstream.closed || q.upstream.request != q || q.disconnectedAt > 0 || q.clientOutcome != open || q.tainted {
		return
	}
	up, l := q.upstream.conn, q.upstream.link
	s := up.streamOf(q)
	if s == nil || s.u != q.upstream || !s.headSent || s.endSent || s.paused || up.closed || s.send > 0 && up.end.send > 0 ||
		l.file == nil || l.noRoom || !l.isAllRead() || !l.downReached() {
		return
	}
	lastProgress := max(l.reachedAt, l.cameAt, l.fullAt)
	if q.over2 {
		lastProgress = max(lastProgress, q.on2.readableSince())
	} else {
		lastProgress = max(lastProgress, q.client.readableSince(q))
	}
	if r.calmUntil-lastProgress > 100*millisecond+r.slack() {
		r.found("request %d: the response is stuck at %d of %d, with windows of %d and %d", q.id, s.numSent, len(q.response.body), s.send, up.end.send)
	}
}

// readableSince returns the time since which the client can receive more of a response.
// It returns longest if the client cannot.
func (s *h2Stream) readableSince() int64 {
	c, l := s.c, s.c.link
	if s.closed || s.endReceived || s.canceled || !s.finalHead || s.recv <= 0 || c.end.recv <= 0 || c.end.ourAcks > 0 || c.disconnected || len(c.end.queue) > 0 ||
		l == nil || l.file == nil || l.paused || l.noRoom || !l.isAllRead() || !l.downReached() {
		return longest
	}
	lastProgress := max(l.reachedAt, l.cameAt, l.fullAt, c.pausedAt)
	// If the client uses small windows or releases credit late, slowUntil is longest.
	// This value is not the end of a pause.
	if c.slowUntil < longest {
		lastProgress = max(lastProgress, c.slowUntil)
	}
	return lastProgress
}

// readableSince returns the time since which an HTTP/1 client can receive more of the
// response to q. It returns longest if the client cannot.
func (c *client) readableSince(q *request) int64 {
	l := q.via
	if l == nil || l != c.link || l.file == nil || l.paused || l.noRoom || !l.isAllRead() || !l.downReached() || len(c.pipeline) == 0 || c.pipeline[0] != q || q.headReceivedAt == 0 {
		return longest
	}
	return max(l.reachedAt, l.cameAt, l.fullAt, c.slowUntil)
}

// uploadsArrived reports whether the container has all bytes that the client has sent.
func (c *h2Client) uploadsArrived() bool {
	for _, s := range c.open {
		if q := s.q; s.sent > 0 && (q.upstream == nil || q.upstream.request != q || q.upstream.numReceived != s.sent) {
			return false
		}
	}
	return true
}

// checkH2 checks the HTTP/2 clients when nothing is in transit.
func (r *run) checkH2() {
	for _, c := range r.h2clients {
		c.checkInvariants2()
	}
	if len(r.h2clients) == 0 || r.settings.gate.HardConcurrency {
		return
	}
	for _, q := range r.underWay {
		if q.over2 && q.canceledAt > 0 && q.disconnectedLink.file != nil && q.disconnectedLink.upReached() && q.disconnectedLink.unread() == 0 && q.clientOutcome != tunnelled && !q.response.switches && !q.closedBefore() &&
			r.now-max(q.canceledAt, q.disconnectedLink.reachedAt) > 10*millisecond+r.kernel.maxDelay {
			r.unresolved = append(r.unresolved, q)
		}
	}
	if first := firstOf(r.unresolved); first != nil {
		r.found("request %d: reset by its client %v ago, but still in progress", first.id, time.Duration(r.now-first.canceledAt))
	}
	r.unresolved = r.unresolved[:0]
}

// closedBefore reports whether the stream may have been closed when the client reset it.
// The gate then ignores the reset (RFC 9113 section 5.1).
func (q *request) closedBefore() bool {
	return q.endSent && q.responseSentAt != 0 && q.responseSentAt < q.canceledAt
}

func firstOf(requests []*request) (first *request) {
	for _, q := range requests {
		if first == nil || q.id < first.id {
			first = q
		}
	}
	return first
}
