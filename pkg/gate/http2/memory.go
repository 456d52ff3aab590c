package http2

// The bodies that have come and not been taken, and the frames that wait for
// peers that do not read, are counted on each loop, and taken from the budget
// of the whole gate by chunks. A small part of each loop is free.

const budgetChunk = 256 << 10

// muchLent is when the buffers of a loop are no longer lent in a few sizes.
const manyBufferBytes = 256 << 10

// holdBody notes n octets more. They are there, whether there is memory left
// for them or not.
func (e *Engine) addBuffered(n int) {
	e.buffered += n
	for e.short() && e.gate.Bodies.Acquire(budgetChunk) {
		e.reserved += budgetChunk
	}
}

// dropBody notes n octets less.
func (e *Engine) removeBuffered(n int) {
	e.buffered -= n
	for e.reserved > 0 && e.buffered <= e.reserved-budgetChunk {
		e.gate.Bodies.Release(budgetChunk)
		e.reserved -= budgetChunk
	}
}

// short reports that the loop holds more than there is memory for: peers are
// to send less ahead.
func (e *Engine) short() bool { return e.buffered > e.reserved+budgetChunk }

// pressed reports that a good part of the budget is in use: containers are to send
// less ahead of an answer of which nothing has been taken.
func (e *Engine) pressed() bool {
	b := e.gate.Bodies
	return e.short() || b.Used() >= b.Limit()/16
}

// relaxed reports that next to nothing of it is.
func (e *Engine) relaxed() bool {
	b := e.gate.Bodies
	return !e.short() && b.Used() < b.Limit()/32
}

// tight reports that more than half of the budget is in use, whoever uses it.
func (e *Engine) tight() bool {
	b := e.gate.Bodies
	return b.Used() > b.Limit()/2
}

// fit moves what stands in a buffer from r on, and waits for a peer that takes
// nothing, into one of its size, where many do and a good part of the buffer is
// empty.
func (e *Engine) fit(b *buffer, r int32) (*buffer, int32) {
	n := len(b.b) - int(r)
	if cap(b.b) <= 2*n+minWindow || e.bufferBytes < manyBufferBytes && !e.pressed() {
		return b, r
	}
	small := &buffer{b: append(make([]byte, 0, n), b.b[r:]...)}
	e.bufferBytes += n
	e.putBuffer(b)
	return small, 0
}
