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
	answered := func(at int64) func(*Timeouts) {
		return func(c *Timeouts) { c.startDeadline, c.lastActivity = 0, arrival+at }
	}
	tunnel := func(at int64, longest time.Duration) func(*Timeouts) {
		return func(c *Timeouts) { c.lastActivity = arrival + at; c.BeginTunnel(arrival+at, longest) }
	}
	for _, c := range []struct {
		name   string
		config Config
		then   func(*Timeouts)
		next   int64 // after the arrival; 0 = never
		want   gate.Outcome
	}{
		{"no clock is set", Config{}, never, 0, gate.Served},
		{"request clock", request, never, 30 * ms, gate.RequestTimeout},
		{"bytes do not extend the request timeout", request, moved(29 * ms), 30 * ms, gate.RequestTimeout},
		{"the response does not extend the request timeout", request, answered(29 * ms), 30 * ms, gate.RequestTimeout},
		{"response start", start, never, 20 * ms, gate.ResponseStartTimeout},
		{"bytes of an upload do not extend the response-start timeout", start, moved(19 * ms), 20 * ms, gate.ResponseStartTimeout},
		{"response start ends with the first byte", start, answered(19 * ms), 0, gate.Served},
		{"idle clock", idle, never, 10 * ms, gate.IdleTimeout},
		{"bytes restart the idle timeout", idle, moved(9 * ms), 19 * ms, gate.IdleTimeout},
		{"the idle timeout applies during a response", idle, answered(9 * ms), 19 * ms, gate.IdleTimeout},
		{"idle is first of all", all, never, 10 * ms, gate.IdleTimeout},
		{"response start is first while bytes move", all, moved(15 * ms), 20 * ms, gate.ResponseStartTimeout},
		{"idle is first in an answer", all, answered(15 * ms), 25 * ms, gate.IdleTimeout},
		{"request clock is first at the end", all, answered(25 * ms), 30 * ms, gate.RequestTimeout},
		{"at the same instant the request clock is named", all, answered(20 * ms), 30 * ms, gate.RequestTimeout},
		{"tunnel has no clock but idle", all, tunnel(5*ms, 0), 15 * ms, gate.IdleTimeout},
		{"a tunnel without an idle timeout continues", request, tunnel(5*ms, 0), 0, gate.Served},
		{"tunnel has a longest life", Config{}, tunnel(5*ms, 100*time.Millisecond), 105 * ms, gate.RequestTimeout},
		{"tunnel's life does not begin at the arrival", request, tunnel(29*ms, 30*time.Millisecond), 59 * ms, gate.RequestTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &Gate{Config: c.config}
			if err := g.Init(); err != nil {
				t.Fatal(err)
			}
			k := Timeouts{requestDeadline: 7, startDeadline: 7} // left over from the previous request
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
					t.Errorf("nothing has run out %d ns late", late)
				}
			}
		})
	}
}

func TestEarliestTakesZeroForNever(t *testing.T) {
	for _, c := range [][3]int64{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {3, 5, 3}, {5, 3, 3}, {4, 4, 4}, {0, -1, -1}} {
		if got := gate.Earliest(c[0], c[1]); got != c[2] {
			t.Errorf("Earliest(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
