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

// beginStream lets s begin now, or behind those of its connection that wait already.
func (c *conn) beginStream(s *stream) {
	t := &c.eng.turns
	if c.firstNew == nil && (t.begun < beginsPerTurn || c.begunIn != t.number+1) {
		c.noteBegun()
		s.handle.Wake()
		return
	}
	s.waits = true
	if c.firstNew == nil {
		c.firstNew = s
		t.crowds++
		c.handle.Wake()
	} else {
		c.lastNew.nextNew = s
	}
	c.lastNew = s
}

// noteBegun notes that a stream of the connection begins in this turn.
func (c *conn) noteBegun() {
	t := &c.eng.turns
	if c.begunIn = t.number + 1; t.begun == 0 {
		c.eng.loop.AtEnd(t)
	}
	t.begun++
}

// beginMore lets some of those begin that wait: the connection's share of a turn.
// A stream that has been reset meanwhile costs nothing.
func (c *conn) beginMore() {
	t := &c.eng.turns
	if c.firstNew == nil {
		return
	}
	if c.begunIn != t.number+1 {
		c.noteBegun()
		for left := max(1, beginsPerTurn/t.crowds); left > 0 && c.firstNew != nil; {
			if s := c.takeNew(); !s.flow.reset {
				left--
			}
		}
	}
	if c.firstNew != nil {
		c.handle.Wake()
	}
}

// takeNew wakes the first of those that wait.
func (c *conn) takeNew() *stream {
	s := c.firstNew
	if c.firstNew, s.nextNew, s.waits = s.nextNew, nil, false; c.firstNew == nil {
		c.lastNew = nil
		c.eng.turns.crowds--
	}
	s.handle.Wake()
	return s
}
