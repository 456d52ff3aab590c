package simulate

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/gate/http2"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// run is the simulation of one gate from start to exit.
type run struct {
	*world
	*kernel
	settings  *settings
	gate      *exchange.Gate
	server    *server.Server
	backlog   *backlog
	container *container
	clients   []*client
	requests  []*request
	h2        h2Settings
	h2clients []*h2Client
	load      *overload
	brake     *brake
	live      *live
	standby   *standby
	wait      *waitRules
	fullAt    int64   // time at which the queue was last full
	evictedAt []int64 // times at which evicted requests ended

	exchanges    int
	exchanges2   int // HTTP/2 exchanges
	underWay     []*request
	unresolved   []*request
	outcomes     [64]int
	rejected     int
	probed       int
	vague        int
	freeAtStart  int
	drainedAt    int64
	closeAllowed bool            // the shutdown may close listeners and idle connections
	drainDone    <-chan struct{} // closed when the shutdown has no requests to wait for; nil before the shutdown
	drainDoneAt  int64           // time at which drainDone was closed
	isDone       bool
	cutShort     bool
	activeAt     int64  // last time at which a request began or ended
	quietAt      int64  // end of the drain's quiet period; 0 = it has not ended
	calmUntil    int64  // no event is due before this time
	unsolicited  int    // unsolicited responses
	taps         []*tap // taps of all connections to the container
}

// result summarizes a run.
type result struct {
	seed      uint64
	changes   changes
	now       map[string]int64 // final settings, for traces
	fault     string
	hash      uint64
	exchanges int
	over2     int // exchanges over HTTP/2
	requests  int
	trace     []string
	simulated time.Duration
	outcomes  [64]int
}

const address = "127.0.0.1:8080"

// simulate runs one seed.
func simulate(seed uint64, tracing bool, c changes) (res result) {
	w := &world{scratch: scratches.Get().(*scratch), rng: rand.New(rand.NewPCG(seed, 0x5eed)), more: rand.New(rand.NewPCG(seed, 0xf0c5)), now: second, tracing: tracing}
	k := newKernel(w)
	r := &run{world: w, kernel: k}
	r.settings = draw(w, k)
	r.h2, r.load = drawH2(seed, r.settings, k), drawOverload(seed, r.settings)
	drawCosts(seed, r.settings)
	drawEviction(seed, r.settings)
	r.wait = drawWaiting(seed, r.settings, k, &r.h2)
	r.brake = drawBrake(seed, r.settings)
	r.live = drawLive(seed)
	r.standby = drawStandby(seed, r.settings)
	r.apply(c)
	res.seed, res.changes = seed, c
	if c != nil || tracing {
		res.now = r.values()
	}
	r.runGate(seed)
	w.scratch.reset()
	res.fault, res.hash, res.exchanges, res.requests, res.trace = w.fault, w.hash, r.exchanges, len(r.requests), w.trace
	res.simulated, res.outcomes, res.over2 = time.Duration(w.now), r.outcomes, r.exchanges2
	return res
}

func (r *run) runGate(seed uint64) {
	s := r.settings
	config, rules := s.gate, s.gate
	r.live.rules = &rules
	config.Observer = r
	config.Clock = gateClock{r.world}
	config.Jitter = func() float64 { return 2*r.rng.Float64() - 1 }
	config.Descriptors = exchange.NewDescriptors(100_000)
	if s.descriptors > 0 {
		config.Descriptors = exchange.NewDescriptors(s.descriptors + 8*s.loops)
	}
	config.Admission = r.admission(&config)
	if r.standby.attempts > 0 {
		r.standby.gate = exchange.NewStandby(r.wantContainer)
		config.Standby = r.standby.gate
	}
	g := &exchange.Gate{Config: config}
	err := g.Init()
	if err != nil {
		panic(err)
	}
	r.gate = g
	r.container = &container{run: r}
	r.kernel.connect, r.kernel.sentUp = r.container.accept, r.recordWrite
	if r.chance(s.w.idleClose) {
		r.container.idleTimeout = r.spread(1, 3000) * millisecond
	}
	r.server, err = server.NewServer(g, server.Config{
		HTTP1: &http1.Protocol{HeadTimeout: s.headTimeout}, HTTP2: &http2.Protocol{Scheme: "http"},
		Upstream: upstream.Config{Address: netip.MustParseAddrPort(address)}, Speaks: r.h2.speaks, Loops: s.loops, Kernel: r.kernel,
		Panicked: func(v any) { r.found("panic: %v", v) },
	})
	if err != nil {
		panic(err)
	}
	r.freeAtStart, r.plenty = g.Descriptors.Free(), s.descriptors == 0
	r.betweenEvents = func() {
		r.shutDown()
		r.wakeMarked()
		r.judgeQuiet()
	}
	r.backlog = &backlog{most: 128}
	r.server.ServeDescriptors(r.listenOn(r.backlog, s.loops))
	r.betweenEvents()
	r.begin()
	r.drawMemory(seed)
	r.drive()
}

// begin schedules the first events.
func (r *run) begin() {
	s := r.settings
	if r.chance(s.w.notYet) {
		r.schedule(r.spread(1, 1500)*millisecond, r.container.listen)
	} else {
		r.container.listen()
	}
	if r.chance(s.w.restart) {
		for range 1 + r.rng.IntN(3) {
			r.schedule(r.spread(1, 5000)*millisecond, func() {
				if r.container.listening {
					r.container.restart(r.spread(1, 1000) * millisecond)
				}
			})
		}
	}
	for i := range s.clients {
		c := &client{run: r, id: i + 1}
		r.clients = append(r.clients, c)
		for range 1 + r.rng.IntN(s.requests) {
			q := r.plan(c)
			q.ahead = r.chance(s.w.pipeline) && (len(c.todo) == 0 || !c.todo[len(c.todo)-1].upgrade)
			c.todo = append(c.todo, q)
		}
		start := c.start
		if r.chance(r.h2.share) {
			start = r.overHTTP2(c)
		}
		r.schedule(r.randomIn(0, s.concurrent), start)
	}
	for range r.standby.attempts {
		r.afterIn(r.standby.rng, r.standby.spread(1, 3000)*millisecond, r.suspendContainer)
	}
	for range r.live.changes {
		r.schedule(r.live.spread(1, 5000)*millisecond, r.changeSettings)
	}
	if s.gate.Overload.Brake {
		r.requestPage()
	}
	if s.drainAt > 0 {
		r.schedule(s.drainAt, r.drain)
	}
}

// longest limits the simulated time of a run.
const longest = 300 * second

// drive runs events until the gate has ended.
func (r *run) drive() {
	for r.fault == "" && !r.isDone {
		if len(r.events) == 0 {
			if r.drainedAt == 0 {
				r.drain()
				continue
			}
			if r.checkInvariants(true); r.fault == "" {
				r.found("the shutdown does not end")
			}
			break
		}
		next := r.events[0].time
		if next > r.now {
			r.calmUntil = next
			r.checkInvariants(next-r.now > 5*millisecond)
			if r.drainedAt == 0 && r.isIdle() {
				r.drain()
				continue
			}
		}
		if next > longest {
			r.found("the run does not end")
			break
		}
		r.step(longest)
	}
	if r.isDone && r.fault == "" {
		r.settle()
		r.judgeLeftovers()
	}
	r.stop()
}

func (r *run) isIdle() bool {
	for _, c := range r.clients {
		if !c.done {
			return false
		}
	}
	return true
}

// settle runs events until nothing is in transit.
func (r *run) settle() {
	deadline := r.now + 20*second
	for r.fault == "" && r.step(deadline) {
	}
}

// drain does what the process does after SIGTERM.
func (r *run) drain() {
	if r.drainedAt != 0 {
		return
	}
	r.note("SIGTERM")
	r.drainedAt = r.now
	r.gate.Drain.Start()
	r.betweenEvents()
}

// shutDown does what the process does after the drain.
func (r *run) shutDown() {
	switch {
	case r.drainedAt == 0 || r.isDone:
	case r.drainDone == nil:
		if isClosed(r.gate.Drain.Quiet()) {
			r.closeAllowed, r.gateEnding = true, true
			r.drainDone = r.server.BeginShutdown()
		}
	case isClosed(r.drainDone):
		if r.drainDoneAt == 0 {
			r.drainDoneAt = r.now
		}
		allDone := true
		for _, s := range r.loops {
			if allDone = allDone && s.isDone; !s.closing {
				s.closing = true
				s.loop.Close()
			}
		}
		if allDone {
			r.server.Close() // returns at once, because all loops have ended
			r.gate.Drain.End()
			r.isDone = true
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stop ends the goroutines of running loops.
func (r *run) stop() {
	for _, s := range r.loops {
		if !s.isDone {
			s.isDone = true
			s.loop.Abandon()
		}
	}
}
