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
	unitsPerIteration = 64 // of the loop
	dialUnits         = 7  // beyond 1 for each stream
	resetUnits        = 1  // likewise, where it ends
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
	baseCredits        = 64                      // begin before one of them is answered
	responsesPerCredit = 8                       // answers let one more begin
	refillInterval     = int64(time.Millisecond) // without an answer
	refillCredits      = 8                       // more begin after it
	decayDivisor       = 8                       // a tick takes this part of what answers have left beyond mostAhead
)

// turns are the connections on which streams wait, in a circle: each in its turn
// lets one of them go on.
type pacer struct {
	eng         *Engine
	handle      loop.Handle
	iteration   uint8       // of the loop's turn
	flushQueued bool        // Flush will be called at its end
	pausedUntil int64       // until then
	credits     int         // as many streams may begin
	refilledAt  int64       // when the last tick was
	responses   uint8       // answers of growEvery
	noResponse  bool        // no answer since the last tick
	last        *startQueue // whose after is the first; nil = none
}

func (t *pacer) init(e *Engine) {
	t.eng, t.credits, t.refilledAt = e, baseCredits, e.loop.Now()
	t.handle.Bind(e.loop, t)
}

// Flush is loop.Flusher: the turn is over.
func (t *pacer) Flush() { t.iteration, t.flushQueued = t.iteration+1, false }

// Step is loop.Routine.
func (t *pacer) Step() {
	d := &t.eng.worker.Dialer
	first, now := d.Attempts(), t.eng.loop.Now()
	t.refill(now)
	for left := unitsPerIteration; left > 0; left-- {
		if t.last == nil {
			return
		}
		if (t.credits == 0 || now < t.pausedUntil) && !t.seekReset() {
			t.handle.Until(max(t.pausedUntil, t.startsAt()))
			return
		}
		before := d.Attempts()
		s := t.dequeue()
		if s.stream.reset {
			left -= resetUnits
		} else {
			t.credits--
			s.begunPaced = true
		}
		s.Step()
		left -= dialUnits * int(d.Attempts()-before)
	}
	if d.Attempts() != first {
		t.pausedUntil = t.eng.loop.Nanotime() + dialPause
	}
	t.handle.Wake()
}

// grows is when streams may begin although none is answered; 0 = now.
func (t *pacer) startsAt() int64 {
	if t.credits > 0 {
		return 0
	}
	return t.refilledAt + refillInterval
}

// grow does what the time since the last tick asks for.
func (t *pacer) refill(now int64) {
	n := (now - t.refilledAt) / refillInterval
	if n <= 0 {
		return
	}
	if t.credits < baseCredits && (t.noResponse || n > 1) {
		t.credits = int(min(int64(t.credits)+n*refillCredits, baseCredits))
	}
	for range min(n, 64) {
		t.credits -= max(0, t.credits-baseCredits+decayDivisor-1) / decayDivisor
	}
	t.refilledAt, t.noResponse = t.refilledAt+n*refillInterval, true
}

// answered lets another stream begin: one that had waited has its answer.
func (t *pacer) responseStarted() {
	t.noResponse = false
	t.credits++
	if t.last == nil {
		return
	}
	if t.responses++; t.responses == responsesPerCredit {
		t.responses = 0
		t.credits++
	}
	t.handle.Wake()
}

// seekEnd makes it the turn of a stream that only has to end, if a line begins
// with one.
func (t *pacer) seekReset() bool {
	for n := t.last; ; {
		if t.last.after.last.next.stream.reset {
			return true
		}
		if t.last = t.last.after; t.last == n {
			return false
		}
	}
}

// take returns the stream whose turn it is.
func (t *pacer) dequeue() *downStream {
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
type startQueue struct {
	last  *downStream // whose next is the first; nil = none
	after *startQueue // the next in the circle, if any waits
}

// begin lets s begin: at once if it is the first one of its connection in this
// turn of the loop, so that a client with few streams waits for none with many.
func (n *startQueue) begin(s *downStream) {
	t, c := &s.eng().pacer, s.conn
	if !t.flushQueued {
		t.flushQueued = true
		t.eng.loop.AtEnd(t)
	}
	if n.last != nil || c.startedIn == t.iteration {
		s.x.Burst = true
		n.join(s)
		return
	}
	c.startedIn = t.iteration
	s.handle.Wake()
}

// join lets s go on when it is its turn, and not before.
func (n *startQueue) join(s *downStream) {
	switch t := &s.eng().pacer; {
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
