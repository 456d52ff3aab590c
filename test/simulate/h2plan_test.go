package simulate

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// h2Settings are the settings for HTTP/2. They have a separate random source, so that the
// HTTP/1 choices of a seed do not change.
type h2Settings struct {
	speaks        upstream.Protocol // UPSTREAM_PROTOCOL of the gate
	useUpstreamH2 bool              // the gate may use HTTP/2 to the container
	upH2          bool              // the container supports HTTP/2
	onlyH2        bool              // the container supports only HTTP/2
	upMost        int               // limit on concurrent streams; 0 = none
	upReject      float64           // share of rejected streams
	upGoAway      float64           // share of connections that end by GOAWAY
	upList        int               // SETTINGS_MAX_HEADER_LIST_SIZE; 0 = none
	upCuts        bool              // HEADERS on a closed stream close the connection, as in net/http
	share         float64           // share of the clients
	most          int               // maximum number of concurrent streams of a client
	table         int               // SETTINGS_HEADER_TABLE_SIZE

	windows  []int // initial stream windows; each connection draws one
	policy   policy
	piece    int // maximum number of octets per write; 0 = unlimited
	pieceGap int64

	h2Weights
}

// h2Weights are the probabilities of features of HTTP/2.
type h2Weights struct {
	split, padded              float64 // share of frames
	resize, pings, grpc        float64
	announces, inTime          float64
	cancels, paused, lateShare float64
}

// policy determines when a peer returns flow-control credit.
type policy uint8

const (
	atOnce policy = iota
	byHalves
	delayed
)

func drawH2(seed uint64, s *settings, k *kernel) (h h2Settings) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0x42))}
	h.speaks = upstream.HTTP1
	if w.chance(0.4) {
		return h
	}
	h.windows = []int{h2Window}
	h.table = 4096
	h.most = 1
	if w.chance(0.8) {
		h.share = pick(w, 0.3, 1, 1)
	}
	h.drawContainer(w, s)
	if h.upH2 && seed%3 == 0 {
		h.upList = 700
	}
	h.upCuts = seed%2 == 0
	if h.upH2 && seed%4 == 0 { // make early responses to requests with trailers frequent
		x := &s.w
		x.post, x.chunked, x.trailers, x.early, x.stops, x.pieces = 0.9, 0.9, 0.9, 0.7, 0.8, 0.5
	}
	for _, p := range []*float64{&h.split, &h.padded, &h.resize, &h.pings, &h.grpc, &h.announces, &h.inTime, &h.cancels, &h.paused, &h.lateShare} {
		if w.chance(0.4) {
			*p = pick(w, 0.02, 0.1, 0.3, 0.7)
		}
	}
	h.most = int(w.randomIn(1, int64(pick(w, 1, 3, 8))))
	h.table = pick(w, 4096, 4096, 0, 100)
	h.windows = []int{h2Window}
	if w.chance(0.4) {
		h.windows = []int{h2Window, int(w.spread(1000, 1<<18)), 1 << 20, 0}
	}
	h.policy = pick(w, atOnce, byHalves, delayed)
	if w.chance(0.2) {
		h.piece, h.pieceGap = max(int(w.randomIn(5, 3000)), s.bodies/100), w.randomIn(0, s.gap)
	}
	return h
}

var padding = strings.Repeat("p", 700)

// pads reports whether the head of q exceeds every header list limit of a container.
func (q *request) pads() bool {
	return q.client.run.h2.upList > 0 && q.id%5 == 0 && q.badHead == "" && !q.probe
}

// toHTTP2 converts q, which plan drew for HTTP/1.
func (q *request) toHTTP2(w *world, x *h2Weights) {
	q.minor, q.closes, q.over2 = 1, false, true
	switch q.badHead {
	case "501", "505":
		q.badHead = "405"
	}
	switch {
	case q.upgrade && w.more.IntN(3) == 0:
		q.upgrade, q.badHead = false, "400"
		q.frame = pick(&world{rng: w.more}, [2]string{"content-length", "0"}, [2]string{"content-length", "020"},
			[2]string{"content-length", "40"}, [2]string{"expect", "100-continue"})
	case q.upgrade && !q.response.switches && w.more.IntN(2) == 0: // in the other half the container declines the extended CONNECT
		q.upgrade = false
	}
	q.grpc = !q.probe && q.badHead == "" && q.coding != noBody && !q.expect && w.chance(x.grpc)
}

// headerList returns the header list of q.
func (q *request) headerList() [][2]string {
	method, path := q.method, "/s/"+strconv.Itoa(q.id)
	if q.upgrade || q.badHead == "405" || q.frame[0] != "" {
		method = "CONNECT"
	}
	f := [][2]string{{":method", method}, {":authority", "sim"}}
	if q.badHead != "405" {
		f = append(f, [2]string{":scheme", "http"}, [2]string{":path", path})
	}
	if q.upgrade || q.frame[0] != "" {
		f = append(f, [2]string{":protocol", "sim"})
	}
	switch {
	case q.frame[0] != "":
		f = append(f, q.frame)
	case q.badHead == "400":
		f = append(f, [2]string{"connection", "close"})
	case q.badHead == "417":
		f = append(f, [2]string{"expect", "miracles"})
	case q.badHead != "":
	case q.coding == length && !q.upgrade:
		f = append(f, [2]string{"content-length", strconv.Itoa(len(q.body))})
	}
	if q.probe {
		f = append(f, [2]string{"k-network-probe", "probe"}, [2]string{"k-network-hash", "h" + strconv.Itoa(q.id)})
	}
	if q.expect {
		f = append(f, [2]string{"expect", "100-continue"})
	}
	if q.grpc {
		f = append(f, [2]string{"content-type", "application/grpc"})
	}
	if q.trail {
		f = append(f, [2]string{"te", "trailers"})
	}
	if q.pads() {
		f = append(f, [2]string{"x-pad", padding})
	}
	if q.announces() {
		f = append(f, [2]string{"trailer", "x-sim-trailer"})
	}
	for _, line := range q.lines {
		f = append(f, [2]string{strings.ToLower(line[0]), line[1]})
	}
	return append(f, [2]string{"x-sim", strconv.Itoa(q.id)})
}

// h2Drips bounds the time for n octets of frames in pieces.
func (r *run) h2Drips(n int) int64 {
	d := r.kernel.settings.delay + 10*microsecond
	took := int64(0)
	if r.h2.piece > 0 {
		took += int64(n/r.h2.piece+2) * (r.h2.pieceGap + 1)
	}
	if s := r.kernel.settings.segment; s > 0 {
		took += int64(n) * d // a segment may be a single byte
	}
	return took + r.slack()
}

// h2SlowHeads reports whether a head may arrive later than the gate's head timeout.
func (r *run) h2SlowHeads() bool {
	return r.h2Drips(500) >= int64(min(r.settings.headTimeout, 9*time.Second))
}

// overHTTP2 converts c to HTTP/2, and returns the new start function.
func (r *run) overHTTP2(c *client) (start func()) {
	for _, q := range c.todo {
		q.toHTTP2(r.world, &r.h2.h2Weights)
	}
	two := &h2Client{client: c}
	r.h2clients = append(r.h2clients, two)
	return two.start
}

// drawContainer draws the protocols of the container.
func (h *h2Settings) drawContainer(w *world, s *settings) {
	if w.chance(0.8) {
		return
	}
	h.useUpstreamH2 = true
	switch w.rng.IntN(3) {
	case 0: // HTTP/1 only, which the gate has to detect
		h.speaks = upstream.Auto
	case 1:
		h.speaks, h.upH2 = upstream.Auto, true
	default:
		h.speaks, h.upH2, h.onlyH2 = upstream.H2C, true, true
	}
	if h.upH2 {
		h.drawContainerOverHTTP2(w, s)
	}
}

// drawContainerOverHTTP2 draws the settings of a container that supports HTTP/2.
func (h *h2Settings) drawContainerOverHTTP2(w *world, s *settings) {
	s.w.upgrade, s.w.unasked, s.w.surplus, s.w.extra = 0, 0, 0, 0
	h.upMost = pick(w, 0, 0, 1, 2, 10)
	h.upReject, h.upGoAway = pick(w, 0, 0, 0.05, 0.3), pick(w, 0, 0, 0.3, 0.9)
}

// drawMemory draws periods in which other clients use part of the body memory, so that
// the gate shrinks its windows towards the container. The part is below half of the
// memory, because above half the gate does not retry.
func (r *run) drawMemory(seed uint64) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0x3e3))}
	if !r.h2.upH2 || w.chance(0.25) {
		return
	}
	b := r.gate.Bodies
	for range 1 + w.rng.IntN(3) {
		n := w.randomIn(b.Limit()/32, b.Limit()/8)
		lasts := w.randomIn(1, 3000) * millisecond
		r.afterIn(w.rng, w.spread(1, 5000)*millisecond, func() {
			if b.Acquire(n) {
				r.note("%d octets of the memory for bodies are used up for %v", n, time.Duration(lasts))
				r.afterIn(w.rng, lasts, func() { b.Release(n) })
			}
		})
	}
}
