package simulate

import (
	"bytes"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// settings are the settings of a run. Each run turns off most disturbances, so that the
// other ones often coincide.
type settings struct {
	gate        exchange.Config
	headTimeout time.Duration
	loops       int
	descriptors int // descriptor budget; 0 = descriptors are not scarce
	clients     int
	requests    int // maximum per client
	think       int64
	bodies      int   // maximum body size
	long        bool  // most responses are long, and aborted in the middle
	gap         int64 // pause between two pieces of a message
	drainAt     int64 // time of SIGTERM; 0 = when all clients are done
	concurrent  int64 // period in which clients arrive

	w weights
}

// weights are probabilities per request or connection.
type weights struct {
	pipeline, post, chunked, trailers, http10, closes, expect, upgrade, head, odd, probe        float64
	pieces, stall, disconnect, halfClose, slowRead                                              float64
	delayed, early, stops, interim, untilClose, pieced, closesAfter, surplus, wrongLength       float64
	cut, cutEarly, silent, garbage, extra, responseTrailers, http10Response, idleClose, unasked float64
	restart, notYet                                                                             float64
}

// switches returns pointers to all weights in the order of the fields.
func (x *weights) switches() []*float64 {
	return []*float64{
		&x.pipeline, &x.post, &x.chunked, &x.trailers, &x.http10, &x.closes, &x.expect, &x.upgrade, &x.head, &x.odd, &x.probe,
		&x.pieces, &x.stall, &x.disconnect, &x.halfClose, &x.slowRead,
		&x.delayed, &x.early, &x.stops, &x.interim, &x.untilClose, &x.pieced, &x.closesAfter, &x.surplus, &x.wrongLength,
		&x.cut, &x.cutEarly, &x.silent, &x.garbage, &x.extra, &x.responseTrailers, &x.http10Response, &x.idleClose, &x.unasked,
		&x.restart, &x.notYet,
	}
}

// draw draws the settings of a run.
func draw(w *world, k *kernel) *settings {
	s := &settings{}
	off := pick(w, 0.3, 0.6, 0.85)
	for _, p := range s.w.switches() {
		if w.rng.Float64() >= off {
			*p = pick(w, 0.02, 0.1, 0.1, 0.3, 0.7)
		}
	}
	ms := func(low, high int64) time.Duration { return time.Duration(w.randomIn(low, high)) * time.Millisecond }
	g := &s.gate
	g.ConcurrencyLimit = pick(w, 0, 0, 1, 1, 2, 3, 10)
	g.QueueCapacity = pick(w, 0, 1, 3, 100, 100)
	g.HardConcurrency = w.chance(0.2)
	g.AllowHalfClose = w.chance(0.2)
	if w.chance(0.3) {
		g.QueueMaxWait = ms(5, 500)
	}
	g.RequestTimeout = ms(200, 20_000)
	if w.chance(0.3) {
		g.ResponseStartTimeout = ms(100, 5_000)
	}
	if w.chance(0.3) {
		g.IdleTimeout = ms(100, 5_000)
	}
	if w.chance(0.3) {
		g.TunnelMax = ms(100, 10_000)
	}
	g.UpstreamWait, g.UpstreamRestartWait = ms(50, 2_000), ms(20, 1_000)
	g.DrainQuiet = pick(w, 0, ms(1, 200), ms(100, 3_000))
	g.DrainTunnel = ms(10, 1_000)
	s.headTimeout = ms(300, 5_000)
	s.loops = pick(w, 1, 1, 2, 3)
	if w.chance(0.15) {
		s.descriptors = int(w.randomIn(16, 60)) + 8*s.loops
		s.w.restart, s.w.notYet = pick(w, s.w.restart, 0.9), pick(w, s.w.notYet, 0.5)
	}
	s.clients = int(w.spread(1, 60))
	s.requests = int(w.randomIn(1, 12))
	s.think = pick(w, 0, millisecond, 20*millisecond, 500*millisecond)
	s.gap = pick(w, 0, 100*microsecond, 5*millisecond, 200*millisecond)
	s.bodies = int(pick(w, 100, 100, 3_000, 20_000, 20_000, 150_000))
	if w.chance(0.02) {
		s.bodies = 600_000
	}
	s.concurrent = pick(w, 0, millisecond, 50*millisecond, second)
	if w.chance(0.3) {
		s.drainAt = w.spread(1, 500) * millisecond
	}
	w.shuffle = w.chance(0.7)
	k.maxDelay = pick(w, 0, 0, millisecond, 5*millisecond)
	k.partial = w.chance(0.5)
	k.settings = linkSettings{
		delay:   pick(w, 0, 100*microsecond, millisecond, millisecond, 8*millisecond),
		segment: pick(w, 0, 0, 0, 4000, 500),
		receive: pick(w, 4<<10, 64<<10, 256<<10),
		send:    pick(w, 3<<10, 16<<10, 256<<10),
		stingy:  w.chance(0.3),
	}
	if w.chance(0.1) {
		k.settings.segment = 3 // tiny segments
		s.bodies = min(s.bodies, 200)
	}
	s.focus(w, k)
	return s
}

// focus combines conditions that rarely coincide by chance.
func (s *settings) focus(w *world, k *kernel) {
	g := &s.gate
	switch w.more.IntN(24) {
	case 0: // clients abort long responses
		s.bodies, s.long, k.settings.segment = 600_000, true, 0
		s.clients, s.requests = min(s.clients, 6), min(s.requests, 4)
		g.HardConcurrency = w.more.IntN(2) == 0
		s.w.disconnect, s.w.slowRead = 0.3, 0.1
	case 1: // SIGTERM arrives when the clients arrive
		s.drainAt = 1 + w.more.Int64N(2*millisecond)
		s.concurrent = millisecond
	case 2: // the loop is delayed, so that one iteration handles many events
		k.maxDelay = 20 * millisecond
		s.clients, s.think, s.concurrent = max(s.clients, 12), millisecond, millisecond
		g.ConcurrencyLimit, g.QueueCapacity = 1+w.more.IntN(3), 100
		s.w.disconnect = 0.3
	case 3: // socket buffers hold more bytes than one step transfers
		s.bodies, k.settings.segment = 600_000, 0
		k.settings.receive, k.settings.send = 1<<20, 1<<20
		s.clients, s.requests = min(s.clients, 6), min(s.requests, 4)
	}
}

// request is an exchange: what client and container do, and a ledger of the events.
type request struct {
	rules   *exchange.Config // settings in force when the request arrived
	id      int
	client  *client
	method  string
	minor   int
	coding  framing
	body    []byte
	trail   bool
	expect  bool
	upgrade bool
	closes  bool
	badHead string // status of the rejected head; "" = the head is valid
	probe   bool
	head    int // length of the head, which is the first part of the field raw
	raw     []byte

	piece           int   // maximum number of bytes sent at once; 0 = all
	gap             int64 // pause between two pieces
	stallAt         int   // offset in the field raw at which the client pauses
	stall           int64
	disconnectAt    int // offset in the field raw at which the client disconnects; -1 = never
	disconnectAfter int // offset of the response at which the client disconnects; -1 = never
	disconnectKind  disconnectKind
	slowAt          int // offset of the response at which the client stops reading for a time; -1 = never
	slow            int64
	thinks          int64

	response response

	over2 bool // over HTTP/2
	grpc  bool // a gRPC call
	on2   *h2Stream
	frame [2]string // field for which the gate rejects the extended CONNECT
	plain *response // response before its conversion to HTTP/2

	lines    [][2]string // additional fields
	tenant   string
	class    int
	deadline int64 // 0 = none
	record   *gate.Record
	accepts
	acceptsCoding   bool  // the request has Accept-Encoding
	continueTimeout int64 // time after which the body is sent without a 100

	ledger
	waited
}

type disconnectKind uint8

const (
	byClose disconnectKind = iota
	byReset
	byHalfClose
)

// response is what the container does for a request.
type response struct {
	wait          int64
	early         bool // the container responds before it has read the body
	stops         bool // the container never reads the body, and closes after the response
	interims      []int
	status        int
	mode          framing
	body          []byte
	trail         bool
	closes        bool
	silent        bool // the container closes without sending a byte
	garbage       bool
	surplus       bool // the response has a body that its status or method forbids
	lengthTooLong bool // the announced length is longer than the body
	extra         bool // excess bytes follow the response
	minor         int
	cutAt         int  // offset in the field wire at which the container aborts; -1 = never
	hard          bool // the container aborts by RST
	head          int  // offset in the field wire at which the final response's head ends
	full          int  // offset in the field wire at which the whole response ends
	first         int  // offset in the field wire at which the first head ends
	wire          []byte
	piece         int
	gap           int64
	switches      bool

	fields    [][2]string // additional fields
	stream    bool        // the response is an event stream
	continues bool        // the response can continue a promised event stream
}

func (r *run) plan(c *client) *request {
	w, s, x := r.world, r.settings, &r.settings.w
	q := w.scratch.request()
	q.id, q.client, q.method, q.minor, q.disconnectAt, q.disconnectAfter, q.slowAt = len(r.requests)+1, c, "GET", 1, -1, -1, -1
	q.continueTimeout = 3 * second
	r.requests = append(r.requests, q)
	q.thinks = w.randomIn(0, s.think)
	r.load.draw(q, &s.gate.Overload)
	size := func() int {
		if w.rng.IntN(4) == 0 {
			return int(w.randomIn(0, int64(s.bodies)))
		}
		return int(w.spread(0, int64(s.bodies)))
	}
	switch {
	case w.chance(x.probe):
		q.probe = true
	case w.chance(x.post):
		q.method = pick(w, "POST", "PUT", "PATCH", "DELETE")
		n := size()
		q.body, q.coding = bodyOf(q.id, 0, n), length
		if w.chance(x.chunked) {
			q.coding, q.trail = chunked, w.chance(x.trailers)
		}
		q.expect = n > 0 && w.chance(x.expect)
	case w.chance(x.head):
		q.method = "HEAD"
	case w.chance(x.upgrade):
		q.upgrade = true
	}
	if w.chance(x.http10) && q.coding != chunked && !q.upgrade {
		q.minor, q.expect = 0, false
	}
	q.closes = w.chance(x.closes) && !q.upgrade
	r.wait.drawRequest(q)
	q.write(w)
	if w.chance(x.odd) {
		q.badHead = pick(w, "400", "501", "405", "505")
		if q.minor > 0 && w.rng.IntN(4) == 0 {
			q.badHead = "417"
		}
		q.upgrade = false
		q.write(w)
	}
	total := len(q.raw)
	if w.chance(x.pieces) {
		q.piece, q.gap = int(w.randomIn(1, int64(max(1, total/3)))), w.randomIn(0, s.gap)
		q.piece = max(q.piece, total/mostPieces)
	}
	if w.chance(x.stall) {
		q.stallAt, q.stall = int(w.randomIn(1, int64(total))), w.spread(1, 8_000)*millisecond
	}
	if w.chance(x.disconnect) {
		q.disconnectKind = pick(w, byClose, byReset)
		if w.rng.IntN(2) == 0 {
			q.disconnectAt = int(w.randomIn(1, int64(total)))
		} else {
			q.disconnectAfter = int(w.spread(0, int64(s.bodies)))
		}
	} else if w.chance(x.halfClose) {
		q.disconnectKind, q.disconnectAt = byHalfClose, total
	}
	if w.chance(x.slowRead) {
		q.slowAt, q.slow = int(w.spread(0, int64(s.bodies))), w.spread(1, 3_000)*millisecond
	}
	r.planResponse(q, size)
	return q
}

func (q *request) write(w *world) {
	target := "/s/" + strconv.Itoa(q.id)
	minor, b := q.minor, w.scratch.text(len(q.body))
	method := q.method
	switch q.badHead {
	case "405":
		method = "CONNECT"
	case "505":
		minor = 9
	}
	b = append(append(append(b, method...), ' '), target...)
	if minor == 9 {
		b = append(b, " HTTP/2.1"...)
	} else {
		b = strconv.AppendInt(append(b, " HTTP/1."...), int64(minor), 10)
	}
	b = append(b, "\r\nHost: sim\r\n"...)
	if q.probe {
		b = appendNumber(append(b, "K-Network-Probe: probe\r\n"...), "K-Network-Hash: h", q.id)
	}
	switch {
	case q.closes:
		b = append(b, "Connection: close\r\n"...)
	case q.minor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	case q.upgrade:
		b = append(b, "Connection: upgrade\r\nUpgrade: sim\r\n"...)
	}
	switch q.badHead {
	case "400":
		b = append(b, "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"...)
	case "501":
		b = append(b, "Transfer-Encoding: br\r\n"...)
	case "417":
		b = append(b, "Expect: miracles\r\n"...)
	default:
		switch q.coding {
		case length:
			b = appendNumber(b, "Content-Length: ", len(q.body))
		case chunked:
			b = append(b, "Transfer-Encoding: chunked\r\n"...)
		}
		if q.expect {
			b = append(b, "Expect: 100-continue\r\n"...)
		}
	}
	if q.pads() {
		b = append(append(append(b, "X-Pad: "...), padding...), "\r\n"...)
	}
	if q.announces() {
		b = append(b, "Trailer: X-Sim-Trailer\r\n"...)
	}
	for _, line := range q.lines {
		b = append(append(append(append(b, line[0]...), ": "...), line[1]...), "\r\n"...)
	}
	b = append(appendNumber(b, "X-Sim: ", q.id), "\r\n"...)
	q.head = len(b)
	switch {
	case q.badHead != "":
	case q.coding == length:
		b = append(b, q.body...)
	case q.coding == chunked:
		b = w.appendChunks(b, q.body, q.trailers(q.trail))
	}
	q.raw = w.scratch.keep(b)
}

// announces reports whether q has a Trailer field.
func (q *request) announces() bool { return q.trail && q.badHead == "" && q.id%2 == 0 }

// trailers returns the trailer section, or "".
func (q *request) trailers(any bool) string {
	if !any {
		return ""
	}
	return "X-Sim-Trailer: " + strconv.Itoa(q.id) + "\r\n"
}

// appendNumber appends a field whose value ends in a number.
func appendNumber(b []byte, field string, n int) []byte {
	return append(strconv.AppendInt(append(b, field...), int64(n), 10), "\r\n"...)
}

func (r *run) planResponse(q *request, size func() int) {
	w, s, x := r.world, r.settings, &r.settings.w
	a := &q.response
	a.minor, a.cutAt = 1, -1
	a.wait = w.randomIn(0, pick(w, 0, 100*microsecond, 2*millisecond))
	if w.chance(x.delayed) {
		a.wait = w.spread(1, 10_000) * millisecond
	}
	if q.coding != noBody && w.chance(x.early) {
		a.early, a.stops = true, w.chance(x.stops)
	}
	for w.chance(x.interim) && len(a.interims) < 3 {
		a.interims = append(a.interims, pick(w, 100, 102, 103))
	}
	a.status = pick(w, 200, 200, 200, 200, 204, 304, 404, 500)
	a.body = bodyOf(q.id, 1, size())
	a.mode = pick(w, length, length, chunked)
	if w.chance(x.untilClose) {
		a.mode = untilClose
	}
	if w.chance(x.http10Response) {
		a.minor = 0
		if a.mode == chunked {
			a.mode = untilClose
		}
	}
	if s.long && w.more.IntN(3) > 0 {
		a.body, a.mode = bodyOf(q.id, 1, s.bodies/2+w.more.IntN(s.bodies/2)), length
		if q.disconnectAfter >= 0 {
			q.disconnectAfter = w.more.IntN(len(a.body))
		}
	}
	a.trail = a.mode == chunked && w.chance(x.responseTrailers)
	a.closes = w.chance(x.closesAfter)
	a.surplus, a.extra = w.chance(x.surplus), w.chance(x.extra) && r.kernel.settings.segment == 0
	a.hard = w.rng.IntN(2) == 0
	if w.chance(x.pieced) {
		a.piece, a.gap = int(w.spread(1, int64(s.bodies))), w.randomIn(0, s.gap)
		a.piece = max(a.piece, len(a.body)/mostPieces)
	}
	a.silent = w.chance(x.silent)
	a.garbage = w.chance(x.garbage)
	a.switches = q.upgrade && w.rng.IntN(4) > 0
	a.lengthTooLong = a.mode == length && w.chance(x.wrongLength)
	r.wait.drawResponse(q, a, &s.gate)
	a.surplus = a.surplus && (a.mode == chunked || a.mode == length && len(a.body) > 0)
	a.write(w, q)
	a.first = bytes.Index(a.wire, []byte("\r\n\r\n")) + 4
	switch {
	case w.chance(x.cutEarly):
		a.cutAt = int(w.randomIn(0, int64(a.head-1)))
	case w.chance(x.cut), a.early && a.mode == untilClose && w.rng.IntN(2) == 0:
		a.cutAt = int(w.randomIn(int64(a.head), int64(len(a.wire))))
	}
}

// mostPieces limits the pieces of a message. Runs with more pieces took most of the time
// and found no more faults.
const mostPieces = 1000

// bodyless reports whether a response cannot have a body (HEAD, 204, 304).
func (a *response) bodyless(q *request) bool {
	return q.method == "HEAD" || a.status == 204 || a.status == 304 || a.switches
}

func (a *response) write(w *world, q *request) {
	b := w.scratch.text(len(a.body))
	for _, code := range a.interims {
		b = append(strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(code), 10), " Sim\r\n"...)
		b = append(appendNumber(b, "X-Sim: ", q.id), "\r\n"...)
	}
	if a.garbage {
		malformed := pick(w, "HTTQ/1.1 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
		if w.more.IntN(4) == 0 { // a protocol that the client did not offer
			malformed = "HTTP/1.1 101 Sim\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n"
		}
		b = append(b, malformed...)
		a.head, a.full = len(b), len(b)
		a.wire = w.scratch.keep(b)
		return
	}
	if a.switches {
		b = append(b, "HTTP/1.1 101 Sim\r\nConnection: upgrade\r\nUpgrade: sim\r\n"...)
		b = append(appendNumber(b, "X-Sim: ", q.id), "\r\n"...)
		a.head, a.full = len(b), len(b)
		a.wire = w.scratch.keep(b)
		return
	}
	b = strconv.AppendInt(append(b, "HTTP/1."...), int64(a.minor), 10)
	b = append(strconv.AppendInt(append(b, ' '), int64(a.status), 10), " Sim\r\n"...)
	b = appendNumber(b, "X-Sim: ", q.id)
	for _, f := range a.fields {
		b = append(append(append(append(b, f[0]...), ": "...), f[1]...), "\r\n"...)
	}
	none := a.bodyless(q)
	announced := len(a.body)
	if a.lengthTooLong {
		announced += int(w.randomIn(1, 100))
	}
	switch {
	case none && !a.surplus && a.status != 304 && q.method != "HEAD":
	case a.mode == length:
		b = appendNumber(b, "Content-Length: ", announced)
	case a.mode == chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	switch {
	case a.closes || a.mode == untilClose && !none:
		b = append(b, "Connection: close\r\n"...)
	case a.minor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	b = append(b, "\r\n"...)
	a.head = len(b)
	if none && a.surplus {
		// The forbidden body looks like another response.
		a.full = a.head
		a.wire = w.scratch.keep(append(b, stolen...))
		return
	}
	if !none {
		switch a.mode {
		case length, untilClose:
			b = append(b, a.body...)
		case chunked:
			b = w.appendChunks(b, a.body, q.trailers(a.trail))
		}
	}
	a.full = len(b)
	if a.extra && (a.mode != untilClose || none) && !a.lengthTooLong && len(b) < 3000 {
		a.piece = 0 // the excess arrives together with the end of the response
		b = append(b, stolen...)
	}
	a.wire = w.scratch.keep(b)
}

// begins reports whether the first n bytes include the first head.
func (a *response) begins(n int) bool { return n >= a.first }

// isComplete reports whether the first n bytes and the end of the connection (by RST if hard)
// form a complete response.
func (a *response) isComplete(q *request, n int, hard bool) bool {
	switch {
	case a.garbage || n < a.head:
		return false
	case a.bodyless(q):
		return true
	case a.mode == untilClose:
		return !hard
	case a.lengthTooLong:
		return false
	}
	return n >= a.full
}
