package exchange

import (
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestTheFirstTimeoutToExpireDeterminesTheOutcome(t *testing.T) {
	const (
		arrival = int64(1000)
		ms      = int64(time.Millisecond)
	)
	request := Config{RequestTimeout: 30 * time.Millisecond}
	start := Config{ResponseStartTimeout: 20 * time.Millisecond}
	idle := Config{IdleTimeout: 10 * time.Millisecond}
	all := Config{RequestTimeout: 30 * time.Millisecond, ResponseStartTimeout: 20 * time.Millisecond, IdleTimeout: 10 * time.Millisecond}
	never := func(*Timeouts) {}
	moved := func(at int64) func(*Timeouts) { return func(c *Timeouts) { c.lastActivity = arrival + at } }
	responded := func(at int64) func(*Timeouts) {
		return func(c *Timeouts) { c.startDeadline, c.lastActivity = 0, arrival+at }
	}
	tunnel := func(at int64, longest time.Duration) func(*Timeouts) {
		return func(c *Timeouts) { c.lastActivity = arrival + at; c.BeginTunnel(arrival+at, longest) }
	}
	for _, c := range []struct {
		name   string
		config Config
		then   func(*Timeouts)
		next   int64 // NextDeadline in ns after the request's arrival; 0 = none
		want   gate.Outcome
	}{
		{"no timeout is set", Config{}, never, 0, gate.Served},
		{"request timeout", request, never, 30 * ms, gate.RequestTimeout},
		{"bytes do not extend the request timeout", request, moved(29 * ms), 30 * ms, gate.RequestTimeout},
		{"the response does not extend the request timeout", request, responded(29 * ms), 30 * ms, gate.RequestTimeout},
		{"response start", start, never, 20 * ms, gate.ResponseStartTimeout},
		{"bytes of an upload do not extend the response-start timeout", start, moved(19 * ms), 20 * ms, gate.ResponseStartTimeout},
		{"response start ends with the first byte", start, responded(19 * ms), 0, gate.Served},
		{"idle timeout", idle, never, 10 * ms, gate.IdleTimeout},
		{"bytes restart the idle timeout", idle, moved(9 * ms), 19 * ms, gate.IdleTimeout},
		{"the idle timeout applies during a response", idle, responded(9 * ms), 19 * ms, gate.IdleTimeout},
		{"the idle timeout expires first", all, never, 10 * ms, gate.IdleTimeout},
		{"the response-start timeout expires first while bytes are transferred", all, moved(15 * ms), 20 * ms, gate.ResponseStartTimeout},
		{"the idle timeout expires first during a response", all, responded(15 * ms), 25 * ms, gate.IdleTimeout},
		{"the request timeout expires first at the end", all, responded(25 * ms), 30 * ms, gate.RequestTimeout},
		{"at the same instant the request timeout determines the outcome", all, responded(20 * ms), 30 * ms, gate.RequestTimeout},
		{"a tunnel has the idle timeout only", all, tunnel(5*ms, 0), 15 * ms, gate.IdleTimeout},
		{"a tunnel without an idle timeout continues", request, tunnel(5*ms, 0), 0, gate.Served},
		{"a tunnel has a maximum duration", Config{}, tunnel(5*ms, 100*time.Millisecond), 105 * ms, gate.RequestTimeout},
		{"the duration of a tunnel is not measured from the arrival", request, tunnel(29*ms, 30*time.Millisecond), 59 * ms, gate.RequestTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &Gate{Config: c.config}
			if err := g.Init(); err != nil {
				t.Fatal(err)
			}
			k := Timeouts{requestDeadline: 7, startDeadline: 7} // of the previous request
			k.Begin(newSettings(g, &g.Config), arrival)
			if k.Arrived != arrival {
				t.Errorf("arrived at %d", k.Arrived)
			}
			c.then(&k)
			if c.next == 0 {
				if o := k.Expired(1 << 62); o != gate.Undecided || k.NextDeadline() != 0 {
					t.Fatalf("next %d, %v at the end of time; want never", k.NextDeadline(), o)
				}
				return
			}
			if n := k.NextDeadline(); n != arrival+c.next {
				t.Fatalf("next at +%d, want +%d", n-arrival, c.next)
			}
			if o := k.Expired(arrival + c.next - 1); o != gate.Undecided {
				t.Errorf("%v before its time", o)
			}
			for _, late := range []int64{0, 1, int64(time.Hour)} {
				if o := k.Expired(arrival + c.next + late); o != c.want && late < 2 {
					t.Errorf("%v %d ns late, want %v", o, late, c.want)
				} else if o == gate.Undecided {
					t.Errorf("no timeout has expired %d ns later", late)
				}
			}
		})
	}
}

func TestEarliestTreatsZeroAsNever(t *testing.T) {
	for _, c := range [][3]int64{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {3, 5, 3}, {5, 3, 3}, {4, 4, 4}, {0, -1, -1}} {
		if got := gate.Earliest(c[0], c[1]); got != c[2] {
			t.Errorf("Earliest(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
