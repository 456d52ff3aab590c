package http2

import "github.com/queuegate/queuegate/pkg/gate/loop"

// pacer starts the streams that clients open in bursts, and ends the streams that are
// reset in bursts. Handling hundreds of them in one iteration would delay the other
// clients of the loop. The start queues of the connections form a ring, and each starts
// one stream per round. The type pacing limits how many streams start.
type pacer struct {
	pacing
	eng         *Engine
	handle      loop.Handle
	iteration   uint8       // number of the loop's iteration
	flushQueued bool        // Flush will be called at the end of the iteration
	pausedUntil int64       // time before which no stream starts
	last        *startQueue // last queue of the ring; its next is the first one; nil = empty ring
}

func (p *pacer) init(e *Engine) {
	p.eng, p.pacing = e, pacing{credits: baseCredits, refilledAt: e.loop.Now()}
	p.handle.Bind(e.loop, p)
}

// Flush implements loop.Flusher. It runs at the end of an iteration.
func (p *pacer) Flush() { p.iteration, p.flushQueued = p.iteration+1, false }

// Step implements loop.Routine.
func (p *pacer) Step() {
	d := &p.eng.worker.Dialer
	attempts, now := d.Attempts(), p.eng.loop.Now()
	p.refill(now)
	for units := unitsPerIteration; units > 0; units-- {
		if p.last == nil {
			return
		}
		if (p.credits == 0 || now < p.pausedUntil) && !p.seekReset() {
			p.handle.SetDeadline(max(p.pausedUntil, p.nextAt()))
			return
		}
		before := d.Attempts()
		s := p.dequeue()
		if s.reset {
			units -= resetUnits
		} else {
			p.credits--
			s.paced = true
		}
		s.Step()
		units -= dialUnits * int(d.Attempts()-before)
	}
	if d.Attempts() != attempts {
		p.pausedUntil = p.eng.loop.Nanotime() + dialPause
	}
	p.handle.Wake()
}

// responseBegan is called when the response to a paced stream begins.
func (p *pacer) responseBegan() {
	p.responded(p.last != nil)
	if p.last != nil {
		p.handle.Wake()
	}
}

// seekReset rotates the ring to a queue whose first stream has been reset. Such a stream
// only has to be ended, which needs no credit. It returns false if there is no such
// queue.
func (p *pacer) seekReset() bool {
	for start := p.last; ; {
		if p.last.next.last.next.reset {
			return true
		}
		if p.last = p.last.next; p.last == start {
			return false
		}
	}
}

// dequeue removes the first stream of the next queue in the ring.
func (p *pacer) dequeue() *downStream {
	q := p.last.next
	s := q.last.next
	switch {
	case s != q.last:
		q.last.next = s.next
		p.last = q
	case q != p.last:
		p.last.next, q.next, q.last = q.next, nil, nil
	default:
		p.last, q.next, q.last = nil, nil, nil
	}
	s.next = nil
	return s
}

// startQueue holds the streams of a connection that wait for the pacer.
type startQueue struct {
	last *downStream // last stream of the queue; its next is the first one; nil = empty
	next *startQueue // next queue in the ring of non-empty queues
}

// start starts s immediately if it is the first stream of the connection in this
// iteration, so that clients with few streams are not delayed. Any other stream is
// queued.
func (q *startQueue) start(s *downStream) {
	p, c := &s.eng().pacer, s.conn
	if !p.flushQueued {
		p.flushQueued = true
		p.eng.loop.FlushLater(p)
	}
	if q.last != nil || c.startedIn == p.iteration {
		s.x.Burst = true
		q.add(s)
		return
	}
	c.startedIn = p.iteration
	s.handle.Wake()
}

// add queues s, unless it is already queued.
func (q *startQueue) add(s *downStream) {
	switch p := &s.eng().pacer; {
	case s.next != nil:
		return
	case q.last != nil:
		s.next, q.last.next = q.last.next, s
	default:
		s.next = s
		if p.last == nil {
			q.next = q
			p.handle.Wake()
		} else {
			q.next, p.last.next = p.last.next, q
		}
		p.last = q
	}
	q.last = s
}
