package simulate

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// waitRules draws event streams and pages for waiting clients (Config.WaitKeepalive and
// WaitPage), and the requests and responses that they concern.
type waitRules struct {
	*world    // used only for random choices
	enabled   bool
	streams   float64 // share of requests that name event streams in Accept
	pages     float64 // share of the other requests that a browser may send
	lateShare float64 // share of responses that are delayed for some intervals
	closed    float64 // share of HTTP/2 connections to the container whose new streams have no window
}

// waitSeed is the seed of a separate random source. With this value the gate does not
// respond to waiting clients in the runs in testdata/seeds, which still reproduce their
// faults.
const waitSeed = 0x3a2e

// drawWaiting turns event streams, pages or both on in some runs.
func drawWaiting(seed uint64, s *settings, k *kernel, h *h2Settings) *waitRules {
	b := &waitRules{world: &world{rng: rand.New(rand.NewPCG(seed, waitSeed))}}
	if !b.chance(0.12) {
		return b
	}
	b.enabled, k.logging = true, true
	b.streams, b.pages, b.lateShare = pick(b.world, 0.3, 0.9), pick(b.world, 0, 0.5, 0.9), pick(b.world, 0.1, 0.5, 0.9)
	if b.chance(0.4) { // requests with bodies
		s.w.post, s.w.expect = 0.7, pick(b.world, 0, 0.7)
	}
	b.drawSettings(&s.gate)
	if b.chance(0.3) {
		b.delayUploads(s, h)
	}
	return b
}

// delayUploads makes most requests uploads that prefer an event stream, to a container that
// does not open the windows of new streams for some time. The gate then has a complete
// request, but cannot send its body.
func (b *waitRules) delayUploads(s *settings, h *h2Settings) {
	if len(h.windows) == 0 {
		h.windows, h.table = []int{h2Window}, 4096
	}
	h.useUpstreamH2, h.speaks, h.upH2, h.onlyH2 = true, upstream.H2C, true, true
	h.drawContainerOverHTTP2(b.world, s)
	b.closed, b.streams = 0.9, 0.9
	s.w.post, s.w.expect, s.w.chunked, s.w.stall, s.w.disconnect = 0.9, 0.9, 0, 0, 0
	s.gate.WaitKeepalive = max(time.Duration(b.spread(1, 500))*time.Millisecond, s.gate.RequestTimeout/mostComments)
}

// mostComments limits the comments of a request.
const mostComments = 200

func (b *waitRules) drawSettings(g *exchange.Config) {
	g.WaitKeepalive, g.WaitPage = 0, 0
	form := b.rng.IntN(4)
	if form != 0 {
		g.WaitKeepalive = max(time.Duration(b.spread(1, 3000))*time.Millisecond, g.RequestTimeout/mostComments)
	}
	if form < 2 || b.pages > 0 {
		g.WaitPage = time.Duration(b.spread(1, 2000)) * time.Millisecond
	}
}

// accepts are fields of requests. streams tells whether an event stream is preferred to
// all other types, pages whether a browser may show the response as a page.
type accepts struct {
	accept, mode   string
	streams, pages bool
}

var (
	streamAccepts = []accepts{
		{accept: "text/event-stream", streams: true},
		{accept: "text/event-stream", streams: true},
		{accept: "text/event-stream;q=0.001", streams: true},
		{accept: "text/event-stream, */*", streams: true},
		{accept: "text/*, Text/Event-Stream;q=0.5", streams: true},
		{accept: "application/json;q=0.9, text/event-stream", streams: true},
		{accept: "text/event-stream;q=0.5, application/json; q=0.4", streams: true},
		{accept: "text/event-stream, text/html;q=0.9", streams: true, pages: true},
		{accept: "application/json, text/event-stream"},
		{accept: "text/event-stream;q=0.5, application/json"},
		{accept: "text/event-stream;q=0.89, application/json;q=0.9"},
		{accept: "text/event-stream;q=0"},
		{accept: "text/event-stream;q=2"},
		{accept: "text/html, text/event-stream", pages: true},
		{accept: "text/*"},
		{accept: "*/*"},
	}
	pageAccepts = []accepts{
		{accept: "text/html", pages: true},
		{accept: "text/html,application/xhtml+xml,*/*;q=0.8", mode: "navigate", pages: true},
		{accept: "text/html,application/xhtml+xml,*/*;q=0.8", mode: "navigate", pages: true},
		{accept: "application/json, text/html;q=0.1", mode: "Navigate", pages: true},
		{accept: "text/html", mode: "cors"},
		{accept: "text/html;q=0", mode: "navigate"},
		{accept: "*/*", mode: "navigate"},
	}
)

// drawRequest draws fields of q.
func (b *waitRules) drawRequest(q *request) {
	if !b.enabled {
		return
	}
	if b.chance(0.5) {
		q.continueTimeout = b.spread(1, 3000) * millisecond
	}
	switch {
	case b.chance(b.streams):
		q.accepts = pick(b.world, streamAccepts...)
	case b.chance(b.pages):
		q.accepts = pick(b.world, pageAccepts...)
	default:
		return
	}
	q.lines = append(q.lines, [2]string{"Accept", q.accept})
	if q.mode != "" {
		q.lines = append(q.lines, [2]string{"Sec-Fetch-Mode", q.mode})
	}
	if q.acceptsCoding = b.chance(0.3); q.acceptsCoding {
		q.lines = append(q.lines, [2]string{"Accept-Encoding", "gzip, br"})
	}
}

// drawResponse makes some responses event streams, and delays some.
func (b *waitRules) drawResponse(q *request, a *response, g *exchange.Config) {
	if !b.enabled {
		return
	}
	if b.chance(b.lateShare) {
		a.wait += b.randomIn(0, min(5*max(int64(g.WaitKeepalive), int64(g.WaitPage)), 4*second))
	}
	switch {
	case q.streams && b.chance(0.8) || b.chance(0.1):
		a.stream = true
		a.fields = append(a.fields, [2]string{"Content-Type", pick(b.world, "text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream ;charset=utf-8")})
		if b.chance(0.8) {
			a.status = 200
		}
	case b.chance(0.5):
		a.fields = append(a.fields, [2]string{"Content-Type", pick(b.world, "application/json", "text/event-streams", "text/html")})
	}
	a.continues = a.stream && a.status == 200
	if b.chance(0.1) {
		coding := pick(b.world, "gzip", "identity")
		a.fields = append(a.fields, [2]string{"Content-Encoding", coding})
		a.continues = a.continues && coding == "identity"
	}
	if a.stream {
		a.body = b.events(a.body)
	}
}

// events returns a copy of body with empty lines. The body and each line after an empty
// one begin with d, unlike comments and error events.
func (b *waitRules) events(body []byte) []byte {
	body = append([]byte(nil), body...)
	every := 4 + int(b.spread(1, 500))
	for i := 0; i < len(body); i += every {
		if body[i] = 'd'; i >= 2 {
			body[i-1], body[i-2] = '\n', '\n'
		}
	}
	if n := len(body); n > 2 && b.chance(0.5) {
		body[n-1], body[n-2] = '\n', '\n'
	}
	return body
}

// atEvent reports whether the first n bytes of an event stream end with an empty line, so
// that the gate may insert an event.
func (a *response) atEvent(n int) bool {
	return a.stream && (n == 0 || n >= 2 && n <= len(a.body) && string(a.body[n-2:n]) == "\n\n")
}

// mayPromise reports whether the gate may promise an event stream to the client of q.
func (q *request) mayPromise() bool {
	return q.rules != nil && q.rules.WaitKeepalive > 0 && q.streams && (q.method == "GET" || q.method == "POST") && q.isPlain()
}

// mayGetPage reports whether q may get the waiting page.
func (q *request) mayGetPage() bool {
	return q.rules != nil && q.rules.WaitPage > 0 && q.pages && q.method == "GET" && q.isPlain() && !q.mayPromise()
}

// isPlain reports whether q is neither an upgrade nor a gRPC call, a probe or malformed.
func (q *request) isPlain() bool {
	return !q.upgrade && !q.grpc && q.frame[0] == "" && q.badHead == "" && !q.probe
}

// waited is what a client has received of a promised event stream, and of events that the
// gate has inserted into a stream.
type waited struct {
	promised    bool
	streamPart  streamPart
	partial     int     // bytes received of an incomplete event-stream comment
	wrote       written // the gate's write of the last comment, or of the head before the first
	commented   int     // number of bytes of comments
	event       []byte
	requestEnd  int   // position in the client's connection after the request; 0 = unknown
	respondedAt int64 // Record.Responded when the request ended
	recorded    int   // Record.Status when the request ended
}

// streamPart is the part of a promised event stream that a client receives.
type streamPart uint8

const (
	commentPart streamPart = iota
	payloadPart
	eventPart // an event of the gate
)

const (
	simComment = ": queuegate waiting\n\n"
	// simEvicted is the event at the end of an evicted event stream.
	simEvicted = "event: error\ndata: {\"error\":{\"message\":\"evicted by a request of a higher priority\",\"type\":\"overloaded_error\",\"code\":\"evicted\"}}\n\n"
)

// waitError returns the error event that ends the promised stream of q.
func (q *request) waitError() string {
	m := q.outcome.Meaning()
	text := m.Body
	if text == "" {
		text = m.Means
	}
	if q.outcome == gate.NotEventStream {
		text += ": status " + strconv.Itoa(q.response.status)
	}
	return `event: error` + "\n" + `data: {"error":{"message":"` + text + `","type":"queuegate","param":null,"code":"` + q.outcome.String() + `"}}` + "\n\n"
}

// promises reports whether a head promises an event stream to the client of q, and checks
// it. w is the gate's write of the end of the head.
func (c *client) promises(q *request, status int, fields [][2]string, w written) bool {
	kind, _ := get(fields, "Content-Type")
	if !c.wait.enabled || status != 200 || kind != "text/event-stream" || q.promised {
		return false
	}
	q.promised = true
	cache, _ := get(fields, "Cache-Control")
	buffering, _ := get(fields, "X-Accel-Buffering")
	if _, n := get(fields, "Content-Length"); n > 0 || cache != "no-cache" || buffering != "no" {
		c.found("request %d: a promised event stream with the fields %q", q.id, fields)
	}
	switch {
	case !q.mayPromise() || q.begun == 0:
		c.found("request %d: %s with Accept %q was promised an event stream", q.id, q.method, q.accept)
		return true
	case w.time < q.begunAt+int64(q.rules.WaitKeepalive):
		c.found("request %d: an event stream was promised after %v, the interval is %v", q.id, time.Duration(w.time-q.begunAt), q.rules.WaitKeepalive)
	case !q.sentAll() || w.arrived < q.requestEnd:
		c.found("request %d: an event stream was promised before the request was complete", q.id)
	}
	c.judgeSilence(q, w, w.time)
	q.wrote = w
	return true
}

// sentAll reports whether the client has sent the whole request, as far as that is known.
func (q *request) sentAll() bool {
	if q.over2 {
		return q.requestEnd > 0 || q.on2.c.end.piece > 0
	}
	return q.sent == len(q.raw)
}

// takeWaiting checks the comments at the start of p, which continues a promised event
// stream at this position of the client's connection. It returns the rest.
func (c *client) takeWaiting(q *request, p []byte, position int) []byte {
	for len(p) > 0 && q.streamPart == commentPart {
		switch {
		case q.partial > 0:
		case p[0] == ':':
			c.judgeComment(q, c.link.writeOf(position+1))
		case p[0] == 'e':
			q.streamPart = eventPart
			return p
		default:
			q.streamPart = payloadPart
			if !q.response.continues && !q.tainted {
				c.found("request %d: a response that is no event stream continues one: %s", q.id, printable(p))
			}
			return p
		}
		n := min(len(p), len(simComment)-q.partial)
		if string(p[:n]) != simComment[q.partial:q.partial+n] {
			c.found("request %d: a comment continues with %s", q.id, printable(p))
			return nil
		}
		if q.partial += n; q.partial == len(simComment) {
			q.partial = 0
		}
		q.commented += n
		p, position = p[n:], position+n
	}
	return p
}

// takeEvent returns p, unless it belongs to an event of the gate. taken is the length of
// the payload before p.
func (c *client) takeEvent(q *request, p []byte, numReceived int) []byte {
	if len(p) > 0 && p[0] == 'e' && (!q.promised || q.streamPart == payloadPart) && q.response.atEvent(numReceived) {
		q.streamPart = eventPart
	}
	if q.streamPart != eventPart {
		return p
	}
	q.event = append(q.event, p...)
	return nil
}

// judgeComment checks when the gate wrote a comment to an event stream. The first comment
// must follow the head at once. Later comments must be at least WaitKeepalive apart. No
// comment may follow the head of the container's response.
func (c *client) judgeComment(q *request, w written) {
	respondedAt := q.respondedAt
	if q.endings == 0 {
		respondedAt = int64(q.record.Responded)
	}
	gap := time.Duration(w.time - q.wrote.time)
	switch {
	case q.wroteLate(w):
	case respondedAt > 0 && w.time > respondedAt:
		c.found("request %d: a comment %v after the head of the container's response", q.id, time.Duration(w.time-respondedAt))
	case q.commented == 0 && gap > 0:
		c.found("request %d: the first comment follows the head by %v", q.id, gap)
	case q.commented > 0 && gap < q.rules.WaitKeepalive:
		c.found("request %d: a comment after %v, the interval is %v", q.id, gap, q.rules.WaitKeepalive)
	}
	c.judgeSilence(q, w, w.time)
	q.wrote = w
}

// wroteLate reports whether bytes for the client of q may have been written some time
// after they were made, because an earlier write was incomplete.
func (q *request) wroteLate(w written) bool {
	return w.fullAt >= q.begunAt || q.over2 && w.fullAt > 0
}

// judgeSilence checks that the gate was not silent up to the time at. w is its last write
// so far. If the request has a body, it is unknown when the gate has received it, and so
// when the first interval ended.
func (c *client) judgeSilence(q *request, w written, at int64) {
	start := q.begunAt
	if q.promised && q.wrote.time > 0 {
		start = q.wrote.time
	} else if q.coding != noBody {
		return
	}
	if q.wroteLate(w) || q.over2 && !q.on2.takesComments() {
		return
	}
	if silent := time.Duration(at - start); silent > q.rules.WaitKeepalive+time.Duration(c.kernel.maxDelay) {
		c.found("request %d: the gate was silent for %v, the interval is %v", q.id, silent, q.rules.WaitKeepalive)
	}
}

// delaysUpload reports whether the container has not yet opened the window for the request
// body, so that the exchange has not ended although the container has responded.
func (u *upPeer) delaysUpload() bool { return u.overH2 && u.conn.windowless && u.reading }

// takesComments reports whether the flow-control windows of s were certainly large
// enough, at all times, for the comments that the gate sends in an event stream.
func (s *h2Stream) takesComments() bool {
	c := s.c
	return s.id == 1 && c.maxStreams == 1 && c.initialWindow >= h2Window && !c.unchecked && c.end.piece == 0
}

// judgeWaited checks how a response ended. The parameter isComplete is false if the
// connection or stream ended before the response was complete. judgeWaited returns false
// if the client has received an event of the gate instead of the rest of the container's
// response.
func (c *client) judgeWaited(q *request, isComplete bool) bool {
	if !c.wait.enabled || q.tainted || q.begun == 0 || q.endings == 0 {
		return q.streamPart != eventPart
	}
	if isComplete && q.recorded != q.status && !q.grpc && q.clientOutcome != tunnelled {
		c.found("request %d: its client received status %d, the record has %d", q.id, q.status, q.recorded)
	}
	if q.mayPromise() && (isComplete || q.streamPart == payloadPart) && !(q.outcome == gate.Evicted && c.settings.gate.HardConcurrency) {
		end := q.respondedAt
		if end == 0 {
			end = q.endedAt
		}
		c.judgeSilence(q, c.link.lastWrite(), end)
	}
	text, isEvent := string(q.event), q.streamPart == eventPart
	failed := q.promised && q.respondedAt == 0 // the stream must end with an error event
	switch {
	case failed && isComplete && !isEvent:
		c.found("request %d: %s, but the promised event stream ends without an error event", q.id, q.outcome)
	case failed && !isComplete && q.disconnectedAt == 0 && !c.closeAllowed && !c.mayLackRoom(q):
		c.found("request %d: %s, but the promised event stream is cut", q.id, q.outcome)
	case !isEvent:
	case failed && isComplete && text == q.waitError():
	case failed && !isComplete && strings.HasPrefix(q.waitError(), text):
	case q.respondedAt > 0 && !isComplete && q.outcome == gate.Evicted && strings.HasPrefix(simEvicted, text):
	default:
		c.found("request %d: %s, but its event stream ends (whole: %v) with the event %q", q.id, q.outcome, isComplete, text)
	}
	return !isEvent
}

// mayLackRoom reports whether there may have been no room for an error event.
func (c *client) mayLackRoom(q *request) bool {
	return q.wroteLate(c.link.lastWrite()) || c.link.fullAt >= q.begunAt || q.over2 && !q.on2.takesComments()
}

// judgePage checks the waiting page.
func (r *run) judgePage(q *request, body []byte) {
	const refresh = `<meta http-equiv="refresh" content="2">`
	if !strings.HasPrefix(string(body), "<!DOCTYPE html>") || !strings.Contains(string(body), refresh) || !strings.HasSuffix(string(body), "</html>\n") {
		r.found("request %d: the waiting page is %q", q.id, body)
	}
}

// judgePageTime checks that no request was queued beyond the time of its waiting page.
func (r *run) judgePageTime(q *request, x *gate.Record) {
	if !q.mayGetPage() {
		return
	}
	remaining := int64(x.Admitted)
	if remaining == 0 || x.Outcome == gate.UpstreamNotListening && q.attemptsSent == 0 {
		remaining = r.now
	}
	if waits := time.Duration(remaining - q.begunAt); waits > q.rules.WaitPage+time.Duration(r.kernel.maxDelay) {
		r.found("request %d: waited for %v, but its client got no waiting page after %v", q.id, waits, q.rules.WaitPage)
	}
}
