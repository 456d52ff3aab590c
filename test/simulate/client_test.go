package simulate

import (
	"bytes"
	"strconv"
)

// client sends its requests one by one or pipelined, and checks the responses.
type client struct {
	*run
	id           int
	todo         []*request
	link         *link
	pipeline     []*request // requests with incomplete responses, of which at least a part was sent
	first        *request   // first request of the connection
	sending      *request   // partly sent
	m            message
	finalHead    bool   // the final head was received
	numReceived  int    // body bytes received
	replyBody    []byte // body of a local reply
	got          int    // response bytes received
	slowUntil    int64
	disconnected bool // the client has closed or reset this connection
	halfClosed   bool // the client has half-closed this connection
	closing      bool // the gate announced the close
	done         bool
	numAttempts  int
	wait100      *request
}

// start connects and sends the first remaining request.
func (c *client) start() {
	if c.done {
		return
	}
	if len(c.todo) == 0 {
		c.done = true
		return
	}
	l := c.newLink("client")
	l.peer = c
	c.link, c.pipeline, c.sending, c.disconnected, c.halfClosed, c.closing, c.finalHead, c.got = l, c.pipeline[:0], nil, false, false, false, false, 0
	c.m.clear()
	listening, room := c.arrive(c.backlog, l)
	switch {
	case !listening:
		if !c.mayClose() {
			c.found("client %d: connection refused before the drain became quiet", c.id)
		}
		c.done = true
		return
	case !room:
		if c.numAttempts++; c.numAttempts > 100 {
			c.done = true
			return
		}
		c.schedule(50*millisecond, c.start)
		return
	}
	c.link.connectedAt, c.first = c.now, c.todo[0]
	c.note("client %s: client %d connects, %d requests left", l, c.id, len(c.todo))
	c.next()
}

func (c *client) connected() {}

func (c *client) next() {
	if c.disconnected || c.sending != nil || c.closing || c.done || c.link.closed {
		return
	}
	if len(c.todo) == 0 {
		if len(c.pipeline) == 0 {
			c.disconnected, c.done = true, true
			c.link.closeByPeer()
		}
		return
	}
	q := c.todo[0]
	c.todo = c.todo[1:]
	c.sending = q
	c.pipeline = append(c.pipeline, q)
	l := c.link
	if len(c.pipeline) == 1 {
		c.expect(q)
	}
	c.schedule(q.thinks, func() {
		if c.link == l && c.sending == q && !c.disconnected {
			q.sentAt, q.clientAddress, q.via = c.now, l.address.Addr().String(), l
			c.send(q, 0)
		}
	})
}

// expect resets the parser for the response to q.
func (c *client) expect(q *request) {
	c.m.reset()
	c.finalHead, c.numReceived, c.got = false, 0, 0
	c.replyBody = c.replyBody[:0]
}

// send sends the rest of q, which begins at the offset from. It sends one piece at once,
// and schedules a further call for the next piece.
func (c *client) send(q *request, from int) {
	if c.disconnected || c.sending != q || c.link.closed || c.closing && c.pipeline[0] != q {
		return
	}
	end := len(q.raw)
	if q.piece > 0 {
		end = min(end, from+q.piece)
	}
	if q.disconnectAt > from && q.disconnectKind != byHalfClose {
		end = min(end, q.disconnectAt)
	}
	if q.stallAt > from {
		end = min(end, q.stallAt)
	}
	if q.expect && from < q.head {
		end = min(end, q.head)
	}
	if c.tracing {
		c.note("client %s sends %d: %s", c.link, q.id, printable(q.raw[from:end]))
	}
	c.link.sendUp(q.raw[from:end])
	q.sent, q.requestEnd = end, c.link.sent
	l := c.link
	later := func(delay int64) {
		c.schedule(delay, func() {
			if c.link == l {
				c.send(q, end)
			}
		})
	}
	switch {
	case q.disconnectAt == end && q.disconnectKind != byHalfClose:
		c.disconnect(q)
	case end == len(q.raw):
		c.sending = nil
		q.sentWhole = c.now
		if q.disconnectAt == end {
			for _, q := range c.pipeline {
				q.disconnectedAt, q.disconnectedLink = c.now, c.link
			}
			c.disconnected, c.halfClosed = true, true
			c.link.halfClose()
			return
		}
		if len(c.todo) > 0 && (c.todo[0].ahead) && !q.closes {
			c.next()
		}
	case q.expect && end == q.head:
		c.wait100 = q
		c.schedule(q.continueTimeout, func() {
			if c.link == l && c.wait100 == q {
				c.wait100 = nil
				c.send(q, end)
			}
		})
	case q.stallAt == end:
		later(q.stall)
	default:
		later(q.gap)
	}
}

// disconnect ends the connection during requests.
func (c *client) disconnect(q *request) {
	c.note("client %s aborts request %d", c.link, q.id)
	c.disconnected = true
	kind := q.disconnectKind
	for _, q := range c.pipeline {
		q.disconnectedAt = c.now
		q.disconnectedByReset, q.disconnectedLink = kind == byReset, c.link
		q.clientOutcome = disconnectedByClient
	}
	if q.disconnectKind == byReset {
		c.link.abort()
	} else {
		c.link.closeByPeer()
	}
	c.reconnect()
}

func (c *client) reconnect() {
	c.sending, c.wait100 = nil, nil
	c.schedule(c.randomIn(0, c.settings.think), c.start)
}

// received implements peer.
func (c *client) received(b []byte) {
	if c.tracing {
		c.note("client %s gets %s", c.link, printable(b))
	}
	if c.disconnected && !c.halfClosed {
		return
	}
	c.m.add(b)
	c.got += len(b)
	if len(c.pipeline) > 0 {
		q := c.pipeline[0]
		if q.slowAt >= 0 && c.got >= q.slowAt {
			l := c.link
			q.slowAt = -1
			l.pause()
			c.slowUntil = c.now + q.slow
			c.schedule(q.slow, l.resume)
		}
	}
	for c.parse() {
	}
	if len(c.pipeline) > 0 {
		if q := c.pipeline[0]; q.disconnectAfter >= 0 && c.got >= max(q.disconnectAfter, 1) && !c.disconnected {
			c.disconnect(q)
		}
	}
}

// parse parses received bytes, and reports whether it consumed any.
func (c *client) parse() bool {
	if len(c.m.buf) == 0 && !c.finalHead {
		return false
	}
	if len(c.pipeline) == 0 {
		if len(c.m.buf) > 0 {
			c.found("client %d: unsolicited bytes on %s: %s", c.id, c.link, printable(c.m.buf))
			c.m.clear()
		}
		return false
	}
	q := c.pipeline[0]
	switch {
	case !c.finalHead:
		complete, err := c.m.head()
		if err != nil {
			c.found("request %d: a malformed response: %v", q.id, err)
		}
		if !complete || err != nil {
			return false
		}
		c.head(q)
		return true
	case q.clientOutcome == tunnelled:
		if c.tunnelBytes(q) {
			return false
		}
		return false
	}
	done, err := c.m.body(func(p []byte) { c.bodyBytes(q, p) })
	if err != nil {
		c.found("request %d: a malformed response body: %v", q.id, err)
		return false
	}
	if done {
		c.endResponse(q)
		return true
	}
	return false
}

// head checks a response head.
func (c *client) head(q *request) {
	if len(c.m.line) < 12 || c.m.line[:9] != "HTTP/1.1 " {
		c.found("request %d: status line %q", q.id, c.m.line)
		return
	}
	status, _ := strconv.Atoi(c.m.line[9:12])
	simField, _ := get(c.m.fields, "X-Sim")
	outcome, byGate := get(c.m.fields, "K-Gate-Outcome")
	if simField == "0" && c.unsolicited > 0 {
		q.tainted = true // the container's unsolicited response may have been taken for the response
	}
	if q.tainted {
		simField = strconv.Itoa(q.id)
	}
	if simField == "" && byGate == 0 && c.promises(q, status, c.m.fields, c.link.writeOf(c.link.delivered-len(c.m.buf))) {
		simField = strconv.Itoa(q.id)
	}
	if simField == "" && byGate == 0 && status != 100 && q.badHead == "" && !q.probe {
		c.found("request %d: a response that neither container nor gate sent: %q %q", q.id, c.m.line, c.m.fields)
	}
	if simField != "" && simField != strconv.Itoa(q.id) {
		c.found("request %d: got the response to request %s", q.id, simField)
	}
	if status < 200 && status != 101 {
		if !q.tainted {
			c.judgeInterim(q, status, simField != "")
		}
		c.m.fields = c.m.fields[:0]
		return
	}
	if c.wait100 == q {
		c.wait100 = nil // the final response arrived without a 100
	}
	c.finalHead = true
	q.status, q.gateOutcome = status, outcome
	q.headReceivedAt = c.now
	if status == 101 {
		c.switched(q)
		return
	}
	bodyless := q.method == "HEAD" && q.badHead != "405" && outcome != "head-timeout" || status == 204 || status == 304
	if err := c.m.frame(bodyless, true); err != nil {
		c.found("request %d: a response with wrong framing: %q", q.id, c.m.fields)
	}
	if c.m.mode == chunked && q.minor == 0 {
		c.found("request %d: a chunked response to HTTP/1.0", q.id)
	}
	if c.tracing {
		c.note("client %s: request %d received %q", c.link, q.id, c.m.line)
	}
	connection, _ := get(c.m.fields, "Connection")
	keeps := connection != "close" && (q.minor > 0 || connection == "keep-alive") && c.m.mode != untilClose
	if !keeps {
		c.closing = true
	}
	if q.closes && keeps {
		c.found("request %d: sent Connection: close, but the response does not announce the close", q.id)
	}
	if keeps && q.sent < len(q.raw) && c.sending == q && !q.expect {
		// The gate cannot reuse the connection without the rest of the body, so it must
		// announce the close.
		c.found("request %d: an early response on a connection that stays open", q.id)
	}
	if byGate > 0 {
		c.judgeReply(q, outcome, status)
		c.judgeRetry(q, c.m.fields)
		return
	}
	if q.badHead != "" || q.probe || q.tainted || q.promised {
		return
	}
	if status != q.response.status || c.m.line[12:] != " Sim" && q.plain == nil {
		c.found("request %d: status line %q, the container sent %d", q.id, c.m.line, q.response.status)
	}
}

func (c *client) judgeInterim(q *request, status int, isContainers bool) {
	if q.minor == 0 {
		c.found("request %d: status %d sent to HTTP/1.0", q.id, status)
	}
	if status == 100 {
		if c.wait100 == q {
			c.wait100 = nil
			c.send(q, q.sent)
		}
		if !isContainers {
			return // not one of the planned interim responses
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

func (c *client) bodyBytes(q *request, p []byte) {
	if q.gateOutcome != "" || q.badHead != "" || q.probe {
		c.replyBody = append(c.replyBody, p...)
		return
	}
	if q.tainted {
		return
	}
	if q.promised {
		p = c.takeWaiting(q, p, c.link.delivered-len(c.m.buf))
	}
	if p = c.takeEvent(q, p, c.numReceived); len(p) == 0 {
		return
	}
	want := q.response.body
	if c.numReceived+len(p) > len(want) || !bytes.Equal(p, want[c.numReceived:c.numReceived+len(p)]) {
		c.found("request %d: the response body differs from the container's at %d: %s", q.id, c.numReceived, printable(p))
		return
	}
	c.numReceived += len(p)
}

// endResponse handles the end of a response.
func (c *client) endResponse(q *request) {
	if c.tracing {
		c.note("client %s: the response to request %d is complete", c.link, q.id)
	}
	q.doneAt = c.now
	byContainer := c.judgeWaited(q, true)
	if !byContainer || q.gateOutcome != "" || q.badHead != "" || q.probe {
		if q.clientOutcome = rejectedByGate; byContainer {
			c.judgeBody(q, c.replyBody)
		}
	} else {
		q.clientOutcome = complete
		c.judgeWhole(q)
	}
	c.pipeline = c.pipeline[1:]
	if len(c.pipeline) > 0 {
		c.expect(c.pipeline[0])
	} else {
		c.m.reset()
		c.finalHead, c.got = false, 0
	}
	if q.disconnectAfter >= 0 && !c.disconnected && q.disconnectAfter <= c.got {
		q.disconnectAfter = -1
	}
	if c.closing {
		if c.sending == q {
			c.sending = nil // the gate discards the rest of the upload
			if c.rng.IntN(4) == 0 {
				c.link.sendUp(q.raw[q.sent:min(len(q.raw), q.sent+3000)])
			}
		}
		return // the gate closes the connection
	}
	if c.sending == nil || c.sending == q {
		if c.sending == q {
			// The final response arrived instead of 100. The client closes instead of
			// sending the body.
			c.disconnected = true
			c.link.closeByPeer()
			c.reconnect()
			return
		}
		if len(c.pipeline) == 0 {
			c.next()
		}
	}
}

// peerClosed implements peer: the gate has closed or half-closed.
func (c *client) peerClosed() {
	c.note("client %s: the gate closes", c.link)
	if c.disconnected && !c.halfClosed {
		return
	}
	if len(c.pipeline) > 0 && c.finalHead {
		switch q := c.pipeline[0]; {
		case q.clientOutcome == tunnelled:
			c.tunnelOver(q)
		case c.m.mode == untilClose:
			c.endResponse(q)
		}
	}
	c.connectionLost(false)
	c.disconnected = true
	c.link.closeByPeer()
	c.reconnect()
}

// cut implements peer.
func (c *client) cut() {
	c.note("client %s: is reset", c.link)
	if c.disconnected && !c.halfClosed {
		return
	}
	if len(c.pipeline) > 0 && c.finalHead && c.pipeline[0].clientOutcome == tunnelled {
		c.tunnelOver(c.pipeline[0])
	}
	c.connectionLost(true)
	c.disconnected = true
	c.reconnect()
}

// connectionLost handles the end of the client's connection. It sets the outcomes of the
// requests that were still open, and reports a fault unless some event of the run explains
// why they got no complete response.
func (c *client) connectionLost(reset bool) {
	for i, q := range c.pipeline {
		if q.clientOutcome != open {
			continue
		}
		switch {
		case i == 0 && c.finalHead:
			q.clientOutcome = cutOff
			c.judgeCut(q)
		case i == 0 && !c.closing:
			q.clientOutcome = dropped
			c.judgeDropped(q, reset)
		default:
			q.clientOutcome = unread // an earlier request has ended the connection
			if !c.closing && i > 0 && c.pipeline[0].clientOutcome == complete {
				c.found("request %d: closed after a response that did not announce it", q.id)
			}
		}
	}
	c.pipeline = nil
	if c.sending != nil {
		c.sending = nil
	}
}

func (c *client) switched(q *request) {
	if !q.response.switches || q.response.garbage {
		c.found("request %d: 101, which the container did not send", q.id)
	}
	q.clientOutcome = tunnelled
	n := int(c.spread(1, 2000))
	q.tunnel = bodyOf(q.id, 0, n)
	c.m.mode = untilClose
	c.link.sendUp(q.tunnel)
	l := c.link
	c.schedule(c.spread(1, 1000)*millisecond, func() {
		if c.link == l && !c.disconnected {
			c.link.halfClose()
		}
	})
}

func (c *client) tunnelBytes(q *request) bool {
	b := c.m.buf
	c.m.buf = c.m.buf[:0]
	if c.numReceived+len(b) > len(q.tunnel) || !bytes.Equal(b, q.tunnel[c.numReceived:c.numReceived+len(b)]) {
		c.found("request %d: wrong tunnel bytes at the client: %s", q.id, printable(b))
		return false
	}
	c.numReceived += len(b)
	return true
}

func (c *client) tunnelOver(q *request) {
	q.doneAt = c.now
	c.pipeline = c.pipeline[1:]
}
