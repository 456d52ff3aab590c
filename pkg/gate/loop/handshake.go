package loop

import (
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Handshaker is a Codec that requires a handshake before Read and Write.
type Handshaker interface {
	Codec
	Handshake() error
}

// Waker is notified, on any goroutine, when a handshake has ended. A Handle is a Waker.
type Waker interface{ Wake() }

// handshakeWorker is a goroutine that runs one handshake after another. Reusing its stack
// of 32 KiB saves about 40 µs of CPU time per handshake.
type handshakeWorker struct{ work chan *handshake }

// A loop keeps at most maxIdleWorkers idle workers. After a burst of handshakes, it ends
// idle workers that it does not need until minIdleWorkers are left.
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

func (g *handshakeWorker) end() { close(g.work) }

// handshake runs the blocking handshake of a codec on a handshakeWorker. The socket stays
// registered with its loop, which passes its events to noteEvent. mu keeps the loop from
// closing the descriptor during a system call of the worker.
type handshake struct {
	sock   *Sock
	codec  Handshaker
	worker *handshakeWorker
	slots  chan struct{} // limits concurrent handshakes, except those that wait for their peers; nil = no limit
	owner  Waker

	mu           sync.Mutex
	cond         sync.Cond // signals a change of event or closed
	event        bool      // the socket has had an event since the last system call
	closed       bool      // make no system call, because the descriptor may belong to another connection
	done         bool
	err          error
	waitingSince int64 // time at which the handshake began to wait for the peer; 0 = it does not wait
}

// StartHandshake puts the layer l between s and its user, and runs the handshake of the
// codec on another goroutine. The owner is woken when the handshake has ended. Until
// HandshakeDone reports the end, the user may only call Close, which cancels the
// handshake. The capacity of the channel slots limits concurrent handshakes, except those
// that wait for their peers; nil = no limit. Simulated loops do not support handshakes.
func (s *Sock) StartHandshake(l *Layer, codec Handshaker, slots chan struct{}, owner Waker) {
	h := &handshake{sock: s, codec: codec, worker: s.loop.handshakeWorker(), slots: slots, owner: owner}
	h.cond.L = &h.mu
	l.codec, l.handshake, s.layer = codec, h, l
	h.worker.work <- h
}

// HandshakeDone reports whether the handshake has ended. If the handshake has failed, err
// is its error, and HandshakeDone removes the layer that StartHandshake has added to s.
// After a successful handshake, s.Read and s.Write pass the decoded bytes of that layer.
// Call HandshakeDone on the loop.
func (s *Sock) HandshakeDone() (done bool, err error) {
	l := s.layer
	h := l.handshake
	h.mu.Lock()
	done, err = h.done, h.err
	h.mu.Unlock()
	if !done {
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

// HandshakeWaitingSince returns the time on the loop's clock at which the handshake began
// to wait for the peer. It returns 0 if the handshake does not wait.
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

// recoverPanic turns a panic of f into an error.
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

// call makes a system call, and repeats it after the next event if it returns EAGAIN.
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

// wait waits for an event. The caller holds mu.
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

// disconnected implements Layer.Disconnected.
func (h *handshake) disconnected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed || h.sock.peerClosed()
}

func (h *handshake) noteEvent() {
	h.mu.Lock()
	h.event = true
	h.mu.Unlock()
	h.cond.Signal()
}

// cancel ends the handshake and prevents further system calls.
func (h *handshake) cancel() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cond.Signal()
	h.worker.end()
}
