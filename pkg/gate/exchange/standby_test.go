package exchange

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// standbyGate returns a gate with a Standby. The counter wanted is incremented when a
// request begins while the container is suspended.
func standbyGate(t *testing.T) (g *Gate, wanted *atomic.Int64) {
	t.Helper()
	wanted = new(atomic.Int64)
	g = &Gate{Config: Config{QueueCapacity: 2, UpstreamWait: time.Second, UpstreamRestartWait: time.Millisecond,
		Standby: NewStandby(func() { wanted.Inc() }), Jitter: func() float64 { return 0 }}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	return g, wanted
}

func beginStandby(g *Gate, now *atomic.Int64) *Exchange {
	x := new(Exchange)
	x.Bind(g, now.Load, func() {}, nil)
	x.Begin(now.Load(), nil, nil)
	return x
}

func TestOnlyAnIdleContainerIsSuspended(t *testing.T) {
	g, wanted := standbyGate(t)
	now := new(atomic.Int64)
	now.Store(10)
	s := g.Standby
	s.Touch(10)
	if left, ok := s.Suspend(11, 5); ok || left != 4 {
		t.Errorf("suspended before its time, %v left", left)
	}
	x := beginStandby(g, now)
	if _, ok := s.Suspend(100, 5); ok || s.Open() != 1 {
		t.Errorf("suspended with %d open requests", s.Open())
	}
	now.Store(200)
	x.End(gate.Served)
	if left, ok := s.Suspend(202, 5); ok || left != 3 {
		t.Errorf("suspended too early after a request, %v left", left)
	}
	if _, ok := s.Suspend(205, 5); !ok || s.Running() {
		t.Error("not suspended although it is idle")
	}
	if _, ok := s.Suspend(300, 5); ok {
		t.Error("suspended twice")
	}
	if wanted.Load() != 0 {
		t.Error("it was wanted before a request began")
	}
	y := beginStandby(g, now)
	if wanted.Load() != 1 {
		t.Error("a request did not ask for it")
	}
	s.Resume(400)
	beginStandby(g, now).End(gate.Served)
	if y.End(gate.Served); wanted.Load() != 1 || !s.Running() || s.Open() != 0 {
		t.Errorf("wanted %d times, %d open", wanted.Load(), s.Open())
	}
}

func TestRequestsOfASuspendedContainerWaitWithoutAnAttempt(t *testing.T) {
	g, _ := standbyGate(t)
	now := new(atomic.Int64)
	now.Store(1)
	if _, ok := g.Standby.Suspend(1e9, 1); !ok {
		t.Fatal("not suspended")
	}
	x, y, z := beginStandby(g, now), beginStandby(g, now), beginStandby(g, now)
	for _, one := range []*Exchange{x, y} {
		if isSuspended, o := g.Connects.queueIfSuspended(one); !isSuspended || o != gate.Undecided {
			t.Errorf("suspended %v, %s", isSuspended, o)
		}
	}
	if _, o := g.Connects.queueIfSuspended(z); o != gate.QueueFull {
		t.Errorf("a request beyond the capacity: %s", o)
	}
	if g.Connects.MayOpenExtra() {
		t.Error("a connection may be opened to a suspended container")
	}
	g.Standby.Resume(10)
	if isSuspended, _ := g.Connects.queueIfSuspended(y); isSuspended {
		t.Error("a request is held although the container runs")
	}
	try, next, o := g.Connects.Enqueue(x, 11)
	if !try || next != 11+int64(time.Millisecond) || o != gate.Undecided {
		t.Errorf("the first request: try %v, next %d, %s", try, next, o)
	}
	// The delay stays at wakePace, because the container was started for a request.
	if try, next, _ = g.Connects.Enqueue(x, 0.9e9); !try || next != 0.9e9+wakePace {
		t.Errorf("later: try %v, next %d", try, next)
	}
	for _, one := range []*Exchange{x, y, z} {
		one.End(gate.UpstreamNotListening)
	}
}

// TestNoRequestIsAdmittedToASuspendedContainer suspends and resumes while goroutines
// begin and end requests. A request that begins while the container runs must keep it
// from being suspended.
func TestNoRequestIsAdmittedToASuspendedContainer(t *testing.T) {
	g, _ := standbyGate(t)
	var now atomic.Int64
	now.Store(1)
	var stopped atomic.Bool
	var loops sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		loops.Go(func() {
			for !done.Load() {
				x := beginStandby(g, &now)
				if g.Standby.Running() && stopped.Load() {
					t.Error("a request was admitted to a stopped container")
				}
				x.End(gate.Served)
			}
		})
	}
	suspensions := 0
	for deadline := time.Now().Add(testTimeLimit); suspensions < 200 && time.Now().Before(deadline); {
		if _, ok := g.Standby.Suspend(2, 0); ok {
			suspensions++
			stopped.Store(true)
			stopped.Store(false)
			g.Standby.Resume(2)
		}
	}
	done.Store(true)
	loops.Wait()
	if suspensions == 0 || g.Standby.Open() != 0 {
		t.Errorf("%d suspensions, %d open", suspensions, g.Standby.Open())
	}
}

const testTimeLimit = 20 * time.Second

func TestARunningContainerIsNotResumed(t *testing.T) {
	g, _ := standbyGate(t)
	defer func() {
		if recover() == nil {
			t.Error("it was resumed")
		}
	}()
	g.Standby.Resume(1)
}
