package exchange

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wantDrain compares the drain's state once all goroutines of the bubble are blocked.
func wantDrain(t *testing.T, d *Drain, active, quiet, ended bool) {
	t.Helper()
	synctest.Wait()
	if d.Active() != active || isClosed(d.Started()) != active {
		t.Fatalf("active %v, started %v; want %v", d.Active(), isClosed(d.Started()), active)
	}
	if isClosed(d.Quiet()) != quiet || isClosed(d.Ended()) != ended {
		t.Fatalf("quiet %v, ended %v; want %v and %v", isClosed(d.Quiet()), isClosed(d.Ended()), quiet, ended)
	}
}

func wantServed(t *testing.T, d *Drain, served bool) {
	t.Helper()
	synctest.Wait()
	if isClosed(d.Served()) != served {
		t.Fatalf("served %v, want %v", !served, served)
	}
}

// wantQuietAfter expects the quiet state after exactly d.
func wantQuietAfter(t *testing.T, drain *Drain, d time.Duration) {
	t.Helper()
	if d > 0 {
		time.Sleep(d - 1)
		wantDrain(t, drain, true, false, false)
		time.Sleep(time.Nanosecond)
	}
	wantDrain(t, drain, true, true, false)
}

func TestADrainNeverStartsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, period := range []time.Duration{0, time.Second} {
			d := newDrain(period, newSystemClock())
			d.Enter()
			d.Leave()
			time.Sleep(time.Hour)
			wantDrain(t, d, false, false, false)
		}
	})
}

func TestDrainWithoutRequestsIsQuietAfterThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(30*time.Second, newSystemClock())
		time.Sleep(time.Hour) // has no effect, because the quiet period begins at Start
		d.Start()
		wantQuietAfter(t, d, 30*time.Second)
		d.End()
		wantDrain(t, d, true, true, true)
		d.End() // no effect
	})
}

func TestQuietPeriodIsMeasuredFromTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(30*time.Second, newSystemClock())
		d.Start()
		for _, pause := range []time.Duration{29 * time.Second, time.Second, 10 * time.Second, 30*time.Second - 1} {
			time.Sleep(pause)
			d.Enter()
			time.Sleep(5 * time.Second)
			d.Leave()
		}
		wantQuietAfter(t, d, 30*time.Second)
	})
}

func TestTheEndOfARequestThatBeganBeforeTheDrainRestartsTheQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(10*time.Second, newSystemClock())
		d.Enter()
		time.Sleep(time.Hour)
		d.Start()
		time.Sleep(9 * time.Second)
		d.Leave()
		if d.Requests() != 0 {
			t.Fatalf("%d open", d.Requests())
		}
		wantQuietAfter(t, d, 10*time.Second)
	})
}

// The listeners close when the drain becomes quiet. A request that never ends must not
// prevent this, because the listeners would then stay open forever.
func TestAnOpenRequestDoesNotDelayTheQuietState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(10*time.Second, newSystemClock())
		d.Start()
		time.Sleep(4 * time.Second)
		d.Enter()
		wantQuietAfter(t, d, 10*time.Second)
		if d.Requests() != 1 {
			t.Fatalf("%d open", d.Requests())
		}
		time.Sleep(time.Hour)
		wantServed(t, d, false)
		d.Enter() // a request on an open connection
		d.Leave()
		wantServed(t, d, false)
		d.Leave()
		wantServed(t, d, true)
		wantDrain(t, d, true, true, false)
	})
}

func TestADrainReportsAllRequestsServedAlthoughTunnelsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, period := range []time.Duration{0, 10 * time.Second} {
			d := newDrain(period, newSystemClock())
			d.Enter()
			d.EnterTunnel()
			d.Enter()
			d.Start()
			time.Sleep(time.Hour)
			wantServed(t, d, false)
			d.Enter()
			d.EnterTunnel() // the request becomes a tunnel
			d.Leave()
			wantServed(t, d, true)
			if d.Tunnels() != 2 {
				t.Errorf("%d tunnels, want 2", d.Tunnels())
			}
			d.LeaveTunnel()
			d.LeaveTunnel()
			d.End()
		}
	})
}

func TestADrainThatEndsWithOpenRequestsNeverReportsAllRequestsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(time.Second, newSystemClock())
		d.Enter()
		d.Start()
		wantQuietAfter(t, d, time.Second)
		d.End()
		wantDrain(t, d, true, true, true)
		d.Leave()
		wantServed(t, d, false)
	})
}

func TestADrainWithoutAQuietPeriodOrOpenRequestsIsQuietImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(0, newSystemClock())
		d.Enter()
		d.Leave()
		d.Start()
		wantQuietAfter(t, d, 0)
	})
}

func TestWithoutAQuietPeriodADrainWaitsForOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(0, newSystemClock())
		d.Enter()
		d.Enter()
		d.Start()
		time.Sleep(time.Hour)
		wantDrain(t, d, true, false, false)
		d.Enter()
		d.Leave()
		wantDrain(t, d, true, false, false)
		time.Sleep(time.Hour)
		d.Leave()
		wantDrain(t, d, true, false, false)
		d.Leave()
		wantDrain(t, d, true, true, false)
	})
}

func TestASecondStartDoesNotRestartTheQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(10*time.Second, newSystemClock())
		d.Start()
		time.Sleep(9 * time.Second)
		d.Start()
		wantQuietAfter(t, d, time.Second)
		d.Start()
		wantDrain(t, d, true, true, false)
	})
}

func TestADrainCountsRequestsThatArriveAfterTheQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(time.Second, newSystemClock())
		d.Start()
		wantQuietAfter(t, d, time.Second)
		for range 3 { // requests on a connection that was accepted just before
			d.Enter()
		}
		if d.Requests() != 3 {
			t.Fatalf("%d open, want 3", d.Requests())
		}
		for range 3 {
			d.Leave()
		}
		d.End()
		wantDrain(t, d, true, true, true)
	})
}

func TestTunnelsDoNotDelayTheDrainAndAreCountedSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(0, newSystemClock())
		d.Enter()
		d.Enter()
		d.EnterTunnel()
		if d.Requests() != 1 || d.Tunnels() != 1 {
			t.Fatalf("%d requests and %d tunnels, want 1 and 1", d.Requests(), d.Tunnels())
		}
		d.Start()
		wantDrain(t, d, true, false, false)
		d.EnterTunnel() // the drain does not wait for tunnels
		wantDrain(t, d, true, true, false)
		d.LeaveTunnel()
		d.LeaveTunnel()
		if d.Requests() != 0 || d.Tunnels() != 0 {
			t.Fatalf("%d requests and %d tunnels, want none", d.Requests(), d.Tunnels())
		}
	})
}

func TestLeaveWithoutEnterPanics(t *testing.T) {
	testkit.WantBug(t, newDrain(time.Second, newSystemClock()).Leave)
	testkit.WantBug(t, newDrain(time.Second, newSystemClock()).LeaveTunnel)
}

// TestADrainWithoutAQuietPeriodHandlesConcurrentRequests starts drains while goroutines
// begin and end requests. In addition, one request begins before each drain and stays
// open until all goroutines have finished. The drain must become quiet, but only after
// that request has ended.
func TestADrainWithoutAQuietPeriodHandlesConcurrentRequests(t *testing.T) {
	for range 500 {
		d := newDrain(0, newSystemClock())
		d.Enter()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 5 {
					d.Enter()
					d.Leave()
				}
			})
		}
		wg.Go(d.Start)
		wg.Wait()
		if isClosed(d.Quiet()) {
			t.Fatal("quiet while a request is open")
		}
		d.Leave()
		select {
		case <-d.Quiet():
		case <-time.After(time.Minute):
			t.Fatalf("not quiet with %d open", d.Requests())
		}
	}
}
