package simulate

import (
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// clientOutcome tells how a request ended from the point of view of its client.
type clientOutcome uint8

const (
	open                 clientOutcome = iota // not ended yet
	complete                                  // the container's complete response
	rejectedByGate                            // local reply
	cutOff                                    // visibly truncated
	dropped                                   // the connection ended without a response byte
	unread                                    // not processed, because the connection closed
	disconnectedByClient                      // the client disconnected
	tunnelled
)

// ledger records the progress of a request at the client, the gate and the container.
type ledger struct {
	sentAt              int64
	clientAddress       string // address of the client
	via                 *link  // link of the client over HTTP/1
	sentWhole           int64
	endSent             bool // END_STREAM was sent before RST_STREAM
	sent                int  // bytes
	disconnectedAt      int64
	disconnectedByReset bool
	disconnectedLink    *link
	ahead               bool // sent before the previous response was complete
	clientOutcome       clientOutcome
	status              int
	gateOutcome         string
	headReceivedAt      int64
	doneAt              int64
	interims            int
	tunnel              []byte
	tainted             bool

	index      int // index in run.underWay
	begun      int
	begunAt    int64
	order      int // order of arrival
	endings    int
	endedAt    int64
	outcome    gate.Outcome
	admittedAt time.Duration

	attemptsSent    int // attempts of which the gate has sent at least a byte
	heads           int
	headAt          int64
	upstream        *upPeer
	executed        int
	wholeAt         int64
	responseAt      int64
	interimsSent    int
	responseSent    int
	startedAt       int64
	responseSentAt  int64
	breaks          int // connections with the request that the container ended
	brokeAt         int64
	brokeHard       bool
	staleBreak      bool
	brokeUnanswered bool // the container had sent no response byte on the broken connection
	breaksAfterSend int  // broken attempts of which the gate had sent bytes
	tunnelEnded     int
	canceledAt      int64 // time of the client's RST_STREAM
	numUnprocessed  int   // responses that report the request as unprocessed
}

// Begin implements gate.Observer.
func (r *run) Begin(x *gate.Record) {
	q := r.requestOf(" " + string(x.Target) + " ")
	if q == nil || q.badHead != "" || q.probe {
		r.found("the gate counts a request that no client sent: %s", x.Target)
		return
	}
	q.begun++
	q.begunAt, r.activeAt = r.now, r.now
	q.rules = r.live.rules
	q.record = x
	r.noteFull()
	r.exchanges++
	if q.over2 {
		r.exchanges2++
	}
	q.order = r.exchanges
	if q.begun > 1 {
		r.found("request %d: counted twice", q.id)
	}
	x.Context = q
	q.index = len(r.underWay)
	r.underWay = append(r.underWay, q)
	r.mix(20, uint64(q.id))
}

// End implements gate.Observer.
func (r *run) End(x *gate.Record) {
	q, _ := x.Context.(*request)
	if q == nil {
		return
	}
	if q.endings++; q.endings == 1 {
		last := r.underWay[len(r.underWay)-1]
		r.underWay[q.index], last.index = last, q.index
		r.underWay = r.underWay[:len(r.underWay)-1]
	}
	r.activeAt = r.now
	q.endedAt, q.outcome, q.admittedAt = r.now, x.Outcome, x.Admitted
	q.respondedAt, q.recorded = int64(x.Responded), x.Status
	r.mix(21, uint64(q.id), uint64(x.Outcome))
	if r.tracing {
		r.note("gate   request %d ends: %s, status %d", q.id, x.Outcome, x.Status)
	}
	if q.endings > 1 {
		r.found("request %d: ends twice", q.id)
	}
	r.outcomes[x.Outcome]++
	r.judgeEnd(q, x)
	r.judgeDeadline(q, x)
	r.judgePageTime(q, x)
}

// Rejected implements gate.Observer.
func (r *run) Rejected(gate.Outcome) { r.rejected++ }

// Probed implements gate.Observer.
func (r *run) Probed(*gate.Record) { r.probed++ }

// slack bounds the time until the gate notices an event.
func (r *run) slack() int64 { return 4*r.kernel.settings.delay + 4*r.kernel.maxDelay + 2*millisecond }

// judgeEnd checks that events of the run explain the outcome.
func (r *run) judgeEnd(q *request, x *gate.Record) {
	g := q.rules
	age := r.now - q.begunAt
	a := &q.response
	require := func(ok bool, text string) {
		if !ok {
			r.found("request %d: %s after %v, but %s", q.id, x.Outcome, time.Duration(age), text)
		}
	}
	responseThere := q.responseSentAt != 0 && q.upstream != nil && q.upstream.link.upReached() && q.upstream.link.reachedBefore(r.now-r.slack()) &&
		a.isComplete(q, q.responseSent, a.hard)
	switch x.Outcome {
	case gate.Served:
		require(!q.declined2xx(), "it tells the client that the tunnel is open")
		require(q.heads > 0 && q.responseSent >= a.head || q.tainted || r.unsolicited > 0, "the container has not responded")
	case gate.Tunnelled:
		require(a.switches, "no protocol was switched")
	case gate.QueueFull:
		if r.gate.Admission.Limit() > 0 {
			require(r.judgeQueueFull(q), "a slot or a queue position is free")
		} else {
			require(r.gate.Connects.Len() >= g.QueueCapacity || r.live.changedAt >= q.begunAt || r.metered() && r.judgeQueueFull(q), "the queue has room") // the capacity may have been 0 before
		}
		require(q.heads == 0 || q.staleBreak || r.h2.speaks == upstream.Auto && q.breaks > 0, "the container has received it")
	case gate.QueueWaitExpired:
		require(g.QueueMaxWait > 0 && age >= int64(g.QueueMaxWait), "the maximum wait has not expired")
		require(q.heads == 0, "the container has received it")
	case gate.RequestTimeout:
		limit := int64(g.RequestTimeout)
		if x.Status == 101 {
			require(g.TunnelMax > 0, "tunnels may last")
			limit = int64(g.TunnelMax)
		}
		require(age >= limit, "the timeout has not expired")
		require(a.switches || !responseThere || q.disconnectedAt > 0 || x.Status == a.status && q.client.link.receives(r.slack()) || q.client.slowUntil > q.begunAt || q.sentWhole == 0 || q.sentWhole > r.now-r.slack() || !q.client.link.isAllRead(), "the gate had received the response")
	case gate.ResponseStartTimeout:
		require(g.ResponseStartTimeout > 0 && age >= int64(g.ResponseStartTimeout), "the timeout has not expired")
		require(q.startedAt == 0 || q.plain != nil || q.breaks > 0 || q.startedAt+r.trickle(q) > q.begunAt+int64(g.ResponseStartTimeout), "the response had begun")
	case gate.IdleTimeout:
		require(g.IdleTimeout > 0 && age >= int64(g.IdleTimeout), "the timeout has not expired")
		if q.upstream != nil && q.upstream.request == q && !q.upstream.overH2 && !q.tainted {
			l := q.upstream.link
			require(l.unread() > 0 || r.now-l.reachedAt >= int64(g.IdleTimeout)-r.kernel.maxDelay, "the container has sent bytes")
		}
	case gate.ClientGone:
		require(q.client.link == nil || q.tainted || q.on2 != nil && q.on2.endReceived || q.disconnectedAt > 0 || q.via != nil && q.via.closedByPeer || q.client.disconnected || r.closeAllowed && (a.switches || r.drainDoneAt == 0 || q.begunAt >= r.drainDoneAt), "the client is connected")
	case gate.UpstreamNotListening:
		wait := min(int64(g.UpstreamWait), int64(g.UpstreamRestartWait))
		require(age >= wait, "the maximum wait has not expired")
		noDescriptor := !r.plenty && r.gate.Descriptors.Free() == 0 // the gate has no descriptor for another attempt
		require(!r.container.listening || r.container.listensAt > r.now-r.slack()-30*millisecond || noDescriptor, "the container listens")
	case gate.UpstreamClosed, gate.UpstreamReset:
		require(q.breaks > 0 || r.unsolicited > 0 || q.numUnprocessed > 0 || r.container.goAways > 0 || r.container.unused > 0 || r.container.vague > 0, "the container has not ended the connection")
		require(!(q.brokeUnanswered && q.plain == nil && !(q.over2 && q.upgrade) && q.breaks == 1 && q.coding == noBody && q.method != "POST" && q.method != "PATCH" && r.container.unused == 0 && r.container.vague == 0), "it could be retried")
		require(r.mayBeSent(q) || q.coding != noBody && !q.over2 || len(q.body) > 500 || r.container.unused > 0, "none of its bytes had been sent")
		require(q.responseSent < a.head || a.garbage || a.cutAt >= 0 && a.cutAt < a.head || a.hard || q.brokeHard || q.breaks > 0 && q.upstream != nil && !q.upstream.link.upReached() || q.tainted, "the container has responded")
	case gate.UpstreamMalformed:
		require(a.garbage || a.switches || q.tainted || r.unsolicited > 0 || q.declined2xx() || q.plain != nil && a.lengthTooLong, "the container's response is well-formed")
	case gate.UpstreamBrokeOff:
		require(q.breaks > 0 || a.lengthTooLong || q.tainted, "the container has not aborted")
		require(!a.isComplete(q, q.responseSent, a.hard) || q.breaks > 0, "the response is complete")
	case gate.DeadlineExceeded: // checked by judgeDeadline
	case gate.Evicted:
		require(r.judgeEvicted(q, x), "no request may have evicted it")
	case gate.NotEventStream:
		require(q.mayPromise() && age >= int64(g.WaitKeepalive), "no event stream was promised")
		require(q.heads > 0 && q.responseSent >= a.head && !a.continues || q.tainted || r.unsolicited > 0, "the container's response can continue the event stream")
	case gate.WaitingPage:
		require(q.mayGetPage() && age >= int64(g.WaitPage), "no page is due")
		require(q.attemptsSent == 0 || q.breaks > 0 || q.numUnprocessed > 0 || r.container.goAways > 0 || r.container.unused > 0 || r.container.vague > 0, "the container has the request")
	case gate.HeadTooLarge:
		require(r.h2.upList > 0 && q.pads(), "its head is short")
		require(q.heads == 0 || q.breaks > 0 || q.numUnprocessed > 0, "the container has received it")
	case gate.BadRequest:
		require(false, "the request is well-formed")
	default:
		require(false, "that outcome is impossible")
	}
}

// declined2xx reports whether an HTTP/1 container declines an extended CONNECT with 2xx,
// which would tell the client that the tunnel is open.
func (q *request) declined2xx() bool {
	return q.over2 && q.upgrade && !q.response.switches && q.response.status/100 == 2
}

// trickle bounds the time until a message in pieces has arrived.
func (r *run) trickle(q *request) int64 {
	return r.slack() + int64(len(q.response.wire)+1)*(r.kernel.settings.delay+10*microsecond)
}

// judgeReply checks the head of a local reply.
func (c *client) judgeReply(q *request, outcome string, status int) {
	if outcome == "head-timeout" {
		if q.sent >= q.head && q.sentAt > c.now-int64(c.settings.headTimeout) {
			c.found("request %d: head-timeout, sent in time", q.id)
		}
		return
	}
	if q.badHead != "" {
		if strconv.Itoa(status) != q.badHead {
			c.found("request %d: %d for a head that is %s", q.id, status, q.badHead)
		}
		return
	}
	if q.probe {
		if outcome != "probed" && !(outcome == "shutting-down" && c.drainedAt > 0) {
			c.found("request %d: a probe is answered with %s", q.id, outcome)
		}
		return
	}
	if outcome == "out-of-memory-budget" {
		return
	}
	if q.endings != 1 || q.outcome.String() != outcome {
		c.found("request %d: the reply says %s, but the outcome is %s", q.id, outcome, q.outcome)
	}
	c.judgeStatus(q, status)
}

// judgeBody checks the body of a local reply.
func (c *client) judgeBody(q *request, body []byte) {
	if q.badHead != "" || q.probe || q.method == "HEAD" || q.begun == 0 {
		return
	}
	if q.outcome == gate.WaitingPage {
		c.judgePage(q, body)
		return
	}
	r := gate.ReplyTo(q.outcome)
	if string(r.AppendBody(nil)) != string(body) {
		c.found("request %d: %s with the body %q", q.id, q.outcome, body)
	}
}

// judgeWhole checks that a response without an error is complete.
func (c *client) judgeWhole(q *request) {
	a := &q.response
	if q.tainted {
		return
	}
	if !a.isComplete(q, q.responseSent, a.hard) {
		if !(a.mode == untilClose && q.breaks > 0 && !q.brokeHard) {
			c.found("request %d: a truncated response looks complete: %d of %d bytes", q.id, q.responseSent, a.full)
		}
	}
	if !a.bodyless(q) && a.mode != untilClose && c.numReceived != len(a.body) {
		c.found("request %d: the response body ends at %d of %d", q.id, c.numReceived, len(a.body))
	}
	if a.mode == untilClose && !a.bodyless(q) && a.cutAt < 0 && q.breaks <= 1 && c.numReceived != len(a.body) && q.responseSentAt != 0 {
		c.found("request %d: the response body ends at %d of %d", q.id, c.numReceived, len(a.body))
	}
	if q.interims < len(a.interims) && q.minor > 0 && !q.promised {
		for _, code := range a.interims[q.interims:] {
			if code != 100 {
				c.found("request %d: interim responses %v, the client received %d", q.id, a.interims, q.interims)
			}
		}
	}
	if _, n := get(c.m.trailers, "X-Sim-Trailer"); a.trail && !a.bodyless(q) && q.minor > 0 && n != 1 {
		c.found("request %d: the response trailer is missing", q.id)
	}
	if q.begun != 1 {
		c.found("request %d: answered, but counted %d times", q.id, q.begun)
	}
}

// judgeCut checks that a fault explains a truncated response.
func (c *client) judgeCut(q *request) {
	a := &q.response
	pipelined := len(c.pipeline) > 1 && c.pipeline[1].sent > 0
	if !pipelined {
		c.judgeWaited(q, false)
	}
	switch {
	case pipelined: // see judgeDropped
	case c.lingeredFor(q):
	case q.tainted, q.disconnectedAt > 0 && !c.settings.gate.AllowHalfClose:
	case q.gateOutcome != "" || q.badHead != "" || q.probe:
		reclaimed := c.settings.descriptors > 0 // a lingering connection may be closed for its descriptor
		if !c.closeAllowed && q.sentWhole != 0 && c.slowUntil == 0 && !reclaimed {
			c.found("request %d: a local reply was cut", q.id)
		}
	case q.endings == 0 && !c.closeAllowed:
		c.found("request %d: cut, but the exchange has not ended", q.id)
	case q.outcome == gate.Served && !c.closeAllowed && q.sent == len(q.raw) && !(c.m.mode == untilClose):
		c.found("request %d: cut, but its outcome is served", q.id)
	case q.outcome == gate.UpstreamBrokeOff && a.isComplete(q, q.responseSent, a.hard) && q.breaks == 0:
		c.found("request %d: cut, although the container's response was complete", q.id)
	}
}

// judgeDropped checks that the gate may end the connection without a response.
func (c *client) judgeDropped(q *request, reset bool) {
	switch {
	case q.disconnectedAt > 0, q.tainted:
	case c.mayClose() && !c.isPromptFirst(q), c.settings.descriptors > 0:
	case q.sent == 0 || q.sentAt == 0:
	case c.closeAllowed && c.link.abandonable() && q.endings > 0:
	case reset && c.lingeredFor(q): // the lingering close ended before the upload
	case reset && len(c.pipeline) > 1 && c.pipeline[1].sent > 0: // the gate had not read the next request, so its close sent RST, which discarded the response
	case (reset || len(c.m.buf) > 0) && q.mayPromise() && q.recorded == 200 && q.respondedAt == 0 && c.mayLackRoom(q): // a promised event stream was cut
	case len(c.m.buf) > 0 && c.slowUntil > 0 && (q.begun == 0 || q.endedAt > 0 && q.outcome != gate.Served && c.link.closedAt-q.endedAt >= 5*second-c.kernel.maxDelay): // the client took too long to read a local reply
	case len(c.m.buf) > 0 && q.responseSent >= q.response.head && q.outcome != gate.Served && q.endings > 0: // truncated in the head
	case reset && q.responseSent >= q.response.head && q.outcome != gate.Served: // RST discarded the response in transit
	default:
		c.found("request %d: dropped without a response (%s, reset %v)", q.id, q.outcome, reset)
	}
}

// lingeredFor reports whether the client still sent q at the end of the lingering close,
// after 2 s.
func (c *client) lingeredFor(q *request) bool {
	return q.sent > 0 && c.link.closedAt > 0 && (q.endedAt > 0 && c.link.closedAt-q.endedAt >= 2*second-c.kernel.maxDelay || q.begun == 0 && q.stall >= 2*second)
}

// isPromptFirst reports whether q is a connection's first request and arrives soon after
// the connect. A shutdown serves such a request.
func (c *client) isPromptFirst(q *request) bool {
	return q == c.first && q.sentAt-c.link.connectedAt+c.slack() < 100*millisecond && c.headTime(q) < second && (q.stallAt == 0 || q.stallAt >= q.head)
}

// headTime bounds the time until the head of q has arrived.
func (c *client) headTime(q *request) (took int64) {
	if q.piece > 0 {
		took = int64(q.head/q.piece+1) * (q.gap + 1)
	}
	return took + c.slack() + int64(q.head)*(c.kernel.settings.delay+10*microsecond)
}

// mayClose reports whether the gate may have closed listeners and idle connections.
func (r *run) mayClose() bool { return r.closeAllowed }

// checkInvariants checks what always holds. calm means that nothing is in transit and
// that the next event is not imminent.
func (r *run) checkInvariants(calm bool) {
	g := &r.settings.gate
	if r.live.rules.Overload.AutoLimit != nil {
		r.checkLimit()
	} else {
		r.checkBounds()
	}
	r.checkUnits()
	r.checkRoom()
	r.judgeStandby()
	if numConnects := r.gate.Connects.Len(); numConnects > 0 && r.plenty && r.container.listening && !r.standby.asleep && r.now-r.container.listensAt > 15*millisecond+r.slack() {
		r.found("%d requests are in the connect queue, although the container has listened for %v", numConnects, time.Duration(r.now-r.container.listensAt))
	}
	if !calm {
		return
	}
	for _, q := range r.underWay {
		r.checkStalled(q)
		age := r.now - q.begunAt
		if q.clientOutcome != tunnelled && q.response.switches == false && age > int64(q.rules.RequestTimeout)+r.slack()+r.trickle(q) {
			r.unresolved = append(r.unresolved, q)
		}
		// The gate may reach the FIN after several reads, each with a delay of the loop.
		if q.disconnectedAt > 0 && q.clientOutcome != tunnelled && !q.response.switches && q.disconnectedLink.peerEndedAt > 0 && r.now-max(q.disconnectedLink.peerEndedAt, q.disconnectedLink.acceptedAt) > 10*millisecond+4*r.kernel.maxDelay && !g.HardConcurrency && (q.disconnectedByReset || !g.AllowHalfClose) {
			r.found("request %d: its client disconnected %v ago", q.id, time.Duration(r.now-q.disconnectedAt))
		}
		if q.responseSentAt != 0 && q.response.isComplete(q, q.responseSent, q.response.hard) && q.sentWhole != 0 && q.disconnectedAt == 0 && q.upstream.link.file != nil && !q.response.switches && !q.upstream.delaysUpload() {
			l := q.client.link
			if l.file != nil && !l.paused && len(q.client.pipeline) > 0 && q.client.pipeline[0] == q && l.downReached() && q.upstream.link.upReached() && l.upReached() && q.upstream.link.downReached() &&
				r.now-max(q.responseSentAt, q.sentWhole, q.client.slowUntil) > r.slack()+r.trickle(q)+int64(len(q.raw))*(r.kernel.settings.delay+10*microsecond) {
				r.found("request %d: the container responded %v ago, but the client has not received the response", q.id, time.Duration(r.now-q.responseSentAt))
			}
		}
	}
	if len(r.unresolved) > 0 {
		first := r.unresolved[0]
		for _, q := range r.unresolved {
			if q.id < first.id {
				first = q
			}
		}
		r.found("request %d: in progress for %v, the limit is %v", first.id, time.Duration(r.now-first.begunAt), first.rules.RequestTimeout)
	}
	if len(r.underWay) == 0 {
		for _, l := range r.kernel.live {
			if l.kind == "up" && l.peerEndedAt > 0 && l.unread() == 0 && r.now-l.peerEndedAt > 10*millisecond+r.kernel.maxDelay {
				r.found("%s: the container closed it %v ago, but the gate has not", l, time.Duration(r.now-l.peerEndedAt))
			}
		}
	}
	r.checkH2()
	r.checkDeadlines()
}

// judgeQuiet checks that no request began or ended in the quiet period of a drain.
func (r *run) judgeQuiet() {
	if r.quietAt != 0 || !r.closeAllowed {
		return
	}
	r.quietAt = r.now
	if quiet := r.now - max(r.drainedAt, r.activeAt); quiet < int64(r.settings.gate.DrainQuiet)-millisecond {
		r.found("the drain ended its quiet period after %v, want %v", time.Duration(quiet), r.settings.gate.DrainQuiet)
	}
}

// judgeLeftovers checks that the end of a run leaves nothing in use.
func (r *run) judgeLeftovers() {
	if n := r.kernel.openFiles(); n > 0 {
		for _, f := range r.kernel.files {
			if f != nil && f.link != nil {
				r.found("%d descriptors are left, of %s", n, f.link)
			}
		}
		r.found("%d descriptors are left", n)
	}
	adm := r.gate.Admission
	if adm.InFlight() != 0 || adm.QueueDepth() != 0 {
		r.found("%d in flight and %d queued are left", adm.InFlight(), adm.QueueDepth())
	}
	if units, _ := adm.Units(); units != 0 {
		r.found("%d units are left", units)
	}
	if r.gate.Heads.Used() != 0 || r.gate.Bodies.Used() != 0 {
		r.found("%d bytes of heads and %d of bodies are left", r.gate.Heads.Used(), r.gate.Bodies.Used())
	}
	if d := r.gate.Descriptors; d.Free() > r.freeAtStart || d.Free() < r.freeAtStart-r.closedLate {
		r.found("%d descriptors of the budget are left, %d at the start", d.Free(), r.freeAtStart)
	}
	if n := r.gate.Connects.Len(); n != 0 {
		r.found("%d requests are left in the connect queue", n)
	}
	if n := r.gate.Drain.Requests() + r.gate.Drain.Tunnels(); n != 0 {
		r.found("%d requests and tunnels are left", n)
	}
	for _, q := range r.requests {
		if q.begun != q.endings {
			r.found("request %d: counted %d times, ended %d times", q.id, q.begun, q.endings)
		}
		if q.clientOutcome == open && q.sentAt != 0 && !r.cutShort {
			r.found("request %d: its client saw neither a response nor an end", q.id)
		}
	}
	for _, c := range r.clients {
		if !c.done && !r.cutShort && c.link != nil && !c.link.closed && !c.disconnected {
			r.found("client %d: has not finished", c.id)
		}
	}
	switch {
	case r.live.reordered: // no check: the order of the queue was changed during the run
	case r.fair():
		r.judgeFairness()
	default:
		r.judgeOrder()
	}
}

// judgeOrder checks admission in order of arrival. A delayed loop records an admission up
// to kernel.maxDelay later.
func (r *run) judgeOrder() {
	inOrder := make([]*request, r.exchanges+1)
	for _, q := range r.requests {
		inOrder[q.order] = q
	}
	latest := (*request)(nil)
	for _, q := range inOrder[1:] {
		if q == nil || q.admittedAt == 0 {
			continue
		}
		if latest != nil && latest.admittedAt > q.admittedAt+time.Duration(r.kernel.maxDelay) {
			r.found("request %d: admitted at %v, but %d, which arrived earlier, at %v", q.id, q.admittedAt, latest.id, latest.admittedAt)
			return
		}
		if latest == nil || q.admittedAt > latest.admittedAt {
			latest = q
		}
	}
}
