package torture

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/torture/script"
)

// concurrencyLimit is below the number of clients, so that requests are queued.
const concurrencyLimit = 8

// protocols of the container. Clients always use HTTP/1.1 and HTTP/2.
var protocols = []string{"http1", "h2c"}

// experiment is a gate under load, with a ledger.
type experiment struct {
	t         *testing.T
	name      string
	ledger    *ledger
	container *container
	gate      *gate
	rng       *rand.Rand // random choices of the experiment

	mix      func(*rand.Rand, *request) // mix adapts a random request to the experiment
	stopped  atomic.Bool
	workers  sync.WaitGroup
	numEnded atomic.Int64 // number of ended requests

	baseSockets int
	baseRSS     float64
	peak        float64
}

func newExperiment(t *testing.T, name, protocol string, settings ...string) *experiment {
	t.Helper()
	x := &experiment{t: t, name: name + " (" + protocol + ")", ledger: newLedger(t)}
	x.rng = random(x.name, -1)
	x.container = startContainer(t, protocol, x.ledger.write)
	settings = append([]string{fmt.Sprintf("CONTAINER_CONCURRENCY=%d", concurrencyLimit)}, settings...)
	x.gate = startGate(t, x.container.port, settings...)
	x.mix = func(*rand.Rand, *request) {}
	return x
}

// warmUp sends a request of each version, and records the sockets and the RSS of the idle
// gate.
func (x *experiment) warmUp() {
	one := &http1{addr: x.gate.addr, rng: x.rng}
	two := newHTTP2(x.gate.addr)
	for _, do := range []func(*request) (requestResult, string){one.do, func(q *request) (requestResult, string) { return two.do(q, x.rng) }} {
		q := &request{method: "GET", do: script.Echo, mustServe: true}
		x.ledger.add(q)
		v, reason := do(q)
		x.ledger.enter(q, v, reason)
	}
	one.close()
	two.close()
	if gauges := map[string]float64{}; !eventually(func() bool { return x.quiet(gauges) }) {
		x.t.Fatalf("gauges do not return to 0: %v", gauges)
	}
	x.baseSockets, x.baseRSS = x.gate.sockets(), x.gate.rss()
}

func (x *experiment) request(rng *rand.Rand, version int) *request {
	q := &request{version: version, method: "GET", do: script.Echo, newConn: version == 1 && rng.IntN(4) == 0}
	switch n := rng.IntN(10); {
	case n < 3:
		q.method = "POST"
	case n < 5:
		q.method, q.chunked = "POST", true
	case n < 6:
		q.method = "PUT"
	}
	q.size = size(rng)
	if q.method != "GET" {
		q.body = make([]byte, size(rng))
		for i := range q.body {
			q.body[i] = byte(rng.Uint32())
		}
	}
	switch rng.IntN(20) {
	case 0:
		q.do = script.Interim
	case 1:
		q.do, q.size = script.Dribble, min(q.size, 300)
	case 2:
		q.wait = rng.IntN(20)
	}
	x.mix(rng, q)
	x.ledger.add(q)
	return q
}

// size returns a random size, usually small, sometimes larger than all buffers.
func size(rng *rand.Rand) int64 {
	switch n := rng.IntN(40); {
	case n == 0:
		return rng.Int64N(512 << 10)
	case n < 5:
		return rng.Int64N(32 << 10)
	}
	return rng.Int64N(1000)
}

// load starts two HTTP/1 clients for each h2c client. They send requests until stop is
// called or the gate accepts no connections.
func (x *experiment) load() {
	for n := range 12 {
		x.workers.Go(func() { x.workHTTP1(random(x.name, n)) })
	}
	for n := range 6 {
		x.workers.Go(func() { x.workHTTP2(random(x.name, 100+n)) })
	}
}

func (x *experiment) workHTTP1(rng *rand.Rand) {
	c := &http1{addr: x.gate.addr, rng: rng}
	defer c.close()
	for !x.stopped.Load() {
		if x.run(x.request(rng, 1), c.do) == notSent {
			return
		}
	}
}

func (x *experiment) run(q *request, do func(*request) (requestResult, string)) requestResult {
	v, reason := do(q)
	x.ledger.enter(q, v, reason)
	x.numEnded.Add(1)
	return v
}

// workHTTP2 sends up to four concurrent requests on one connection.
func (x *experiment) workHTTP2(rng *rand.Rand) {
	c := newHTTP2(x.gate.addr)
	defer c.close()
	for !x.stopped.Load() {
		var round sync.WaitGroup
		var disconnected atomic.Bool
		for range 1 + rng.IntN(4) {
			q := x.request(rng, 2)
			ownRNG := rand.New(rand.NewPCG(rng.Uint64(), 0))
			round.Go(func() {
				if x.run(q, func(q *request) (requestResult, string) { return c.do(q, ownRNG) }) == notSent {
					disconnected.Store(true)
				}
			})
		}
		round.Wait()
		if disconnected.Load() {
			return
		}
		if rng.IntN(20) == 0 {
			c.abort(rng.IntN(2) == 0)
		}
	}
}

// await waits until n more requests have ended.
func (x *experiment) await(n int) {
	x.t.Helper()
	for target := x.numEnded.Load() + int64(n); x.numEnded.Load() < target; {
		if !x.gate.Running() {
			x.t.Fatalf("the gate died: %v\n%s", x.gate.Cmd.ProcessState, x.gate.Stderr.String())
		}
		x.peak = max(x.peak, x.gate.rss())
		time.Sleep(time.Millisecond)
	}
}

// finish stops the clients, checks the gate, and records the row.
func (x *experiment) finish(events int) {
	x.t.Helper()
	x.stopped.Store(true)
	x.workers.Wait()
	x.peak = max(x.peak, x.gate.rss())
	gauges := map[string]float64{}
	clean := eventually(func() bool { return x.quiet(gauges) })
	x.container.Kill() // also closes its connections
	clean = clean && eventually(func() bool { return x.quiet(gauges) && gauges["upstream connections"] == 0 })
	sockets := 0
	clean = clean && eventually(func() bool { sockets = x.gate.sockets(); return sockets <= x.baseSockets })
	after := 0.0
	back := eventually(func() bool { after = x.gate.rss(); return after <= x.baseRSS+rssSlack })
	if !back {
		x.t.Errorf("RSS %.1f MiB at rest, %.1f before", after, x.baseRSS)
	}
	if !x.gate.Running() {
		x.t.Errorf("the gate died: %v\n%s", x.gate.Cmd.ProcessState, x.gate.Stderr.String())
	}
	r := x.ledger.row()
	if r.gauges = "0"; !clean {
		r.gauges = fmt.Sprintf("%v, sockets %d before %d", gauges, sockets, x.baseSockets)
	}
	r.name, r.events, r.rss, r.rssAfter = x.name, events, x.peak, after
	x.checkLog()
	r.enter(x.t)
}

// rssSlack is a tolerance in MiB. After a test, the RSS of an idle gate may exceed the
// RSS before the test by this amount, because the Go runtime returns freed memory to
// the kernel with a delay.
const rssSlack = 32

func (x *experiment) checkLog() {
	x.t.Helper()
	if fault := x.gate.Fault(); fault != "" {
		x.t.Errorf("the gate reported: %s", fault)
	}
}

// quiet reports whether the gate is idle, and stores its gauges.
func (x *experiment) quiet(gauges map[string]float64) bool {
	f, err := x.gate.figures()
	if err != nil {
		return false
	}
	gauges["in flight"], gauges["queued"] = f["queuegate_in_flight_requests"], f["kn_serving_queue_depth"]
	gauges["HTTP/2 clients"] = f["queuegate_http2_client_connections"]
	busy := gauges["in flight"] + gauges["queued"] + gauges["HTTP/2 clients"]
	gauges["upstream connections"] = f["queuegate_upstream_open_connections"]
	return busy == 0
}
