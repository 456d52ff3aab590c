package http2

// Each loop counts received bytes that are not consumed and frames that are not written,
// and charges them to the gate's memory for bodies in chunks. One chunk of each loop is
// free of charge.

// addBuffered adds n bytes to the count, even if the memory for bodies is exhausted.
func (e *Engine) addBuffered(n int) {
	e.buffered += n
	for e.overBudget() && e.gate.Bodies.Acquire(budgetChunk) {
		e.reserved += budgetChunk
	}
}

// removeBuffered subtracts n bytes from the count.
func (e *Engine) removeBuffered(n int) {
	e.buffered -= n
	for e.reserved > 0 && e.buffered <= e.reserved-budgetChunk {
		e.gate.Bodies.Release(budgetChunk)
		e.reserved -= budgetChunk
	}
}

// overBudget reports whether the loop buffers more than it could charge to the memory for
// bodies.
func (e *Engine) overBudget() bool { return e.buffered > e.reserved+budgetChunk }

// pressure returns the level of memory pressure.
func (e *Engine) pressure() pressure {
	b := e.gate.Bodies
	return pressureOf(b.Used(), b.Limit(), e.overBudget())
}

// fit replaces a mostly empty buffer, whose bytes from start on cannot be forwarded now,
// by one of the size of its content, if many bytes are in buffers or memory pressure is
// medium.
func (e *Engine) fit(b *buffer, start int32) (*buffer, int32) {
	n := len(b.b) - int(start)
	if cap(b.b) <= 2*n+minWindow || e.bufferBytes < manyBufferBytes && e.pressure() < pressureMedium {
		return b, start
	}
	small := &buffer{b: append(make([]byte, 0, n), b.b[start:]...)}
	e.bufferBytes += n
	e.putBuffer(b)
	return small, 0
}
