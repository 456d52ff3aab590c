package loop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const eventsPerWait = 128

// fewEvents is how many events a batch may have for the loop to wait at once
// after it, instead of asking first whether there is more by now.
const fewEvents = 2

// busyIterations is after how many batches in a row the loop disarms its wakeup poller.
const busyIterations = 4

// Loop is one event loop. Create it with New, run it with Run on a goroutine
// of its own. Unless said otherwise its methods, and those of its sockets, may
// be called only on the loop.
type Loop struct {
	system
	poller
	inbox
	freeLists
	flushes
	done             chan struct{} // closed when a simulated loop has ended
	events           [eventsPerWait]unix.EpollEvent
	socks            []*Sock // by descriptor
	gen              int32
	now              int64
	live             []*Handle // the loop does not end before they are done
	handshakeWorkers FreeList[handshakeWorker]
	timers           timerHeap
	cork             []byte // what a layer encodes, on its way to the kernel
	wakeup           Sock
	closing          bool
}

// New creates a loop. It holds three descriptors until Run has returned.
func New() (*Loop, error) {
	l := newLoop(nil)
	if err := l.open(); err != nil {
		l.poller.close()
		return nil, fmt.Errorf("creating an event loop: %w", err)
	}
	return l, nil
}

// newLoop is what all kinds of loops begin with. k is nil but in simulations.
func newLoop(k Kernel) *Loop {
	l := &Loop{system: system{k}, poller: poller{epfd: -1, wakeAt: math.MaxInt64}}
	l.now = l.Nanotime()
	l.handshakeWorkers.Init(l, minIdleWorkers, maxIdleWorkers, (*handshakeWorker).end)
	return l
}

func (l *Loop) open() error {
	if err := l.poller.open(); err != nil {
		return err
	}
	efd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	if err := l.Register(&l.wakeup, efd, wakeupHandler{}); err != nil {
		_ = unix.Close(efd)
		return err
	}
	return nil
}

// Run serves events until Close. It returns nil then, and otherwise the error
// that broke the loop.
func (l *Loop) Run() error {
	if l.kernel != nil {
		<-l.done
		return nil
	}
	defer l.release()
	for {
		err := l.poller.raw.Read(l.serve)
		switch {
		case err == nil:
			return nil // serve says that the loop is closing
		case errors.Is(err, os.ErrDeadlineExceeded):
			l.poller.wakeAt = math.MaxInt64
			if err := l.poller.file.SetReadDeadline(time.Time{}); err != nil {
				return fmt.Errorf("event loop: %w", err)
			}
		default:
			return fmt.Errorf("event loop: %w", err)
		}
	}
}

// serve handles everything that is due. It returns false when there is
// nothing left to do, which makes the netpoller wait for the wakeup poller.
func (l *Loop) serve(uintptr) bool {
	l.sleeping.Store(false)
	for turn := 1; ; turn++ {
		n := l.pollNow()
		l.now = l.Nanotime()
		again := n > fewEvents
		for i := range l.events[:n] { // before any of them is handled, for Sock.QuietSincePoll
			if s := l.sockOf(&l.events[i]); s != nil {
				s.note(l.events[i].Events)
			}
		}
		for i := range l.events[:n] {
			if l.dispatch(&l.events[i]) {
				again = true
			}
		}
		if l.runWoken() {
			again = true
		}
		l.runTimers()
		l.flushes.run()
		if l.closing && len(l.live) == 0 {
			return true
		}
		if again {
			if turn == busyIterations {
				l.disarm(true)
			}
			continue
		}
		l.arm(l.nextDeadline())
		l.disarm(false)
		l.sleeping.Store(true)
		if l.inbox.empty() {
			return false
		}
		l.sleeping.Store(false)
		turn = 0 // it was not busy all the time
	}
}

// pollNow collects events without waiting. A raw system call: it never blocks,
// so the scheduler need not know of it.
func (l *Loop) pollNow() int {
	if l.kernel != nil {
		return l.kernel.Poll(l, l.events[:])
	}
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epfd), uintptr(unsafe.Pointer(&l.events[0])), eventsPerWait, 0, 0, 0)
	if e != 0 {
		return 0 // EINTR; anything else comes back from the netpoller
	}
	return int(n)
}

// dispatch delivers an event. It reports whether there may be more of the same
// that the wakeup poller will not report.
func (l *Loop) dispatch(ev *unix.EpollEvent) bool {
	s := l.sockOf(ev)
	if s == nil {
		return false
	}
	level := s.levelTriggered
	s.handler.Event(s)
	return level
}

// sockOf returns the socket of an event, or nil if it was closed earlier in this batch;
// its descriptor number may be in use again.
func (l *Loop) sockOf(ev *unix.EpollEvent) *Sock {
	if s := l.socks[ev.Fd]; s != nil && s.gen == ev.Pad {
		return s
	}
	return nil
}

// runWoken runs the steps of those that were woken, and what was posted.
func (l *Loop) runWoken() bool {
	woken, posted := l.inbox.take()
	for i, h := range woken {
		woken[i] = nil
		h.woken.Store(false)
		h.routine.Step()
	}
	l.recycled = woken
	for _, f := range posted {
		f()
	}
	return len(woken)+len(posted) > 0
}

// Post runs f on the loop, soon. It may be called from any goroutine, and
// does nothing once the loop has ended.
func (l *Loop) Post(f func()) {
	l.inbox.post(f)
	l.wakeUp()
}

func (l *Loop) wakeUp() {
	if !l.sleeping.Load() || !l.sleeping.CompareAndSwap(true, false) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed: // the descriptor may be another file's by now
	case l.kernel != nil:
		l.kernel.WakeUp(l)
	default:
		one := uint64(1)
		_, _ = unix.Write(l.wakeup.fd, (*[8]byte)(unsafe.Pointer(&one))[:])
	}
}

// Close asks the loop to end: every live handle runs a step, which finds
// Closing true; Run returns when the last one is done. It may be called from
// any goroutine.
func (l *Loop) Close() {
	l.Post(func() {
		l.closing = true
		for _, h := range l.live {
			h.Wake()
		}
	})
}

// Closing tells a routine that it must come to an end.
func (l *Loop) Closing() bool { return l.closing }

// Now is the loop's clock in nanoseconds, read once per batch of events.
func (l *Loop) Now() int64 { return l.now }

func (l *Loop) release() {
	l.inbox.close()
	for _, s := range l.lists {
		s.discardOldest(s.Len())
	}
	for _, s := range l.socks {
		if s != nil {
			s.Close()
		}
	}
	if l.kernel == nil {
		l.poller.close()
	}
}

type wakeupHandler struct{}

func (wakeupHandler) Event(s *Sock) {
	var b [8]byte
	_, _ = unix.Read(s.fd, b[:])
}

var epoch = time.Now()

// nanotime is monotonic, in nanoseconds since the process began.
func nanotime() int64 { return int64(time.Since(epoch)) + 1 }

// Nanotime is Loop.Nanotime of loops that are not simulated.
func Nanotime() int64 { return nanotime() }

// TimeOf converts an instant of the loop's clock to wall-clock time.
func TimeOf(ns int64) time.Time { return epoch.Add(time.Duration(ns - 1)) }
