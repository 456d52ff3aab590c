package http2

// Streams that clients have opened begin in turns: one that is to reach the
// container may cost a connection to it, and a client that opens hundreds at once
// would hold the others up for as long as all of them take.

// beginsPerTurn is how many streams begin in one turn of the loop, beyond one for
// each connection.
const beginsPerTurn = 64

// turns say what has begun in this turn of the loop.
type turns struct {
	number uint32
	begun  int
	crowds int // connections on which streams wait
}

// Flush is loop.Flusher: the turn is over.
func (t *turns) Flush() { t.number, t.begun = t.number+1, 0 }

// newcomers are the streams of a connection that are to begin in another turn.
type newcomers struct {
	last    *stream // whose next is the first; nil = none
	begunIn uint32  // the turn in which a stream of the connection has begun last, plus 1
}

// begin lets s begin now, or behind those of its connection that wait already.
func (n *newcomers) begin(s *stream) {
	t := &s.eng().turns
	if n.last == nil && (t.begun < beginsPerTurn || n.begunIn != t.number+1) {
		n.note(s.eng())
		s.handle.Wake()
		return
	}
	if s.next = s; n.last != nil {
		s.next, n.last.next = n.last.next, s
	} else {
		t.crowds++
		s.conn.handle.Wake()
	}
	n.last = s
}

// note notes that a stream of the connection begins in this turn.
func (n *newcomers) note(e *Engine) {
	t := &e.turns
	if n.begunIn = t.number + 1; t.begun == 0 {
		e.loop.AtEnd(t)
	}
	t.begun++
}

// more lets some of those begin that wait: the connection's share of a turn. A
// stream that has been reset meanwhile costs nothing. It reports whether others
// wait for another turn.
func (n *newcomers) more(e *Engine) bool {
	if n.last != nil && n.begunIn != e.turns.number+1 {
		n.note(e)
		for left := max(1, beginsPerTurn/e.turns.crowds); left > 0 && n.last != nil; {
			if s := n.take(); !s.flow.reset {
				left--
			}
		}
	}
	return n.last != nil
}

// take wakes the first of those that wait.
func (n *newcomers) take() *stream {
	s := n.last.next
	if n.last.next = s.next; s == n.last {
		n.last = nil
		s.eng().turns.crowds--
	}
	s.next = nil
	s.handle.Wake()
	return s
}

// end wakes all of those that wait.
func (n *newcomers) end() {
	for n.last != nil {
		n.take()
	}
}
