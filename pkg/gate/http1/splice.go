package http1

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

const (
	// spliceFrom is the shortest rest of a body for which a pipe pays.
	spliceFrom = 256 << 10
	// maxFreePipes bounds the empty pipes that a loop keeps.
	maxFreePipes = 8
)

// splices reports whether the rest of the body is to go through a pipe, which
// p then has: a long one whose end is known by its length, with nothing of it
// in a buffer, between sockets without a layer.
func (p *pump) splices(b *bulkPool) bool {
	if p.body.Kind != wire.BodyLength || p.body.Left < spliceFrom || p.chunked || p.r < p.w || b.plain || !p.src.Readable() || p.src.Layered() || p.dst.Layered() {
		return false
	}
	p.pipe = b.getPipe()
	return p.pipe != nil
}

// splice moves one pipe full, at most. It reports false when nothing more can
// be moved now.
func (p *pump) splice(b *bulkPool) (moved, more bool) {
	if p.pipe.Held() == 0 {
		n, err := p.pipe.Fill(p.src, p.body.Left)
		switch {
		case err == nil:
			p.body.Skip(n)
			p.payload += int64(n)
			moved = true
		case err == loop.ErrAgain:
			b.putPipe(p) // an idle stream keeps no pipe
			return false, false
		case err == unix.EINVAL || err == unix.ENOSYS:
			b.putPipe(p)
			b.plain = true
			return false, true
		case errors.Is(err, io.EOF):
			p.srcErr = io.ErrUnexpectedEOF
			return true, false
		default:
			p.srcErr = err
			return true, false
		}
	}
	n, err := p.pipe.Drain(p.dst)
	p.written += int64(n)
	if err != nil && err != loop.ErrAgain {
		p.dstErr = err
		return true, false
	}
	if err != nil || p.pipe.Held() > 0 {
		return moved || n > 0, false
	}
	if p.body.Ended {
		b.putPipe(p)
	}
	return true, true
}

func (b *bulkPool) getPipe() *loop.Pipe {
	if n := len(b.pipes); n > 0 {
		p := b.pipes[n-1]
		b.pipes = b.pipes[:n-1]
		return p
	}
	p, err := loop.NewPipe()
	if err != nil {
		return nil // no descriptors: through the buffer, then
	}
	return p
}

// putPipe takes the pipe from p. One that still holds bytes is of no use to
// anybody else.
func (b *bulkPool) putPipe(p *pump) {
	pipe := p.pipe
	if pipe == nil {
		return
	}
	p.pipe = nil
	if pipe.Held() > 0 || len(b.pipes) >= maxFreePipes {
		pipe.Close()
		return
	}
	b.pipes = append(b.pipes, pipe)
}

// trim closes the pipes that are free.
func (b *bulkPool) trimPipes() {
	for _, p := range b.pipes {
		p.Close()
	}
	b.pipes = nil
}
