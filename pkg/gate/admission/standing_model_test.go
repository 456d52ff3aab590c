//go:build !race

package admission

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/atomic"
)

// clientTimeout is how long the clients of these tests wait for a response.
const clientTimeout = 5 * time.Second

// visit runs one request. It returns the latency, or false if the request was rejected or
// the client disconnected.
func visit(a *Controller, service time.Duration) (took time.Duration, served bool) {
	begin := time.Now()
	woken := make(chan struct{}, 1)
	w := &Waiter{Notify: func() { woken <- struct{}{} }}
	switch a.Acquire(w) {
	case Rejected:
		return 0, false
	case Queued:
		select {
		case <-woken:
		case <-time.After(clientTimeout):
		}
		if !w.Admitted() && a.Withdraw(w) {
			return 0, false
		}
	}
	time.Sleep(service)
	a.Release()
	took = time.Since(begin)
	return took, took <= clientTimeout
}

// overloaded simulates a load of three times the capacity for a minute. It returns the
// goodput of the second half as a share of the capacity. The parameter within is the
// longest latency of a response that counts as goodput.
func overloaded(slots int, service, within time.Duration, shed bool) (share float64) {
	const last = time.Minute
	a := New(Config{Limit: slots, CapacityPerSlot: 10, ShedStanding: shed})
	var good atomic.Int64
	start := time.Now()
	for time.Since(start) < last {
		go func() {
			if took, served := visit(a, service); served && took <= within && time.Since(start) > last/2 && time.Since(start) <= last {
				good.Inc()
			}
		}()
		time.Sleep(service / time.Duration(3*slots))
	}
	synctest.Wait()
	capacity := float64(slots) / service.Seconds()
	return float64(good.Load()) / (last / 2).Seconds() / capacity
}

func TestSheddingAStandingQueueKeepsGoodputNearTheCapacity(t *testing.T) {
	for _, c := range []struct {
		slots           int
		service, within time.Duration
	}{{20, 20 * time.Millisecond, time.Second}, {20, 200 * time.Millisecond, time.Second}, {20, time.Second, clientTimeout}, {1, time.Second, clientTimeout}, {4, 2 * time.Second, clientTimeout}} {
		t.Run(fmt.Sprintf("%d slots of %s", c.slots, c.service), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				with := overloaded(c.slots, c.service, c.within, true)
				without := overloaded(c.slots, c.service, c.within, false)
				t.Logf("goodput %.0f %% of the capacity, %.0f %% without", 100*with, 100*without)
				if with < 0.95 {
					t.Errorf("goodput is %.0f %% of the capacity", 100*with)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}
