package loop

import (
	"golang.org/x/sys/unix"
)

// pipeBytes is the requested capacity of a Pipe. The kernel may grant less.
const pipeBytes = 1 << 20

// Pipe moves bytes between sockets without copying them through the process
// (splice(2)). It belongs to one loop.
type Pipe struct {
	loop     *Loop
	r, w     int
	buffered int
}

// NewPipe creates a pipe. The error is that of the system call.
func (l *Loop) NewPipe() (*Pipe, error) {
	if l.kernel != nil {
		r, w, err := l.kernel.Pipe()
		if err != nil {
			return nil, err
		}
		return &Pipe{loop: l, r: r, w: w}, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeBytes)
	return &Pipe{loop: l, r: fds[0], w: fds[1]}, nil
}

// Buffered returns the number of bytes in the pipe.
func (p *Pipe) Buffered() int { return p.buffered }

// Close closes the descriptors and discards buffered bytes.
func (p *Pipe) Close() {
	p.loop.CloseDescriptor(p.r)
	p.loop.CloseDescriptor(p.w)
}

func (p *Pipe) splice(from, to, n int) (int, error) {
	if k := p.loop.kernel; k != nil {
		return k.Splice(from, to, n)
	}
	got, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	return int(got), err
}

// Fill moves at most n received bytes from s into p. The pipe p must be empty. Like
// Sock.Read, Fill returns the number of bytes or an error.
func (p *Pipe) Fill(s *Sock, n int64) (int, error) {
	if !s.readable {
		return 0, ErrAgain
	}
	for {
		got, err := p.splice(s.fd, p.w, int(min(n, pipeBytes)))
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			s.readable = false
			return 0, ErrAgain
		case err == unix.EINVAL || err == unix.ENOSYS:
			return 0, err // splice is not supported for these descriptors; s is unchanged
		case err != nil:
			s.failed = true
			return 0, err
		case got == 0:
			return 0, s.noteEnd()
		}
		p.buffered = got
		return p.buffered, nil
	}
}

// Drain moves the buffered bytes to s until the pipe is empty or s is full. One splice
// may move fewer bytes than requested although s is not full. So Drain repeats it until
// the kernel returns EAGAIN. Drain returns the number of moved bytes. It returns ErrAgain
// only if it could move none.
func (p *Pipe) Drain(s *Sock) (int, error) {
	if !s.writable {
		return 0, ErrAgain
	}
	done := 0
	for p.buffered > 0 {
		n, err := p.splice(p.r, s.fd, p.buffered)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			s.writable = false
			if done == 0 {
				return 0, ErrAgain
			}
			return done, nil
		case err != nil:
			s.noteWriteError(err)
			return done, err
		}
		p.buffered -= n
		done += n
	}
	return done, nil
}
