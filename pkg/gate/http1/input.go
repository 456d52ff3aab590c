package http1

import (
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// input holds unprocessed bytes from a client: buf.b[r:w].
type input struct {
	bufs       *buffers
	buf        *buffer
	r, w       int
	headMemory int64 // bytes acquired from the budget for heads
	skipped    bool  // skipEmptyLine has skipped a line
}

// skipEmptyLine skips one empty line before a request (RFC 9112 section 2.2). It skips at
// most one per request and reports whether there was one.
func (in *input) skipEmptyLine() bool {
	if in.skipped || in.w < 2 || in.buf.b[0] != '\r' || in.buf.b[1] != '\n' {
		return false
	}
	in.w = copy(in.buf.b, in.buf.b[2:in.w])
	in.skipped = true
	return true
}

// grow doubles the buffer. It returns false if the budget for heads is exhausted.
func (in *input) grow() bool {
	old := in.buf
	size := min(2*len(old.b), wire.MaxHeadBytes+1)
	if more := int64(size - max(exchange.FreeHeadBytes, len(old.b))); more > 0 {
		if !in.bufs.heads.Acquire(more) {
			return false
		}
		in.headMemory += more
	}
	in.buf = in.bufs.request(size)
	copy(in.buf.b, old.b[:in.w])
	in.bufs.putRequest(old)
	return true
}

// shrink replaces a buffer that has grown by one of the default size, if the unprocessed
// bytes fit. The head of the previous request is stored in the old buffer, so the caller
// must no longer use it.
func (in *input) shrink() {
	if in.buf == nil || len(in.buf.b) == requestBytes || in.w-in.r > requestBytes {
		return
	}
	old := in.buf
	in.buf = in.bufs.request(requestBytes)
	in.r, in.w = 0, copy(in.buf.b, old.b[in.r:in.w])
	in.bufs.putRequest(old)
	in.releaseHead()
}

// takeLeftover takes the bytes that follow the request body out of the buffers of rd,
// because they begin the next request. If it returns false, the bytes do not fit because
// the budget for heads is exhausted. Then the caller must close the connection.
func (in *input) takeLeftover(rd *reader) (fits bool) {
	fits = true
	if rd.bulk == nil {
		in.r, in.w = rd.r, rd.w
	} else {
		rest := rd.leftover()
		for in.r, in.w = 0, 0; fits && len(in.buf.b) < len(rest); {
			fits = in.grow()
		}
		if fits {
			in.w = copy(in.buf.b, rest)
		}
	}
	rd.release()
	return fits
}

// releaseHead returns the memory of the head to the budget. Observers read the head until
// the exchange ends, so do not call it earlier.
func (in *input) releaseHead() {
	if in.headMemory > 0 {
		in.bufs.heads.Release(in.headMemory)
		in.headMemory = 0
	}
}

func (in *input) release() {
	in.r, in.w = 0, 0
	if in.buf != nil {
		in.bufs.putRequest(in.buf)
		in.buf = nil
	}
	in.releaseHead()
}

// grow returns a copy of b with twice the size, at most MaxHeadBytes+1.
func grow(b []byte) []byte {
	bigger := make([]byte, min(2*len(b), wire.MaxHeadBytes+1))
	copy(bigger, b)
	return bigger
}
