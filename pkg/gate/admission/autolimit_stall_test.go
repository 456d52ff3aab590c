package admission

import (
	"fmt"
	"testing"
	"time"
)

// stallRun simulates a container in steps of 1 ms. The container serves up to 8 requests
// at once at full speed, in 20 ms each. There are 24 clients, each of which always has a
// request. Other clients only hold slots, as tunnels do. The parameters are:
//
//   - holders: the number of the other clients
//   - from: the time at which the other clients start
//   - each: the time for which each of them holds a slot; 0 = for ever
//   - last: the duration of the simulation
//
// The result is the number of responses to the 24 clients in each period of 5 s.
func stallRun(holders int, from, each, last time.Duration) (served []int) {
	const clients, parallel, service = 24, 8, 20.0
	a := NewAutoLimit(LimitRange{Min: 1, Max: 1000})
	limit := a.Limit()
	type request struct{ began, work float64 }
	var working []request
	var held []float64
	queued := clients
	for ms := 0.0; ms < float64(last.Milliseconds()); ms++ {
		if int(ms)%5000 == 0 {
			served = append(served, 0)
		}
		now := int64((ms + 1) * 1e6)
		sample := func(took float64) {
			limit, _ = a.AddSample(now, int64(took*1e6), false, len(working)+len(held))
		}
		speed := min(1, parallel/max(float64(len(working)), 1))
		for i := 0; i < len(working); i++ {
			working[i].work += speed
			if working[i].work >= service {
				sample(ms - working[i].began + 1)
				working[i] = working[len(working)-1]
				working = working[:len(working)-1]
				i--
				queued++
				served[len(served)-1]++
			}
		}
		if each > 0 && len(held) > 0 && ms-held[0] >= float64(each.Milliseconds()) {
			sample(ms - held[0])
			held = held[1:]
		}
		if ms >= float64(from.Milliseconds()) {
			for len(held) < holders && len(held)+len(working) < limit {
				held = append(held, ms)
			}
		}
		for queued > 0 && len(held)+len(working) < limit {
			working = append(working, request{began: ms})
			queued--
		}
		if queued > 0 && int(ms)%1000 == 0 {
			limit, _ = a.CheckStall(now, len(working)+len(held))
		}
	}
	return served
}

// With 8 slots, the container could send 400 responses per second to the 24 clients.
// The test requires 100 per second on average although other clients hold slots.
func TestLongRequestsDoNotFreezeTheAutomaticLimit(t *testing.T) {
	for _, c := range []struct {
		holders    int
		from, each time.Duration
	}{
		{4, 0, 0}, {3, 0, 0}, {4, 10 * time.Second, 0}, {3, 10 * time.Second, 0}, {7, 10 * time.Second, 0},
		{2, 10 * time.Second, 15 * time.Second}, {3, 10 * time.Second, 10 * time.Second}, {4, 10 * time.Second, 3 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d from %v for %v", c.holders, c.from, c.each), func(t *testing.T) {
			served := stallRun(c.holders, c.from, c.each, 100*time.Second)
			total := 0
			for i, n := range served[2:] {
				total += n
				if n < 100 {
					t.Errorf("%d responses within 5 s, after %d s", n, 10+5*i)
				}
			}
			if average := total / len(served[2:]) / 5; average < 100 {
				t.Errorf("%d responses per second on average", average)
			}
			t.Log(served)
		})
	}
}
