package http2

// Each loop counts two kinds of bytes: received bytes that have not been consumed, and
// frames that have not been written. It charges them to the gate's memory for bodies in
// chunks. The first chunk of each loop is not charged.

// addBuffered adds n bytes to e.buffered, the count of buffered bytes of the loop. It
// does so even if the memory for bodies is exhausted.
func (e *Engine) addBuffered(n int) {
	e.buffered += n
	for e.overBudget() && e.gate.Bodies.Acquire(budgetChunk) {
		e.reserved += budgetChunk
	}
}

// removeBuffered subtracts n bytes from e.buffered, and releases the chunks of memory for
// bodies that are no longer needed.
func (e *Engine) removeBuffered(n int) {
	e.buffered -= n
	for e.reserved > 0 && e.buffered <= e.reserved-budgetChunk {
		e.gate.Bodies.Release(budgetChunk)
		e.reserved -= budgetChunk
	}
}

// overBudget reports whether the loop buffers more than it was able to charge to the
// memory for bodies.
func (e *Engine) overBudget() bool { return e.buffered > e.reserved+budgetChunk }

// pressure returns the level of memory pressure.
func (e *Engine) pressure() pressure {
	b := e.gate.Bodies
	return pressureOf(b.Used(), b.Limit(), e.overBudget())
}

// fit saves memory. If b is less than about half full, fit moves its content, which is
// b.b[start:], to a new buffer with no unused capacity. Otherwise it returns b unchanged.
// While memory is not scarce, it always returns b unchanged: this is the case if the
// stream buffers use less than manyBufferBytes and the pressure is below medium.
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
