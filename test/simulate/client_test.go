package simulate

import (
	"bytes"
	"strconv"
)

// client sends its requests one after the other, or ahead of the answers, and
// judges what it gets.
type client struct {
	*run
	id        int
	todo      []*request
	link      *link
	asked     []*request // sent, wholly or in part, and not answered
	first     *request   // on the connection
	sending   *request   // is not sent to its end
	m         message
	final     bool   // the head of the final answer has come
	taken     int    // bytes of its body
	reply     []byte // body of an answer of the gate's own
	got       int    // bytes of the answer
	slowUntil int64
	went      bool // has left this connection
	half      bool // has said that it sends no more
	closing   bool // the gate has said that the connection ends
	over      bool
	tries     int
	wait100   *request
}

// start connects, and begins with the first request that is left.
func (c *client) start() {
	if c.over {
		return
	}
	if len(c.todo) == 0 {
		c.over = true
		return
	}
	l := c.newLink("client")
	l.peer = c
	c.link, c.asked, c.sending, c.went, c.half, c.closing, c.final, c.got = l, c.asked[:0], nil, false, false, false, false, 0
	c.m.clear()
	listening, room := c.arrive(c.backlog, l)
	switch {
	case !listening:
		if !c.mayClose() {
			c.found("client %d: connection refused, although the gate is not quiet yet", c.id)
		}
		c.over = true
		return
	case !room:
		if c.tries++; c.tries > 100 {
			c.over = true
			return
		}
		c.after(50*millisecond, c.start)
		return
	}
	c.link.connectedAt, c.first = c.now, c.todo[0]
	c.note("client %s: client %d connects, %d requests left", l, c.id, len(c.todo))
	c.next()
}

func (c *client) connected() {}

// next sends the next request.
func (c *client) next() {
	if c.went || c.sending != nil || c.closing || c.over || c.link.dead {
		return
	}
	if len(c.todo) == 0 {
		if len(c.asked) == 0 {
			c.went, c.over = true, true
			c.link.leave()
		}
		return
	}
	q := c.todo[0]
	c.todo = c.todo[1:]
	c.sending = q
	c.asked = append(c.asked, q)
	l := c.link
	if len(c.asked) == 1 {
		c.expect(q)
	}
	c.after(q.thinks, func() {
		if c.link == l && c.sending == q && !c.went {
			q.sentAt, q.from, q.via = c.now, l.address.Addr().String(), l
			c.send(q, 0)
		}
	})
}

// expect readies for the answer to q.
func (c *client) expect(q *request) {
	c.m.reset()
	c.final, c.taken, c.got = false, 0, 0
	c.reply = c.reply[:0]
}

// send sends q from a byte on.
func (c *client) send(q *request, from int) {
	if c.went || c.sending != q || c.link.dead || c.closing && c.asked[0] != q {
		return
	}
	until := len(q.raw)
	if q.piece > 0 {
		until = min(until, from+q.piece)
	}
	if q.leaveAt > from && q.how != byHalfClose {
		until = min(until, q.leaveAt)
	}
	if q.stallAt > from {
		until = min(until, q.stallAt)
	}
	if q.expect && from < q.head {
		until = min(until, q.head)
	}
	if c.tracing {
		c.note("client %s sends %d: %s", c.link, q.id, printable(q.raw[from:until]))
	}
	c.link.sendUp(q.raw[from:until])
	q.sent = until
	l := c.link
	later := func(delay int64) {
		c.after(delay, func() {
			if c.link == l {
				c.send(q, until)
			}
		})
	}
	switch {
	case q.leaveAt == until && q.how != byHalfClose:
		c.leave(q)
	case until == len(q.raw):
		c.sending = nil
		q.sentWhole = c.now
		if q.leaveAt == until {
			for _, q := range c.asked {
				q.leftAt, q.leftOn = c.now, c.link
			}
			c.went, c.half = true, true
			c.link.finish()
			return
		}
		if len(c.todo) > 0 && (c.todo[0].ahead) && !q.closes {
			c.next()
		}
	case q.expect && until == q.head:
		c.wait100 = q
		c.after(3*second, func() {
			if c.link == l && c.wait100 == q {
				c.wait100 = nil
				c.send(q, until)
			}
		})
	case q.stallAt == until:
		later(q.stall)
	default:
		later(q.gap)
	}
}

// leave ends the connection, with requests under way.
func (c *client) leave(q *request) {
	c.note("client %s leaves request %d", c.link, q.id)
	c.went = true
	how := q.how
	for _, q := range c.asked {
		q.leftAt = c.now
		q.leftReset, q.leftOn = how == byReset, c.link
		q.verdict = gone
	}
	if q.how == byReset {
		c.link.abort()
	} else {
		c.link.leave()
	}
	c.again()
}

// again goes on with a new connection.
func (c *client) again() {
	c.sending, c.wait100 = nil, nil
	c.after(c.between(0, c.settings.think), c.start)
}

// received is peer.
func (c *client) received(b []byte) {
	if c.tracing {
		c.note("client %s gets %s", c.link, printable(b))
	}
	if c.went && !c.half {
		return
	}
	c.m.add(b)
	c.got += len(b)
	if len(c.asked) > 0 {
		q := c.asked[0]
		if q.slowAt >= 0 && c.got >= q.slowAt {
			l := c.link
			q.slowAt = -1
			l.pause()
			c.slowUntil = c.now + q.slow
			c.after(q.slow, l.resume)
		}
	}
	for c.take() {
	}
	if len(c.asked) > 0 {
		if q := c.asked[0]; q.leaveAfter >= 0 && c.got >= max(q.leaveAfter, 1) && !c.went {
			c.leave(q)
		}
	}
}

// take takes what has come as far as it goes, one step.
func (c *client) take() bool {
	if len(c.m.buf) == 0 && !c.final {
		return false
	}
	if len(c.asked) == 0 {
		if len(c.m.buf) > 0 {
			c.found("client %d: %s brings what no request has asked for: %s", c.id, c.link, printable(c.m.buf))
			c.m.clear()
		}
		return false
	}
	q := c.asked[0]
	switch {
	case !c.final:
		complete, err := c.m.head()
		if err != nil {
			c.found("request %d: a malformed answer: %v", q.id, err)
		}
		if !complete || err != nil {
			return false
		}
		c.head(q)
		return true
	case q.verdict == tunnelled:
		if c.tunnelBytes(q) {
			return false
		}
		return false
	}
	done, err := c.m.body(func(p []byte) { c.bodyBytes(q, p) })
	if err != nil {
		c.found("request %d: a malformed body of the answer: %v", q.id, err)
		return false
	}
	if done {
		c.complete(q)
		return true
	}
	return false
}

// head judges a head.
func (c *client) head(q *request) {
	if len(c.m.line) < 12 || c.m.line[:9] != "HTTP/1.1 " {
		c.found("request %d: status line %q", q.id, c.m.line)
		return
	}
	status, _ := strconv.Atoi(c.m.line[9:12])
	own, _ := get(c.m.fields, "X-Sim")
	outcome, byGate := get(c.m.fields, "K-Gate-Outcome")
	if own == "0" && c.unasked > 0 {
		q.tainted = true // no proxy can tell it from the answer
	}
	if q.tainted {
		own = strconv.Itoa(q.id)
	}
	if own == "" && byGate == 0 && status != 100 && q.odd == "" && !q.probe {
		c.found("request %d: an answer without a sender: %q %q", q.id, c.m.line, c.m.fields)
	}
	if own != "" && own != strconv.Itoa(q.id) {
		c.found("request %d: gets the answer of request %s", q.id, own)
	}
	if status < 200 && status != 101 {
		if !q.tainted {
			c.judgeInterim(q, status, own != "")
		}
		c.m.fields = c.m.fields[:0]
		return
	}
	if c.wait100 == q {
		c.wait100 = nil // no longer asked for
	}
	c.final = true
	q.status, q.gateSaid = status, outcome
	q.headCame = c.now
	if status == 101 {
		c.switched(q)
		return
	}
	bodyless := q.method == "HEAD" && q.odd != "405" && outcome != "head-timeout" || status == 204 || status == 304
	if err := c.m.frame(bodyless, true); err != nil {
		c.found("request %d: an answer framed badly: %q", q.id, c.m.fields)
	}
	if c.m.mode == chunked && q.minor == 0 {
		c.found("request %d: chunks for HTTP/1.0", q.id)
	}
	if c.tracing {
		c.note("client %s: request %d is answered with %q", c.link, q.id, c.m.line)
	}
	connection, _ := get(c.m.fields, "Connection")
	keeps := connection != "close" && (q.minor > 0 || connection == "keep-alive") && c.m.mode != untilClose
	if !keeps {
		c.closing = true
	}
	if q.closes && keeps {
		c.found("request %d: asked for Connection: close, and the answer does not say so", q.id)
	}
	if keeps && q.sent < len(q.raw) && c.sending == q && !q.expect {
		// The gate would parse the rest of the body as the next request, or read it
		// for nothing: only a response that ends the connection may arrive early.
		if !(q.expect && q.sent == q.head) {
			c.found("request %d: answered early on a connection that stays open", q.id)
		}
	}
	if byGate > 0 {
		c.judgeReply(q, outcome, status)
		c.judgeRetry(q, c.m.fields)
		return
	}
	if q.odd != "" || q.probe || q.tainted {
		return
	}
	if status != q.answer.status || c.m.line[12:] != " Sim" && q.plain == nil {
		c.found("request %d: status line %q, the container's is %d", q.id, c.m.line, q.answer.status)
	}
}

func (c *client) judgeInterim(q *request, status int, own bool) {
	if q.minor == 0 {
		c.found("request %d: a %d for HTTP/1.0", q.id, status)
	}
	if status == 100 {
		if c.wait100 == q {
			c.wait100 = nil
			c.send(q, q.sent)
		}
		if !own {
			return // the gate's, or the container's to an expectation
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

func (c *client) bodyBytes(q *request, p []byte) {
	if q.gateSaid != "" || q.odd != "" || q.probe {
		c.reply = append(c.reply, p...)
		return
	}
	if q.tainted {
		return
	}
	want := q.answer.body
	if c.taken+len(p) > len(want) || !bytes.Equal(p, want[c.taken:c.taken+len(p)]) {
		c.found("request %d: the body is not the container's, at %d: %s", q.id, c.taken, printable(p))
		return
	}
	c.taken += len(p)
}

// complete is the end of an answer.
func (c *client) complete(q *request) {
	if c.tracing {
		c.note("client %s: request %d is answered whole", c.link, q.id)
	}
	q.doneAt = c.now
	if q.gateSaid != "" || q.odd != "" || q.probe {
		q.verdict = refusedByGate
		c.judgeBody(q, c.reply)
	} else {
		q.verdict = answered
		c.judgeWhole(q)
	}
	c.asked = c.asked[1:]
	if len(c.asked) > 0 {
		c.expect(c.asked[0])
	} else {
		c.m.reset()
		c.final, c.got = false, 0
	}
	if q.leaveAfter >= 0 && !c.went && q.leaveAfter <= c.got {
		q.leaveAfter = -1
	}
	if c.closing {
		if c.sending == q {
			c.sending = nil // there is no use in the rest
			if c.rng.IntN(4) == 0 {
				c.link.sendUp(q.raw[q.sent:min(len(q.raw), q.sent+3000)])
			}
		}
		return // the end of the connection follows
	}
	if c.sending == nil || c.sending == q {
		if c.sending == q {
			// An expectation that was answered at once: the body is not sent,
			// so the connection is of no more use.
			c.went = true
			c.link.leave()
			c.again()
			return
		}
		if len(c.asked) == 0 {
			c.next()
		}
	}
}

// ended is peer: the gate has closed or half-closed.
func (c *client) ended() {
	c.note("client %s: the gate closes", c.link)
	if c.went && !c.half {
		return
	}
	if len(c.asked) > 0 && c.final {
		switch q := c.asked[0]; {
		case q.verdict == tunnelled:
			c.tunnelOver(q)
		case c.m.mode == untilClose:
			c.complete(q)
		}
	}
	c.lost(false)
	c.went = true
	c.link.leave()
	c.again()
}

// cut is peer.
func (c *client) cut() {
	c.note("client %s: is reset", c.link)
	if c.went && !c.half {
		return
	}
	if len(c.asked) > 0 && c.final && c.asked[0].verdict == tunnelled {
		c.tunnelOver(c.asked[0])
	}
	c.lost(true)
	c.went = true
	c.again()
}

// lost judges the requests that a connection takes along.
func (c *client) lost(reset bool) {
	for i, q := range c.asked {
		if q.verdict != open {
			continue
		}
		switch {
		case i == 0 && c.final:
			q.verdict = cutOff
			c.judgeCut(q)
		case i == 0 && !c.closing:
			q.verdict = dropped
			c.judgeDropped(q, reset)
		default:
			q.verdict = unread // behind an answer that ended the connection
			if !c.closing && i > 0 && c.asked[0].verdict == answered {
				c.found("request %d: closed behind an answer that did not say so", q.id)
			}
		}
	}
	c.asked = nil
	if c.sending != nil {
		c.sending = nil
	}
}

// switched begins a tunnel.
func (c *client) switched(q *request) {
	if !q.answer.switches || q.answer.garbage {
		c.found("request %d: 101, which the container has not said", q.id)
	}
	q.verdict = tunnelled
	n := int(c.spread(1, 2000))
	q.tunnel = bodyOf(q.id, 0, n)
	c.m.mode = untilClose
	c.link.sendUp(q.tunnel)
	l := c.link
	c.after(c.spread(1, 1000)*millisecond, func() {
		if c.link == l && !c.went {
			c.link.finish()
		}
	})
}

func (c *client) tunnelBytes(q *request) bool {
	b := c.m.buf
	c.m.buf = c.m.buf[:0]
	if c.taken+len(b) > len(q.tunnel) || !bytes.Equal(b, q.tunnel[c.taken:c.taken+len(b)]) {
		c.found("request %d: the tunnel brings %s", q.id, printable(b))
		return false
	}
	c.taken += len(b)
	return true
}

func (c *client) tunnelOver(q *request) {
	q.doneAt = c.now
	c.asked = c.asked[1:]
}
