package simulate

import (
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// verdict is what has become of a request at its client.
type verdict uint8

const (
	open          verdict = iota
	answered              // the container's answer, whole
	refusedByGate         // an answer of the gate's own
	cutOff                // broken in the middle, visibly
	dropped               // the connection ended without a byte of an answer
	unread                // sent behind an answer that ended the connection
	gone                  // the client has left
	tunnelled
)

// ledger is what is known of a request.
type ledger struct {
	sentAt    int64
	from      string // the client's address
	via       *link  // over HTTP/1
	sentWhole int64
	endSent   bool // over HTTP/2: END_STREAM was sent before the client reset the stream
	sent      int  // bytes
	leftAt    int64
	leftReset bool
	leftOn    *link
	ahead     bool // sent before the answer to the last one
	verdict   verdict
	status    int
	gateSaid  string
	headCame  int64
	doneAt    int64
	interims  int
	tunnel    []byte
	tainted   bool

	at         int // among those that are under way
	begun      int
	begunAt    int64
	order      int // of arrival
	endings    int
	endedAt    int64
	outcome    gate.Outcome
	admittedAt time.Duration

	wentOut      int // tries of which bytes have left the gate
	heads        int
	headAt       int64
	on           *upPeer
	executed     int
	wholeAt      int64
	answerAt     int64
	interimsSent int
	said         int
	startedAt    int64
	saidAt       int64
	breaks       int // connections that the container ended under it
	brokeAt      int64
	brokeHard    bool
	staleBreak   bool
	unheard      bool // and no byte of an answer had come from it
	touched      int  // of those, how often bytes of it had gone out
	tunnelEnded  int
	canceledAt   int64 // its RST_STREAM was sent
	refusals     int   // the container has said that it has not processed it
}

// Begin is gate.Observer.
func (r *run) Begin(x *gate.Record) {
	q := r.requestOf(" " + string(x.Target) + " ")
	if q == nil || q.odd != "" || q.probe {
		r.found("the gate counts a request that is none: %s", x.Target)
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
	q.at = len(r.underWay)
	r.underWay = append(r.underWay, q)
	r.mix(20, uint64(q.id))
}

// End is gate.Observer.
func (r *run) End(x *gate.Record) {
	q, _ := x.Context.(*request)
	if q == nil {
		return
	}
	if q.endings++; q.endings == 1 {
		last := r.underWay[len(r.underWay)-1]
		r.underWay[q.at], last.at = last, q.at
		r.underWay = r.underWay[:len(r.underWay)-1]
	}
	r.activeAt = r.now
	q.endedAt, q.outcome, q.admittedAt = r.now, x.Outcome, x.Admitted
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
}

// Rejected is gate.Observer.
func (r *run) Rejected(gate.Outcome) { r.rejected++ }

// Probed is gate.Observer.
func (r *run) Probed(*gate.Record) { r.probed++ }

// slack is how late what happens may be noticed: each way once, and loops that
// are held up.
func (r *run) slack() int64 { return 4*r.kernel.settings.delay + 4*r.kernel.held + 2*millisecond }

// judgeEnd looks whether an outcome has its reason.
func (r *run) judgeEnd(q *request, x *gate.Record) {
	g := q.rules
	age := r.now - q.begunAt
	a := &q.answer
	why := func(ok bool, text string) {
		if !ok {
			r.found("request %d: %s after %v, but %s", q.id, x.Outcome, time.Duration(age), text)
		}
	}
	answerThere := q.saidAt != 0 && q.on != nil && q.on.link.upReached() && q.on.link.reachedBefore(r.now-r.slack()) &&
		a.whole(q, q.said, a.hard)
	switch x.Outcome {
	case gate.Served:
		why(!q.declined2xx(), "it says to the client that the tunnel is open")
		why(q.heads > 0 && q.said >= a.head || q.tainted || r.unasked > 0, "the container has not answered")
	case gate.Tunnelled:
		why(a.switches, "no protocol was switched")
	case gate.QueueFull:
		if r.gate.Admission.Limit() > 0 {
			why(r.judgeQueueFull(q), "there is a slot or a place")
		} else {
			why(r.gate.Connects.Len() >= g.QueueCapacity || r.live.at >= q.begunAt, "there is a place") // or a queue had none, before the limit was removed
		}
		why(q.heads == 0 || q.staleBreak || r.h2.speaks == upstream.Auto && q.breaks > 0, "the container has it")
	case gate.QueueWaitExpired:
		why(g.QueueMaxWait > 0 && age >= int64(g.QueueMaxWait), "it may wait longer")
		why(q.heads == 0, "the container has it")
	case gate.RequestTimeout:
		limit := int64(g.RequestTimeout)
		if x.Status == 101 {
			why(g.TunnelMax > 0, "tunnels may last")
			limit = int64(g.TunnelMax)
		}
		why(age >= limit, "its time is not over")
		why(a.switches || !answerThere || q.leftAt > 0 || x.Status == a.status && q.client.link.takes(r.slack()) || q.client.slowUntil > q.begunAt || q.sentWhole == 0 || q.sentWhole > r.now-r.slack() || !q.client.link.taken(), "the answer had come")
	case gate.ResponseStartTimeout:
		why(g.ResponseStartTimeout > 0 && age >= int64(g.ResponseStartTimeout), "its time is not over")
		why(q.startedAt == 0 || q.plain != nil || q.breaks > 0 || q.startedAt+r.trickle(q) > q.begunAt+int64(g.ResponseStartTimeout), "the answer had begun")
	case gate.IdleTimeout:
		why(g.IdleTimeout > 0 && age >= int64(g.IdleTimeout), "its time is not over")
		if q.on != nil && q.on.request == q && !q.on.two && !q.tainted {
			l := q.on.link
			why(l.unread() > 0 || r.now-l.reachedAt >= int64(g.IdleTimeout)-r.kernel.held, "bytes have come from the container")
		}
	case gate.ClientGone:
		why(q.client.link == nil || q.tainted || q.on2 != nil && q.on2.ended || q.leftAt > 0 || q.via != nil && q.via.left || q.client.went || r.ending && (a.switches || r.leftAt == 0 || q.begunAt >= r.leftAt), "the client is there")
	case gate.UpstreamNotListening:
		wait := min(int64(g.UpstreamWait), int64(g.UpstreamRestartWait))
		why(age >= wait, "it may wait longer")
		noDescriptor := !r.plenty && r.gate.Descriptors.Free() == 0 // for another attempt
		why(!r.container.listening || r.container.listensAt > r.now-r.slack()-30*millisecond || noDescriptor, "the container listens")
	case gate.UpstreamClosed, gate.UpstreamReset:
		why(q.breaks > 0 || r.unasked > 0 || q.refusals > 0 || r.container.away > 0 || r.container.fresh > 0 || r.container.vague > 0, "the container has not ended the connection")
		why(!(q.unheard && q.plain == nil && !(q.over2 && q.upgrade) && q.breaks == 1 && q.coding == without && q.method != "POST" && q.method != "PATCH" && r.container.fresh == 0 && r.container.vague == 0), "it could be sent again")
		why(r.mayHaveLeft(q) || q.coding != without && !q.over2 || len(q.body) > 500 || r.container.fresh > 0, "no byte of it had left")
		why(q.said < a.head || a.garbage || a.cutAt >= 0 && a.cutAt < a.head || a.hard || q.brokeHard || q.breaks > 0 && q.on != nil && !q.on.link.upReached() || q.tainted, "the container has answered")
	case gate.UpstreamMalformed:
		why(a.garbage || a.switches || q.tainted || r.unasked > 0 || q.declined2xx() || q.plain != nil && a.wrong, "the container's answer is well-formed")
	case gate.UpstreamBrokeOff:
		why(q.breaks > 0 || a.wrong || q.tainted, "the container has not broken off")
		why(!a.whole(q, q.said, a.hard) || q.breaks > 0, "the answer is whole")
	case gate.DeadlineExceeded: // judgeDeadline
	case gate.HeadTooLarge:
		why(r.h2.upList > 0 && q.pads(), "its head is short")
		why(q.heads == 0 || q.breaks > 0 || q.refusals > 0, "the container has it")
	case gate.BadRequest:
		why(false, "the request is well-formed")
	default:
		why(false, "that cannot be")
	}
}

// declined2xx reports whether an HTTP/1 container declines an extended CONNECT with
// a 2xx. The client must not get it, because it would mean that the tunnel is open.
func (q *request) declined2xx() bool {
	return q.over2 && q.upgrade && !q.answer.switches && q.answer.status/100 == 2
}

// trickle is how long bytes may take that are cut into segments.
func (r *run) trickle(q *request) int64 {
	return r.slack() + int64(len(q.answer.wire)+1)*(r.kernel.settings.delay+10*microsecond)
}

// judgeReply looks at a head of the gate's own.
func (c *client) judgeReply(q *request, outcome string, status int) {
	if outcome == "head-timeout" {
		if q.sent >= q.head && q.sentAt > c.now-int64(c.settings.headTimeout) {
			c.found("request %d: head-timeout, sent in time", q.id)
		}
		return
	}
	if q.odd != "" {
		if strconv.Itoa(status) != q.odd {
			c.found("request %d: %d for a head that is %s", q.id, status, q.odd)
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
		c.found("request %d: answered with %s, but it has ended with %s", q.id, outcome, q.outcome)
	}
	c.judgeStatus(q, status)
}

// judgeBody looks at the body of a reply of the gate's own.
func (c *client) judgeBody(q *request, body []byte) {
	if q.odd != "" || q.probe || q.method == "HEAD" || q.begun == 0 {
		return
	}
	r := gate.ReplyTo(q.outcome)
	if string(r.AppendBody(nil)) != string(body) {
		c.found("request %d: %s with the body %q", q.id, q.outcome, body)
	}
}

// judgeWhole looks whether an answer that looks whole is whole.
func (c *client) judgeWhole(q *request) {
	a := &q.answer
	if q.tainted {
		return
	}
	if !a.whole(q, q.said, a.hard) {
		if !(a.mode == untilClose && q.breaks > 0 && !q.brokeHard) {
			c.found("request %d: an answer that looks whole and is not: %d of %d bytes", q.id, q.said, a.full)
		}
	}
	if !a.bodyless(q) && a.mode != untilClose && c.taken != len(a.body) {
		c.found("request %d: the body ends at %d of %d", q.id, c.taken, len(a.body))
	}
	if a.mode == untilClose && !a.bodyless(q) && a.cutAt < 0 && q.breaks <= 1 && c.taken != len(a.body) && q.saidAt != 0 {
		c.found("request %d: the body ends at %d of %d", q.id, c.taken, len(a.body))
	}
	if q.interims < len(a.interims) && q.minor > 0 {
		for _, code := range a.interims[q.interims:] {
			if code != 100 {
				c.found("request %d: interim answers %v, %d came", q.id, a.interims, q.interims)
			}
		}
	}
	if _, n := get(c.m.trailers, "X-Sim-Trailer"); a.trail && !a.bodyless(q) && q.minor > 0 && n != 1 {
		c.found("request %d: the trailer is missing", q.id)
	}
	if q.begun != 1 {
		c.found("request %d: answered, counted %d times", q.id, q.begun)
	}
}

// judgeCut looks whether an answer that was cut may be.
func (c *client) judgeCut(q *request) {
	a := &q.answer
	switch {
	case len(c.asked) > 1 && c.asked[1].sent > 0: // as in judgeDropped
	case c.lingeredFor(q):
	case q.tainted, q.leftAt > 0 && !c.settings.gate.AnswerHalfClosed:
	case q.gateSaid != "" || q.odd != "" || q.probe:
		reclaimed := c.settings.descriptors > 0 // a lingering connection is closed for a new one
		if !c.ending && q.sentWhole != 0 && c.slowUntil == 0 && !reclaimed {
			c.found("request %d: a reply of the gate's own is cut", q.id)
		}
	case q.endings == 0 && !c.ending:
		c.found("request %d: cut, and has not ended", q.id)
	case q.outcome == gate.Served && !c.ending && q.sent == len(q.raw) && !(c.m.mode == untilClose):
		c.found("request %d: cut, and has ended as served", q.id)
	case q.outcome == gate.UpstreamBrokeOff && a.whole(q, q.said, a.hard) && q.breaks == 0:
		c.found("request %d: cut, and the container's answer was whole", q.id)
	}
}

// judgeDropped looks whether a connection may end without an answer.
func (c *client) judgeDropped(q *request, reset bool) {
	switch {
	case q.leftAt > 0, q.tainted:
	case c.mayClose() && !c.isPromptFirst(q), c.settings.descriptors > 0:
	case q.sent == 0 || q.sentAt == 0:
	case c.ending && c.link.abandonable() && q.endings > 0:
	case reset && c.lingeredFor(q): // it went on sending for longer than the gate reads what comes behind a reply
	case reset && len(c.asked) > 1 && c.asked[1].sent > 0: // RST for what came behind has overtaken it
	case len(c.m.buf) > 0 && c.slowUntil > 0 && (q.begun == 0 || q.endedAt > 0 && q.outcome != gate.Served && c.link.closedAt-q.endedAt >= 5*second-c.kernel.held): // a reply of the gate's own that the client took too long to read
	case len(c.m.buf) > 0 && q.said >= q.answer.head && q.outcome != gate.Served && q.endings > 0: // cut in its head
	case reset && q.said >= q.answer.head && q.outcome != gate.Served: // what has gone out is lost with the rest
	default:
		c.found("request %d: dropped without an answer (%s, reset %v)", q.id, q.outcome, reset)
	}
}

// lingeredFor reports whether a client was still sending q when the gate, which
// waits for 2 s, had done with what comes behind its reply.
func (c *client) lingeredFor(q *request) bool {
	return q.sent > 0 && c.link.closedAt > 0 && (q.endedAt > 0 && c.link.closedAt-q.endedAt >= 2*second-c.kernel.held || q.begun == 0 && q.stall >= 2*second)
}

// isPromptFirst reports whether q is the first request of its connection and its
// head arrives soon after the connection was opened. A shutdown still serves such
// a request.
func (c *client) isPromptFirst(q *request) bool {
	return q == c.first && q.sentAt-c.link.connectedAt+c.slack() < 100*millisecond && c.headTime(q) < second && (q.stallAt == 0 || q.stallAt >= q.head)
}

// headTime is how long the head of q may take to come.
func (c *client) headTime(q *request) (took int64) {
	if q.piece > 0 {
		took = int64(q.head/q.piece+1) * (q.gap + 1)
	}
	return took + c.slack() + int64(q.head)*(c.kernel.settings.delay+10*microsecond)
}

// mayClose reports whether the gate may have closed its listeners and idle
// connections.
func (r *run) mayClose() bool { return r.ending }

// look looks at what holds at any moment; calm says that nothing is on its way
// and nothing happens soon.
func (r *run) look(calm bool) {
	g := &r.settings.gate
	if r.live.rules.Overload.AutoLimit != nil {
		r.lookLimit()
	} else {
		r.lookBounds()
	}
	if held := r.gate.Connects.Len(); held > 0 && r.plenty && r.container.listening && r.now-r.container.listensAt > 15*millisecond+r.slack() {
		r.found("%d requests are held, and the container has listened for %v", held, time.Duration(r.now-r.container.listensAt))
	}
	if !calm {
		return
	}
	for _, q := range r.underWay {
		r.lookStalled(q)
		age := r.now - q.begunAt
		if q.verdict != tunnelled && q.answer.switches == false && age > int64(q.rules.RequestTimeout)+r.slack()+r.trickle(q) {
			r.suspects = append(r.suspects, q)
		}
		// The bytes before the end may take several reads, and the loop may be held up
		// before each of them.
		if q.leftAt > 0 && q.verdict != tunnelled && !q.answer.switches && q.leftOn.goneAt > 0 && r.now-max(q.leftOn.goneAt, q.leftOn.acceptedAt) > 10*millisecond+4*r.kernel.held && !g.HardConcurrency && (q.leftReset || !g.AnswerHalfClosed) {
			r.found("request %d: its client left %v ago", q.id, time.Duration(r.now-q.leftAt))
		}
		if q.saidAt != 0 && q.answer.whole(q, q.said, q.answer.hard) && q.sentWhole != 0 && q.leftAt == 0 && q.on.link.file != nil && !q.answer.switches {
			l := q.client.link
			if l.file != nil && !l.paused && len(q.client.asked) > 0 && q.client.asked[0] == q && l.downReached() && q.on.link.upReached() && l.upReached() && q.on.link.downReached() &&
				r.now-max(q.saidAt, q.sentWhole, q.client.slowUntil) > r.slack()+r.trickle(q)+int64(len(q.raw))*(r.kernel.settings.delay+10*microsecond) {
				r.found("request %d: answered %v ago, and the client does not have it", q.id, time.Duration(r.now-q.saidAt))
			}
		}
	}
	if len(r.suspects) > 0 {
		first := r.suspects[0]
		for _, q := range r.suspects {
			if q.id < first.id {
				first = q
			}
		}
		r.found("request %d: under way for %v, the limit is %v", first.id, time.Duration(r.now-first.begunAt), first.rules.RequestTimeout)
	}
	if len(r.underWay) == 0 {
		for _, l := range r.kernel.live {
			if l.kind == "up" && l.goneAt > 0 && l.unread() == 0 && r.now-l.goneAt > 10*millisecond+r.kernel.held {
				r.found("%s: the container closed it %v ago, and the gate keeps it", l, time.Duration(r.now-l.goneAt))
			}
		}
	}
	r.lookH2()
	r.lookDeadlines()
}

// judgeQuiet looks whether the quiet period of a drain was quiet.
func (r *run) judgeQuiet() {
	if r.quietAt != 0 || !r.ending {
		return
	}
	r.quietAt = r.now
	if quiet := r.now - max(r.drainedAt, r.activeAt); quiet < int64(r.settings.gate.DrainQuiet)-millisecond {
		r.found("the drain goes on after %v, its quiet period is %v", time.Duration(quiet), r.settings.gate.DrainQuiet)
	}
}

// judgeRest looks at what is left when everything has ended.
func (r *run) judgeRest() {
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
	if r.gate.Heads.Used() != 0 || r.gate.Bodies.Used() != 0 {
		r.found("%d bytes of heads and %d of bodies are left", r.gate.Heads.Used(), r.gate.Bodies.Used())
	}
	if d := r.gate.Descriptors; d.Free() > r.freeAtStart || d.Free() < r.freeAtStart-r.closedLate {
		r.found("%d descriptors of the budget are left, %d at the start", d.Free(), r.freeAtStart)
	}
	if n := r.gate.Connects.Len(); n != 0 {
		r.found("%d requests are held", n)
	}
	if n := r.gate.Drain.Requests() + r.gate.Drain.Tunnels(); n != 0 {
		r.found("%d requests and tunnels are left", n)
	}
	for _, q := range r.requests {
		if q.begun != q.endings {
			r.found("request %d: counted %d times, ended %d times", q.id, q.begun, q.endings)
		}
		if q.verdict == open && q.sentAt != 0 && !r.cutShort {
			r.found("request %d: neither answered nor cut", q.id)
		}
	}
	for _, c := range r.clients {
		if !c.over && !r.cutShort && c.link != nil && !c.link.dead && !c.went {
			r.found("client %d: has not come to an end", c.id)
		}
	}
	switch {
	case r.live.reordered: // requests queued before a change of order are served first
	case r.fair():
		r.judgeFairness()
	default:
		r.judgeOrder()
	}
}

// judgeOrder looks whether those that came first were admitted first. A loop
// that is held up learns later of a slot that it has.
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
		if latest != nil && latest.admittedAt > q.admittedAt+time.Duration(r.kernel.held) {
			r.found("request %d: admitted at %v, and %d, which came before, at %v", q.id, q.admittedAt, latest.id, latest.admittedAt)
			return
		}
		if latest == nil || q.admittedAt > latest.admittedAt {
			latest = q
		}
	}
}
