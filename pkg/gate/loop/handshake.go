package loop

import (
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Handshaker is a Codec that begins with a handshake.
type Handshaker interface {
	Codec
	Handshake() error
}

// Waker is told, on any goroutine, that a handshake has ended: a Handle.
type Waker interface{ Wake() }

// handshakeWorker is a goroutine that runs handshakes, one after the other. They need a
// stack of 32 KiB; growing one anew would take some 40 µs of CPU time.
type handshakeWorker struct{ work chan *handshake }

// Shakers that a loop keeps after a burst, and during one.
const (
	minIdleWorkers = 2
	maxIdleWorkers = 64
)

func (l *Loop) handshakeWorker() *handshakeWorker {
	if g := l.handshakeWorkers.Get(); g != nil {
		return g
	}
	g := &handshakeWorker{make(chan *handshake, 1)}
	go func() {
		for h := range g.work {
			h.run()
		}
	}()
	return g
}

// end lets the goroutine return.
func (g *handshakeWorker) end() { close(g.work) }

// handshake runs the handshake of a codec, which is written for calls that
// block, on the goroutine of a shaker. The socket stays registered with its loop,
// which reports its events here. mu keeps the loop from closing the descriptor
// during a system call of the goroutine.
type handshake struct {
	sock   *Sock
	codec  Handshaker
	worker *handshakeWorker
	slots  chan struct{} // nil: no bound
	owner  Waker

	mu           sync.Mutex
	cond         sync.Cond // event, closed
	event        bool      // the socket had one since the last system call
	closed       bool      // the descriptor may be another connection's
	done         bool
	err          error
	waitingSince int64 // when it began to wait for the peer; 0 = it computes
}

// StartHandshake puts l between s and its user and begins the handshake of its codec,
// off the loop. owner is woken when it has ended; until Shaken reports that, s
// can only be closed, which cancels the handshake. Each handshake that does not
// wait for its peer holds one of slots, unless slots is nil. Not for simulated
// loops: a kernel is not safe for several goroutines.
func (s *Sock) StartHandshake(l *Layer, codec Handshaker, slots chan struct{}, owner Waker) {
	h := &handshake{sock: s, codec: codec, worker: s.loop.handshakeWorker(), slots: slots, owner: owner}
	h.cond.L = &h.mu
	l.codec, l.handshake, s.layer = codec, h, l
	h.worker.work <- h
}

// HandshakeDone reports whether the handshake of Shake has ended, and its error. From
// then on s is used through l, or, after an error, without a layer. Shaken is
// called on the loop.
func (s *Sock) HandshakeDone() (over bool, err error) {
	l := s.layer
	h := l.handshake
	h.mu.Lock()
	over, err = h.done, h.err
	h.mu.Unlock()
	if !over {
		return false, nil
	}
	if !s.loop.handshakeWorkers.Put(h.worker) {
		h.worker.end()
	}
	if l.handshake = nil; err != nil {
		s.layer = nil
		return true, err
	}
	s.Wrap(l)
	return true, nil
}

// HandshakeWaitingSince is when the handshake of Shake began to wait for bytes of the
// peer, on the loop's clock; 0 if it does not.
func (s *Sock) HandshakeWaitingSince() int64 {
	h := s.layer.handshake
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waitingSince
}

func (h *handshake) run() {
	h.acquire()
	err := recoverPanic(h.codec.Handshake)
	h.release()
	h.mu.Lock()
	h.done, h.err = true, err
	closed := h.closed
	h.mu.Unlock()
	if !closed {
		h.owner.Wake()
	}
}

// recoverPanic makes an error of a panic.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

func (h *handshake) acquire() {
	if h.slots != nil {
		h.slots <- struct{}{}
	}
}

func (h *handshake) release() {
	if h.slots != nil {
		<-h.slots
	}
}

// call makes a system call, again after each event until it does not say EAGAIN.
func (h *handshake) call(b []byte, call func(*rawSock, []byte) (int, syscall.Errno)) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.closed {
		h.event = false
		n, e := call(&h.sock.rawSock, b)
		if e == 0 {
			return n, nil
		}
		if e != unix.EAGAIN {
			return 0, e
		}
		h.wait()
	}
	return 0, net.ErrClosed
}

// wait returns after an event. The caller holds mu.
func (h *handshake) wait() {
	h.waitingSince = h.sock.loop.Nanotime()
	h.release()
	for !h.event && !h.closed {
		h.cond.Wait()
	}
	h.waitingSince = 0
	h.mu.Unlock()
	h.acquire()
	h.mu.Lock()
}

func (h *handshake) read(b []byte) (int, error) {
	n, err := h.call(b, (*rawSock).sysRead)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (h *handshake) write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := h.call(b[done:], (*rawSock).sysSend)
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// noteEvent reports an event of the socket.
func (h *handshake) noteEvent() {
	h.mu.Lock()
	h.event = true
	h.mu.Unlock()
	h.cond.Signal()
}

// cancel makes the handshake end, without another system call.
func (h *handshake) cancel() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cond.Signal()
	h.worker.end()
}
