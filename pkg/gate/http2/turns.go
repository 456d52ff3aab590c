package http2

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// What a client may begin or end hundreds of at once is done in turns with what
// others have asked for: a stream that is to reach the container may cost a
// connection to it, and all of them together would hold the others up.

// Costs, in units of some 6 µs.
const (
	unitsPerTurn = 64 // of the loop
	dialUnits    = 7  // beyond 1 for each stream
	endUnits     = 1  // likewise, where it ends
)

// dialPause is how long streams wait to begin after a turn in which connections were made.
// A loop and a container that do nothing else get the processor last, when
// another client asks.
const dialPause = int64(time.Millisecond)

// Streams that have waited begin as others of them are answered: the container
// has others to serve, too, and what it has been given it serves in an order of
// its own. While more wait, what is under way at once grows by an eighth in the
// time of an answer, and with time where no answers come.
const (
	mostAhead  = 64                      // begin before one of them is answered
	growEvery  = 8                       // answers let one more begin
	tick       = int64(time.Millisecond) // without an answer
	growAmount = 8                       // more begin after it
	shrinkBy   = 8                       // a tick takes this part of what answers have left beyond mostAhead
)

// turns are the connections on which streams wait, in a circle: each in its turn
// lets one of them go on.
type turns struct {
	eng    *Engine
	handle loop.Handle
	number uint8       // of the loop's turn
	noted  bool        // Flush will be called at its end
	paused int64       // until then
	ahead  int         // as many streams may begin
	ticked int64       // when the last tick was
	heard  uint8       // answers of growEvery
	silent bool        // no answer since the last tick
	last   *streamLine // whose after is the first; nil = none
}

func (t *turns) init(e *Engine) {
	t.eng, t.ahead, t.ticked = e, mostAhead, e.loop.Now()
	t.handle.Bind(e.loop, t)
}

// Flush is loop.Flusher: the turn is over.
func (t *turns) Flush() { t.number, t.noted = t.number+1, false }

// Step is loop.Routine.
func (t *turns) Step() {
	d := &t.eng.worker.Dialer
	first, now := d.Attempts(), t.eng.loop.Now()
	t.grow(now)
	for left := unitsPerTurn; left > 0; left-- {
		if t.last == nil {
			return
		}
		if (t.ahead == 0 || now < t.paused) && !t.seekEnd() {
			t.handle.Until(max(t.paused, t.grows()))
			return
		}
		before := d.Attempts()
		s := t.take()
		if s.flow.reset {
			left -= endUnits
		} else {
			t.ahead--
			s.paced = true
		}
		s.Step()
		left -= dialUnits * int(d.Attempts()-before)
	}
	if d.Attempts() != first {
		t.paused = t.eng.loop.Nanotime() + dialPause
	}
	t.handle.Wake()
}

// grows is when streams may begin although none is answered; 0 = now.
func (t *turns) grows() int64 {
	if t.ahead > 0 {
		return 0
	}
	return t.ticked + tick
}

// grow does what the time since the last tick asks for.
func (t *turns) grow(now int64) {
	n := (now - t.ticked) / tick
	if n <= 0 {
		return
	}
	if t.ahead < mostAhead && (t.silent || n > 1) {
		t.ahead = int(min(int64(t.ahead)+n*growAmount, mostAhead))
	}
	for range min(n, 64) {
		t.ahead -= max(0, t.ahead-mostAhead+shrinkBy-1) / shrinkBy
	}
	t.ticked, t.silent = t.ticked+n*tick, true
}

// answered lets another stream begin: one that had waited has its answer.
func (t *turns) answered() {
	t.silent = false
	t.ahead++
	if t.last == nil {
		return
	}
	if t.heard++; t.heard == growEvery {
		t.heard = 0
		t.ahead++
	}
	t.handle.Wake()
}

// seekEnd makes it the turn of a stream that only has to end, if a line begins
// with one.
func (t *turns) seekEnd() bool {
	for n := t.last; ; {
		if t.last.after.last.next.flow.reset {
			return true
		}
		if t.last = t.last.after; t.last == n {
			return false
		}
	}
}

// take returns the stream whose turn it is.
func (t *turns) take() *stream {
	n := t.last.after
	s := n.last.next
	switch {
	case s != n.last:
		n.last.next = s.next
		t.last = n
	case n != t.last:
		t.last.after, n.after, n.last = n.after, nil, nil
	default:
		t.last, n.after, n.last = nil, nil, nil
	}
	s.next = nil
	return s
}

// streamLine are the streams of a connection that wait for their turn.
type streamLine struct {
	last  *stream     // whose next is the first; nil = none
	after *streamLine // the next in the circle, if any waits
}

// begin lets s begin: at once if it is the first one of its connection in this
// turn of the loop, so that a client with few streams waits for none with many.
func (n *streamLine) begin(s *stream) {
	t, c := &s.eng().turns, s.conn
	if !t.noted {
		t.noted = true
		t.eng.loop.AtEnd(t)
	}
	if n.last != nil || c.begunIn == t.number {
		s.x.Crowd = true
		n.join(s)
		return
	}
	c.begunIn = t.number
	s.handle.Wake()
}

// join lets s go on when it is its turn, and not before.
func (n *streamLine) join(s *stream) {
	switch t := &s.eng().turns; {
	case s.next != nil: // waits already
		return
	case n.last != nil:
		s.next, n.last.next = n.last.next, s
	default:
		s.next = s
		if t.last == nil {
			n.after = n
			t.handle.Wake()
		} else {
			n.after, t.last.after = t.last.after, n
		}
		t.last = n
	}
	n.last = s
}
