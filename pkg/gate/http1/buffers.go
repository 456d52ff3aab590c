package http1

import (
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// Sizes of buffers. Those that heads and chunks make grow beyond the longest
// size do not outlive their request.
const (
	requestBytes   = 4 << 10  // a request's head, and what of the body came with it
	responseBytes  = 16 << 10 // an answer's head, likewise
	frameBytes     = 4 << 10  // what goes out
	bulkBytes      = 64 << 10 // a long body
	smallBytes     = 4 << 10  // a long body where the gate has no memory left for more
	maxBufferBytes = 2 * bulkBytes
)

// buffer is borrowed for as long as there is something in it.
type buffer struct{ b []byte }

// response is the head of an answer, and the buffer that it came in with what of the
// body did too. It is borrowed from the first byte of the answer until both have
// gone on.
type response struct {
	*buffer
	res wire.Response
}

// bufferPool keeps buffers of one loop and of one size.
type bufferPool struct {
	loop    *loop.Loop
	free    loop.FreeList[buffer]
	size    int
	maxSize int
}

func (p *bufferPool) init(l *loop.Loop, size, longest, keep, most int) {
	p.loop, p.size, p.maxSize = l, size, longest
	p.free.Init(l, keep, most, nil)
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

// maxFreePipes bounds the empty pipes that a loop keeps.
const maxFreePipes = 8

// pipePool keeps the pipes of one loop. Each holds two descriptors of the
// budget.
type pipePool struct {
	loop        *loop.Loop
	budget      *exchange.Descriptors
	free        loop.FreeList[loop.Pipe]
	unsupported bool // the kernel does not splice
}

func (p *pipePool) get() *loop.Pipe {
	if x := p.free.Get(); x != nil {
		return x
	}
	if !p.budget.TryAcquire() {
		return nil // no descriptors: through the buffer, then
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

// put keeps a pipe. One that still holds bytes is of no use to others.
func (p *pipePool) put(x *loop.Pipe) {
	if x.Buffered() > 0 || !p.free.Put(x) {
		p.close(x)
	}
}

// buffers are those of one loop.
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

// bulk gives a buffer for a long body: a small one when the gate has no memory
// left, so that a client that does not read holds little, and the smallest for
// a receiver that takes next to nothing.
func (b *buffers) bulk(takes int) *buffer {
	if takes < minRead {
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

// getResponse gives room for an answer.
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

// request gives a buffer of size bytes for a head.
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
