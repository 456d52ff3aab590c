package http1

import (
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// Initial sizes of buffers. A buffer that has grown too large is not reused.
const (
	requestBytes   = 4 << 10  // for the head of a request and the body bytes that arrived with it
	responseBytes  = 16 << 10 // for the head of a response and the body bytes that arrived with it
	frameBytes     = 4 << 10  // for output
	bulkBytes      = 64 << 10 // for a long body
	smallBytes     = 4 << 10  // for a long body when the budget for bodies is exhausted
	maxBufferBytes = 2 * bulkBytes
)

type buffer struct{ b []byte }

// response is the head of a response and the buffer that received it. It is held until
// the head and the body bytes in the buffer have been forwarded.
type response struct {
	*buffer
	res wire.Response
}

// bufferPool holds free buffers of one size on one loop.
type bufferPool struct {
	loop    *loop.Loop
	free    loop.FreeList[buffer]
	size    int
	maxSize int
}

func (p *bufferPool) init(l *loop.Loop, size, maxSize, minFree, maxFree int) {
	p.loop, p.size, p.maxSize = l, size, maxSize
	p.free.Init(l, minFree, maxFree, nil)
}

func (p *bufferPool) get() *buffer {
	if x := p.free.Get(); x != nil {
		return x
	}
	return &buffer{b: make([]byte, p.size)}
}

func (p *bufferPool) put(x *buffer) {
	if len(x.b) < p.size || cap(x.b) > p.maxSize || !p.free.Put(x) {
		p.loop.AddGarbage(cap(x.b))
	}
}

const maxFreePipes = 8

// pipePool holds the free pipes of one loop. A pipe has two descriptors, and both are
// acquired from the descriptor budget.
type pipePool struct {
	loop        *loop.Loop
	budget      *exchange.Descriptors
	free        loop.FreeList[loop.Pipe]
	unsupported bool // the kernel does not support splice
}

func (p *pipePool) get() *loop.Pipe {
	if x := p.free.Get(); x != nil {
		return x
	}
	if !p.budget.TryAcquire() {
		return nil // without a pipe, the body is copied instead of spliced
	}
	if !p.budget.TryAcquire() {
		p.budget.Release()
		return nil
	}
	x, err := p.loop.NewPipe()
	if err != nil {
		p.release()
		return nil
	}
	return x
}

func (p *pipePool) release() {
	p.budget.Release()
	p.budget.Release()
}

func (p *pipePool) close(x *loop.Pipe) {
	x.Close()
	p.release()
}

// put keeps a pipe for reuse, unless it still contains bytes.
func (p *pipePool) put(x *loop.Pipe) {
	if x.Buffered() > 0 || !p.free.Put(x) {
		p.close(x)
	}
}

// buffers holds the pools of one loop.
type buffers struct {
	loop          *loop.Loop
	heads, bodies *exchange.Budget

	requests, responseBufs, frames, bulks bufferPool
	responses                             loop.FreeList[response]
	pipes                                 pipePool
}

func (b *buffers) init(g *exchange.Gate, l *loop.Loop) {
	b.loop, b.heads, b.bodies = l, g.Heads, g.Bodies
	b.pipes.loop, b.pipes.budget = l, g.Descriptors
	b.pipes.free.Init(l, 0, maxFreePipes, b.pipes.close)
	b.requests.init(l, requestBytes, requestBytes, 8, 1024)
	b.responseBufs.init(l, responseBytes, responseBytes, 8, 64)
	b.responses.Init(l, 8, 64, nil)
	b.frames.init(l, frameBytes, maxBufferBytes, 8, 64)
	b.bulks.init(l, bulkBytes, bulkBytes, 2, 16)
}

// bulk returns a buffer for a long body. capacity is the number of bytes that the
// receiver would accept. If the budget is exhausted, the buffer is small, so that clients
// that do not read cannot hold much memory.
func (b *buffers) bulk(capacity int) *buffer {
	if capacity < minRead {
		return &buffer{b: make([]byte, minRead)}
	}
	if b.bodies.Acquire(bulkBytes) {
		return b.bulks.get()
	}
	return &buffer{b: make([]byte, smallBytes)}
}

func (b *buffers) putBulk(x *buffer) {
	if len(x.b) == bulkBytes {
		b.bodies.Release(bulkBytes)
	}
	b.bulks.put(x)
}

func (b *buffers) getResponse() *response {
	a := b.responses.Get()
	if a == nil {
		a = &response{}
	}
	a.buffer = b.responseBufs.get()
	return a
}

func (b *buffers) putResponse(a *response) {
	b.responseBufs.put(a.buffer)
	a.buffer = nil
	a.res.Reset()
	b.responses.Put(a)
}

func (b *buffers) request(size int) *buffer {
	switch size {
	case requestBytes:
		return b.requests.get()
	case responseBytes:
		return b.responseBufs.get()
	}
	return &buffer{b: make([]byte, size)}
}

func (b *buffers) putRequest(x *buffer) {
	switch len(x.b) {
	case requestBytes:
		b.requests.put(x)
	case responseBytes:
		b.responseBufs.put(x)
	default:
		b.loop.AddGarbage(len(x.b))
	}
}
