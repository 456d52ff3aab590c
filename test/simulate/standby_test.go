package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// standby suspends the container at random times, and resumes it when a request needs it.
// A suspended container keeps its connections, but the gate must not send anything to it.
type standby struct {
	*world                            // used only for random choices
	gate            *exchange.Standby // nil = never suspended in this run
	idleTimeout     time.Duration
	attempts        int
	latency         int64 // maximum time from a request to Resume
	asleep          bool
	resumeScheduled bool // Resume is scheduled
}

// standbySeed is the seed of a separate random source. With this value the runs in
// testdata/seeds have no suspensions, and still reproduce their faults.
const standbySeed = 0x57c6

// drawStandby enables suspensions in some runs whose container never stops listening.
func drawStandby(seed uint64, s *settings) *standby {
	b := &standby{world: &world{rng: rand.New(rand.NewPCG(seed, standbySeed))}}
	if b.chance(0.1) {
		s.w.restart, s.w.notYet = 0, 0
		b.attempts, b.latency = 1+b.rng.IntN(60), pick(b.world, 0, 5*millisecond, 100*millisecond)
		b.idleTimeout = time.Duration(pick(b.world, 0, millisecond, 20*millisecond))
	}
	return b
}

// suspendContainer suspends the container if no request is open.
func (r *run) suspendContainer() {
	b := r.standby
	if _, ok := b.gate.Suspend(r.now, b.idleTimeout); !ok || r.isDone {
		return
	}
	if b.asleep {
		r.found("the container is suspended twice")
	}
	if n := len(r.underWay); n > 0 {
		r.found("the container is suspended with %d open requests", n)
	}
	r.note("the container is suspended")
	b.asleep = true
}

// wantContainer is called when a request needs a suspended container. All requests share
// one scheduled Resume.
func (r *run) wantContainer() {
	b := r.standby
	if b.resumeScheduled {
		return
	}
	b.resumeScheduled = true
	r.afterIn(b.rng, b.randomIn(0, b.latency), func() {
		r.note("the container is resumed")
		b.asleep, b.resumeScheduled = false, false
		r.container.listensAt = r.now
		b.gate.Resume(r.now)
		r.betweenEvents()
	})
}

// judgeStandby checks that the container will be resumed if it has open requests.
func (r *run) judgeStandby() {
	if b := r.standby; b.asleep && !b.resumeScheduled && b.gate.Open() > 0 {
		r.found("%d requests wait for the suspended container, and nothing resumes it", b.gate.Open())
	}
}

// judgeSuspended reports the use of a suspended container.
func (r *run) judgeSuspended(description string) {
	if r.standby.asleep {
		r.found("the gate %s the suspended container", description)
	}
}
