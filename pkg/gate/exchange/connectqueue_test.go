package exchange

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestAddingAnExchangeToAnotherQueueRemovesItFromTheConnectQueue(t *testing.T) {
	g := &Gate{Config: Config{QueueCapacity: 10, UpstreamWait: 1e9}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Connects.Start(1)
	g.Connects.NoteRefused(1)
	var descriptorQueue WaitQueue
	x, y := &Exchange{}, &Exchange{}
	x.Bind(g, nil, func() {}, nil)
	x.settings = g.settings.Load()
	y.Bind(g, nil, func() {}, nil)
	y.settings = g.settings.Load()
	for _, e := range []*Exchange{x, y} {
		if _, _, o := g.Connects.Enqueue(e, 2); o != gate.Undecided {
			t.Fatal("not queued")
		}
	}
	descriptorQueue.Add(x)
	if n := g.Connects.Len(); n != 1 || g.Connects.Contains(x) || descriptorQueue.First() != x {
		t.Fatalf("%d queued, contains the removed exchange %v, first of the other queue %p", n, g.Connects.Contains(x), descriptorQueue.First())
	}
	x.Dial.cancel(x)
	y.Dial.cancel(y)
	if n := g.Connects.Len(); n != 0 {
		t.Fatalf("%d queued after all were removed", n)
	}
}

func TestAnExchangeInAnotherQueueMayJoinTheConnectQueue(t *testing.T) {
	g := &Gate{Config: Config{QueueCapacity: 10, UpstreamWait: 1e9}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Connects.Start(1)
	g.Connects.NoteRefused(1)
	var protocolQueue WaitQueue
	x := &Exchange{}
	x.Bind(g, nil, func() {}, nil)
	x.settings = g.settings.Load()
	protocolQueue.Add(x)
	if _, next, o := g.Connects.Enqueue(x, 2); o != gate.Undecided || next > 2+1e9 {
		t.Fatalf("%s, until %d", o, next)
	}
	if !g.Connects.Contains(x) || g.Connects.Len() != 1 || protocolQueue.First() != nil {
		t.Fatalf("queued %v, of %d; in the other queue: %v", g.Connects.Contains(x), g.Connects.Len(), protocolQueue.First() != nil)
	}
	x.Dial.cancel(x)
}

func TestQueuedRequestsEndWhenTheContainerHasEnded(t *testing.T) {
	g := &Gate{Config: Config{QueueCapacity: 10, UpstreamWait: 1e9, UpstreamRestartWait: 1e9}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Connects.Start(1)
	g.Connects.NoteReached()
	var woken int
	queued, later := &Exchange{}, &Exchange{}
	queued.Bind(g, nil, func() { woken++ }, nil)
	later.Bind(g, nil, func() {}, nil)
	queued.settings, later.settings = g.settings.Load(), g.settings.Load()

	g.Connects.NoteRefused(2)
	if _, _, o := g.Connects.Enqueue(queued, 2); o != gate.Undecided {
		t.Fatalf("%s before the container has ended", o)
	}
	g.Connects.End()
	if woken != 1 {
		t.Errorf("the queued request was woken %d times", woken)
	}
	for _, x := range []*Exchange{queued, later} {
		if _, _, o := g.Connects.Enqueue(x, 3); o != gate.UpstreamNotListening {
			t.Errorf("%s after the container has ended", o)
		}
		x.Dial.cancel(x)
	}

	// A connection can succeed even after End, because a child process of the container
	// may still be listening. Requests must then be able to connect.
	g.Connects.NoteReached()
	if try, _, o := g.Connects.Enqueue(later, 4); !try || o != gate.Undecided {
		t.Errorf("%s although connections are accepted", o)
	}
	later.Dial.cancel(later)
}
