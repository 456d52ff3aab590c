package exchange

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestAnExchangeThatJoinsAnotherQueueLeavesTheConnectQueue(t *testing.T) {
	g := &Gate{Config: Config{QueueCapacity: 10, UpstreamWait: 1e9}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Connects.Start(1)
	g.Connects.Refused(1)
	var lacking WaitQueue
	x, y := &Exchange{}, &Exchange{}
	x.Bind(g, nil, func() {}, nil)
	x.settings = g.settings.Load()
	y.Bind(g, nil, func() {}, nil)
	y.settings = g.settings.Load()
	for _, e := range []*Exchange{x, y} {
		if _, _, o := g.Connects.Hold(e, 2); o != gate.Undecided {
			t.Fatal("not held")
		}
	}
	lacking.Add(x)
	if n := g.Connects.Held(); n != 1 || g.Connects.Holds(x) || lacking.First() != x {
		t.Fatalf("%d queued, contains the one that left %v, first of the other queue %p", n, g.Connects.Holds(x), lacking.First())
	}
	x.Dial.leave(x)
	y.Dial.leave(y)
	if n := g.Connects.Held(); n != 0 {
		t.Fatalf("%d held when all have left", n)
	}
}

func TestAnExchangeInAnotherQueueMayJoinTheConnectQueue(t *testing.T) {
	g := &Gate{Config: Config{QueueCapacity: 10, UpstreamWait: 1e9}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Connects.Start(1)
	g.Connects.Refused(1)
	var proving WaitQueue
	x := &Exchange{}
	x.Bind(g, nil, func() {}, nil)
	x.settings = g.settings.Load()
	proving.Add(x)
	if _, next, o := g.Connects.Hold(x, 2); o != gate.Undecided || next > 2+1e9 {
		t.Fatalf("%s, until %d", o, next)
	}
	if !g.Connects.Holds(x) || g.Connects.Held() != 1 || proving.First() != nil {
		t.Fatalf("queued %v, of %d; it is in the other queue: %v", g.Connects.Holds(x), g.Connects.Held(), proving.First() != nil)
	}
	x.Dial.leave(x)
}
