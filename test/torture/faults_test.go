package torture

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/torture/script"
)

// each runs an experiment once for each protocol between gate and container. It divides
// the number of events evenly among these runs.
func each(t *testing.T, events int, run func(t *testing.T, protocol string, events int)) {
	for n, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) { run(t, protocol, (events+n)/len(protocols)) })
	}
}

func TestTheContainerIsKilledUnderLoad(t *testing.T) {
	each(t, scaled(100, 4), func(t *testing.T, protocol string, kills int) {
		x := newExperiment(t, "container killed", protocol)
		x.warmUp()
		x.load()
		for range kills {
			x.await(20 + x.rng.IntN(400))
			x.container.Kill()
			time.Sleep(randomIn(x.rng, 0, 60*time.Millisecond))
			x.container.start()
		}
		x.await(100)
		x.finish(kills)
	})
}

func TestClientsCutTheirRequestsAnywhere(t *testing.T) {
	each(t, scaled(10_000, 400), func(t *testing.T, protocol string, cuts int) {
		x := newExperiment(t, "cut by clients", protocol)
		x.warmUp()
		var done atomic.Int64
		x.mix = func(rng *rand.Rand, q *request) {
			if q.cut = rng.IntN(2) == 0; q.cut {
				done.Add(1)
			}
			q.mustServe = !q.cut
		}
		x.load()
		for done.Load() < int64(cuts) {
			x.await(10)
		}
		x.finish(int(done.Load()))
	})
}

// A process is stopped for less than any timeout, so every request succeeds.
func TestRequestsSucceedAlthoughContainerOrGateIsStoppedForAWhile(t *testing.T) {
	each(t, scaled(40, 4), func(t *testing.T, protocol string, stops int) {
		x := newExperiment(t, "stopped for a while", protocol)
		x.warmUp()
		x.mix = func(rng *rand.Rand, q *request) {
			q.mustServe = true
			q.pause = rng.IntN(50) == 0 // the client does not read, as if its process were stopped
		}
		x.load()
		for n := range stops {
			p := []*child{x.container.child, x.gate.child}[n%2]
			x.await(x.rng.IntN(100))
			signal(t, p, syscall.SIGSTOP)
			time.Sleep(randomIn(x.rng, 20*time.Millisecond, 700*time.Millisecond))
			signal(t, p, syscall.SIGCONT)
		}
		x.await(100)
		x.finish(stops)
	})
}

func TestAContainerThatMisbehavesAtRandomAffectsOnlyItsOwnRequests(t *testing.T) {
	each(t, scaled(12_000, 800), func(t *testing.T, protocol string, requests int) {
		x := newExperiment(t, "container misbehaves", protocol, "CONTAINER_CONCURRENCY=64", "REVISION_RESPONSE_START_TIMEOUT_SECONDS=1")
		x.warmUp()
		ways := []string{script.Reset, script.Close, script.Half, script.Dribble, script.Early, script.Early}
		x.mix = func(rng *rand.Rand, q *request) {
			switch n := rng.IntN(200); {
			case n == 0:
				q.do = script.Hang
			case n < 80:
				q.do = ways[n%len(ways)]
			}
			if q.do == script.Dribble {
				q.size = min(q.size, 300)
			}
		}
		x.load()
		x.await(requests)
		x.finish(requests)
	})
}

func TestTheGateIsTerminatedAtRandomMoments(t *testing.T) {
	each(t, scaled(25, 4), func(t *testing.T, protocol string, moments int) {
		total := row{name: "SIGTERM (" + protocol + ")", gauges: "0", replies: map[string]int{}}
		for range moments {
			x := newExperiment(t, "SIGTERM", protocol)
			x.rng = random(x.name, -2-total.events)
			x.mix = func(_ *rand.Rand, q *request) { q.mustServe = q.newConn }
			x.ledger.draining = true
			x.load()
			x.await(x.rng.IntN(500))
			signal(t, x.gate.child, syscall.SIGTERM)
			x.workers.Wait() // workers end when the gate closes its port
			if !eventually(func() bool { return !x.gate.Running() }) {
				t.Fatalf("the gate has not exited\n%s", x.gate.Stderr.String())
			}
			if code := x.gate.Cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("the gate ended with code %d\n%s", code, x.gate.Stderr.String())
			}
			x.checkLog()
			x.container.Kill()
			total.add(x.ledger.row())
		}
		if total.broken != 0 {
			t.Errorf("%d requests were cut that the container had seen, want 0", total.broken)
		}
		total.enter(t)
	})
}

func (r *row) add(o row) {
	r.events++
	r.sent, r.seen, r.twice, r.retried, r.unserved, r.broken = r.sent+o.sent, r.seen+o.seen, r.twice+o.twice, r.retried+o.retried, r.unserved+o.unserved, r.broken+o.broken
	for v, n := range o.counts {
		r.counts[v] += n
	}
	for outcome, n := range o.replies {
		r.replies[outcome] += n
	}
	r.notes = append(r.notes, o.notes...)
}
