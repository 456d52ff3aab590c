package origin

import (
	"container/heap"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/socket"
)

// A loop serves all connections of an origin from one thread.
type loop struct {
	poller  *socket.Poller
	listens map[int]bool // listeners; Main watches them once they listen
	conns   []*conn      // by descriptor
	timers  timers
	scratch []byte
	h2      *h2
	slots   int // in the place of what requests say; 0 = what they say
	random  *rand.Rand
}

func newLoop() (*loop, error) {
	poller, err := socket.NewPoller()
	if err != nil {
		return nil, err
	}
	return &loop{
		poller:  poller,
		listens: map[int]bool{},
		scratch: make([]byte, 256<<10),
		h2:      newH2(),
		random:  rand.New(rand.NewPCG(1, 1)),
	}, nil
}

// slowness is how many times longer one more request takes than alone: with
// twice as many as there are slots for, the throughput is halved.
func (l *loop) slowness(slots int) float64 {
	if slots > 0 && l.slots > 0 {
		slots = l.slots
	}
	if n := len(l.timers) + 1; slots > 0 && n > slots {
		over := float64(n) / float64(slots)
		return over * over
	}
	return 1
}

// varied is a factor within spread around 1, from a sequence that is the same in
// each run.
func (l *loop) varied(spread float64) float64 {
	if spread == 0 {
		return 1
	}
	return 1 + spread*(2*l.random.Float64()-1)
}

func (l *loop) run() error {
	runtime.LockOSThread()
	socket.SharpTimers()
	for {
		for _, e := range l.poller.Wait(l.untilTimer()) {
			fd := int(e.Fd)
			if l.listens[fd] {
				if err := l.accept(fd); err != nil {
					return err
				}
				continue
			}
			c := l.conns[fd]
			if c == nil {
				continue // closed earlier in this batch
			}
			c.ready(e.Events)
		}
		l.expire()
	}
}

func (l *loop) accept(listener int) error {
	for range 64 { // then the other connections get their turn
		fd, err := socket.Accept(listener)
		if err != nil {
			return nil // EAGAIN, or a client that left meanwhile
		}
		for len(l.conns) <= fd {
			l.conns = append(l.conns, make([]*conn, len(l.conns)+64)...)
		}
		c := &conn{loop: l, fd: fd, watched: socket.Readable, timer: -1}
		l.conns[fd] = c
		if err := l.poller.Add(fd, c.watched); err != nil {
			return err
		}
	}
	return nil
}

// idleWait bounds a wait without a timer.
const idleWait = time.Second

func (l *loop) untilTimer() time.Duration {
	if len(l.timers) == 0 {
		return idleWait
	}
	return min(idleWait, time.Duration(l.timers[0].due-clock.Now()))
}

func (l *loop) expire() {
	for len(l.timers) > 0 {
		c := l.timers[0]
		now := clock.Now()
		if c.due > now {
			return
		}
		heap.Pop(&l.timers)
		c.expired(now)
	}
}

func (l *loop) schedule(c *conn, due int64) {
	c.due = due
	if c.timer < 0 {
		heap.Push(&l.timers, c)
	} else {
		heap.Fix(&l.timers, c.timer)
	}
}

// timers is a heap of connections by due time.
type timers []*conn

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].due < t[j].due }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i]; t[i].timer, t[j].timer = i, j }
func (t *timers) Push(x any)        { c := x.(*conn); c.timer = len(*t); *t = append(*t, c) }
func (t *timers) Pop() any {
	old := *t
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	c.timer = -1
	return c
}
