package exchange

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestAHeldExchangeThatJoinsAnotherLineIsHeldNoLonger(t *testing.T) {
	g := &Gate{Config: Config{QueueCapacity: 10, UpstreamWait: 1e9}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Pending.Start(1)
	g.Pending.Refused(1)
	var lacking DialLine
	x, y := &Exchange{}, &Exchange{}
	x.Bind(g, nil, func() {}, nil)
	y.Bind(g, nil, func() {}, nil)
	for _, e := range []*Exchange{x, y} {
		if _, _, o := g.Pending.Hold(e, 2); o != gate.Undecided {
			t.Fatal("not held")
		}
	}
	lacking.Join(x)
	if n := g.Pending.Held(); n != 1 || g.Pending.Holds(x) || lacking.First() != x {
		t.Fatalf("%d held, holds the one that went %v, first of the other line %p", n, g.Pending.Holds(x), lacking.First())
	}
	x.Dial.leave(x)
	y.Dial.leave(y)
	if n := g.Pending.Held(); n != 0 {
		t.Fatalf("%d held when all have left", n)
	}
}

func TestAnExchangeThatStandsInAnotherLineIsHeldLikeAnyOther(t *testing.T) {
	g := &Gate{Config: Config{QueueCapacity: 10, UpstreamWait: 1e9}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Pending.Start(1)
	g.Pending.Refused(1)
	var proving DialLine
	x := &Exchange{}
	x.Bind(g, nil, func() {}, nil)
	proving.Join(x)
	if _, next, o := g.Pending.Hold(x, 2); o != gate.Undecided || next > 2+1e9 {
		t.Fatalf("%s, until %d", o, next)
	}
	if !g.Pending.Holds(x) || g.Pending.Held() != 1 || proving.First() != nil {
		t.Fatalf("held %v, of %d; it stands in the other line: %v", g.Pending.Holds(x), g.Pending.Held(), proving.First() != nil)
	}
	x.Dial.leave(x)
}
