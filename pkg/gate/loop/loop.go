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

// fewEvents is the maximum number of events in a batch after which the loop may block.
// After larger batches, more events are likely, so the loop polls again.
const fewEvents = 2

// busyIterations is the number of consecutive iterations without a sleep after which the
// loop counts as busy. The loop then disarms its wakeup poller, because it polls for
// events without a wake-up.
const busyIterations = 4

// Loop is an event loop. Create it with New and call Run on a goroutine of its own.
// Unless stated otherwise, its methods and those of its sockets may be called on the loop
// only.
type Loop struct {
	system
	poller
	inbox
	freeLists
	flushes
	done             chan struct{} // closed when a simulated loop has ended
	events           [eventsPerWait]unix.EpollEvent
	socks            []*Sock // indexed by descriptor
	gen              int32
	now              int64
	live             []*Handle // begun and not ended; the loop ends when none is left
	handshakeWorkers FreeList[handshakeWorker]
	timers           timerHeap
	cork             []byte // buffer in which a layer encodes
	wakeup           Sock
	closing          bool
	polledAll        bool // the last poll returned all pending events
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

// newLoop initializes a loop; k is nil outside of simulations.
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

// Run handles events until Close has been called and no handle is live. It returns an
// error if it cannot wait for events.
func (l *Loop) Run() error {
	if l.kernel != nil {
		<-l.done
		return nil
	}
	defer l.release()
	for {
		err := l.poller.raw.Read(l.runPending)
		switch {
		case err == nil:
			return nil // runPending returned true: the loop has ended
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

// runPending handles all pending work. It returns true if the loop has ended, and false
// if the netpoller must wait for events.
func (l *Loop) runPending(uintptr) bool {
	l.sleeping.Store(false)
	for iteration := 1; ; iteration++ {
		n := l.pollNow()
		l.now = l.Nanotime()
		l.note(n)
		more := n > fewEvents
		for i := range l.events[:n] {
			if l.dispatch(&l.events[i]) {
				more = true
			}
		}
		if l.runWoken() {
			more = true
		}
		l.runTimers()
		l.flushes.run()
		if l.closing && len(l.live) == 0 {
			return true
		}
		if more {
			if iteration == busyIterations {
				l.disarm(true)
			}
			continue
		}
		l.arm(l.nextDeadline())
		if l.disarmed {
			l.disarm(false)
			iteration = 0 // poll once more, because watch may have missed an event
			continue
		}
		l.sleeping.Store(true)
		if l.inbox.empty() {
			return false
		}
		l.sleeping.Store(false)
		iteration = 0
	}
}

// pollNow collects pending events without waiting for further ones. It uses a raw system
// call, of which Go's scheduler is not notified. This is safe, because the system call
// never blocks.
func (l *Loop) pollNow() int {
	if l.kernel != nil {
		n, more := l.kernel.Poll(l, l.events[:])
		l.polledAll = !more
		return n
	}
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epfd), uintptr(unsafe.Pointer(&l.events[0])), eventsPerWait, 0, 0, 0)
	if e != 0 {
		l.polledAll = false
		return 0 // EINTR means no events; the netpoller will report any other error
	}
	l.polledAll = n < eventsPerWait
	return int(n)
}

// note records the first n elements of l.events in the state of their sockets. It is
// called before the handlers of these events, so that each handler sees the current state
// of all sockets.
func (l *Loop) note(n int) {
	for i := range l.events[:n] {
		if s := l.registered(&l.events[i]); s != nil {
			s.note(l.events[i].Events)
		}
	}
}

// dispatch calls the handler of an event. It returns true if the loop must poll again
// before it sleeps, because the socket is level-triggered. Such a socket may have further
// events, and the wakeup poller does not report them, because it is edge-triggered.
func (l *Loop) dispatch(ev *unix.EpollEvent) bool {
	s := l.registered(ev)
	if s == nil {
		return false
	}
	level := s.levelTriggered
	s.handler.Event(s)
	return level
}

// registered returns the socket of an event. It returns nil if the socket was closed
// earlier in this batch, even if a new socket has the same descriptor number.
func (l *Loop) registered(ev *unix.EpollEvent) *Sock {
	if s := l.socks[ev.Fd]; s != nil && s.gen == ev.Pad {
		return s
	}
	return nil
}

// runWoken runs a step of each woken handle and calls each posted function. It reports
// whether there were any.
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

// Post runs f on the loop soon. It may be called from any goroutine. It does nothing once
// the loop has ended.
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
	case l.closed: // after the end of the loop, its descriptor may have been reused
	case l.kernel != nil:
		l.kernel.WakeUp(l)
	default:
		one := uint64(1)
		_, _ = unix.Write(l.wakeup.fd, (*[8]byte)(unsafe.Pointer(&one))[:])
	}
}

// Close asks the loop to end. It wakes all live handles. Their routines must then end,
// because Closing returns true. Run returns when no handle is live. Close may be called
// from any goroutine.
func (l *Loop) Close() {
	l.Post(func() {
		l.closing = true
		for _, h := range l.live {
			h.Wake()
		}
	})
}

// Closing reports whether Close has been called. Each routine must then end.
func (l *Loop) Closing() bool { return l.closing }

// Now returns the time in ns on the loop's clock, which is read once per batch of events.
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

// nanotime returns the monotonic time in nanoseconds since the process began, plus 1. The
// 1 ensures that the result is never 0. A deadline of 0 would mean that there is no
// deadline.
func nanotime() int64 { return int64(time.Since(epoch)) + 1 }

// Nanotime reads the clock of all loops that are not simulated. For these loops, the
// method Loop.Nanotime returns the same time.
func Nanotime() int64 { return nanotime() }

// TimeOf converts a time of the loop's clock to wall-clock time.
func TimeOf(ns int64) time.Time { return epoch.Add(time.Duration(ns - 1)) }
