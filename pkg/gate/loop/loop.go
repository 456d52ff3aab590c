package loop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"
)

// Coroutines that a loop keeps for the next burst: those beyond the most end
// with their conversation.
const (
	keptTasks    = 8
	maxFreeTasks = 1024
)

const eventsPerWait = 128

// fewEvents is how many events a batch may have for the loop to wait at once
// after it, instead of asking first whether there is more by now.
const fewEvents = 2

// busyTurns is after how many batches in a row the loop disarms its wakeup poller.
const busyTurns = 4

// Loop is one event loop. Create it with New, run it with Run on a goroutine
// of its own. Unless said otherwise its methods, and those of its sockets and
// tasks, may be called only on the loop.
type Loop struct {
	epfd      int           // watches the sockets
	kernel    Kernel        // nil: the system's
	over      chan struct{} // closed when a simulated loop has ended
	poller    *os.File      // the wakeup poller: watches epfd; watched by the netpoller
	rawPoller syscall.RawConn
	pollerFD  int
	disarmed  bool // the wakeup poller reports nothing
	events    [eventsPerWait]unix.EpollEvent
	socks     []*Sock // by descriptor
	gen       int32
	now       int64
	live      []*Handle // the loop does not end before they are done
	free      Spares[Task]
	spares    []spareList
	timers    timerHeap
	armed     int64
	cork      []byte // what a layer encodes, on its way to the kernel
	trimAt    int64  // when to trim the spares; 0 = never
	trimmed   func(collect bool)
	dropped   int       // bytes that became garbage since the last collection
	dropping  bool      // some of them in this period
	flushes   []Flusher // at the end of this batch

	mu       sync.Mutex
	woken    []*Handle
	posted   []func()
	spare    []*Handle
	sleeping atomic.Bool
	wakeup   Sock
	ended    bool // guarded by mu
	closing  bool
	wakeups  atomic.Int64
}

// New creates a loop. It holds three descriptors until Run has returned.
func New() (*Loop, error) {
	l := &Loop{epfd: -1, now: nanotime()}
	if err := l.open(); err != nil {
		if l.poller != nil {
			_ = l.poller.Close()
		}
		if l.epfd >= 0 {
			_ = unix.Close(l.epfd)
		}
		return nil, fmt.Errorf("creating an event loop: %w", err)
	}
	l.init()
	return l, nil
}

// init is what all kinds of loops begin with.
func (l *Loop) init() {
	l.armed = math.MaxInt64
	l.free.Init(l, keptTasks, maxFreeTasks, (*Task).stop)
}

func (l *Loop) open() error {
	var err error
	if l.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if l.pollerFD, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	_ = unix.SetNonblock(l.pollerFD, true) // or os.NewFile leaves it to a thread
	l.poller = os.NewFile(uintptr(l.pollerFD), "epoll")
	if l.rawPoller, err = l.poller.SyscallConn(); err != nil {
		return err
	}
	if err := l.watch(unix.EPOLL_CTL_ADD, unix.EPOLLIN); err != nil {
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

// watch says which events of epfd the wakeup poller reports, each time anew
// (EPOLLET). If there are some already, it does so at once.
func (l *Loop) watch(op int, events uint32) error {
	return unix.EpollCtl(l.pollerFD, op, l.epfd, &unix.EpollEvent{Events: events | edge})
}

// disarmPoller keeps the netpoller from waking a thread for each event of a loop that
// is awake: one that has nothing to do sits there waiting.
func (l *Loop) disarmPoller(yes bool) {
	if l.disarmed == yes || l.kernel != nil {
		return
	}
	l.disarmed = yes
	events := uint32(unix.EPOLLIN)
	if yes {
		events = 0
	}
	_ = l.watch(unix.EPOLL_CTL_MOD, events) // fails for bad arguments only
}

// Run serves events until Close. It returns nil then, and otherwise the error
// that broke the loop.
func (l *Loop) Run() error {
	if l.kernel != nil {
		<-l.over
		return nil
	}
	defer l.release()
	for {
		err := l.rawPoller.Read(l.serve)
		switch {
		case err == nil:
			return nil // serve says that the loop is closing
		case errors.Is(err, os.ErrDeadlineExceeded):
			l.armed = math.MaxInt64
			if err := l.poller.SetReadDeadline(time.Time{}); err != nil {
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
	l.wakeups.Inc()
	for turn := 1; ; turn++ {
		n := l.poll0()
		l.now = l.Nanotime()
		again := n > fewEvents
		for i := range l.events[:n] {
			if l.dispatch(&l.events[i]) {
				again = true
			}
		}
		if l.runWoken() {
			again = true
		}
		l.runTimers()
		l.runFlushes()
		if l.closing && len(l.live) == 0 {
			return true
		}
		if again {
			if turn == busyTurns {
				l.disarmPoller(true)
			}
			continue
		}
		l.arm()
		l.disarmPoller(false)
		l.sleeping.Store(true)
		if l.inboxEmpty() {
			return false
		}
		l.sleeping.Store(false)
	}
}

// poll0 collects events without waiting. A raw system call: it never blocks,
// so the scheduler need not hear of it.
func (l *Loop) poll0() int {
	if l.kernel != nil {
		return l.kernel.Poll(l, l.events[:])
	}
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epfd), uintptr(unsafe.Pointer(&l.events[0])), eventsPerWait, 0, 0, 0)
	if e != 0 {
		return 0 // EINTR; anything else comes back from the netpoller
	}
	return int(n)
}

// Flusher has something to do once all events of a batch have been handled: a
// connection that many exchanges write to.
type Flusher interface{ Flush() }

// AtEnd calls f.Flush once, when the events that are being handled have been.
func (l *Loop) AtEnd(f Flusher) { l.flushes = append(l.flushes, f) }

func (l *Loop) runFlushes() {
	for i := 0; i < len(l.flushes); i++ { // a flush may ask for another one
		l.flushes[i].Flush()
		l.flushes[i] = nil
	}
	l.flushes = l.flushes[:0]
}

// dispatch delivers an event. It reports whether there may be more of the same
// that the wakeup poller will not report.
func (l *Loop) dispatch(ev *unix.EpollEvent) bool {
	s := l.socks[ev.Fd]
	if s == nil || s.gen != ev.Pad {
		return false // closed earlier in this batch; the number may be in use again
	}
	level := s.level
	s.note(ev.Events)
	s.handler.Event(s)
	return level
}

func (l *Loop) inboxEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.woken) == 0 && len(l.posted) == 0
}

// runWoken runs the steps of those that were woken, and what was posted.
func (l *Loop) runWoken() bool {
	l.mu.Lock()
	woken, posted := l.woken, l.posted
	l.woken, l.posted = l.spare[:0], nil
	l.mu.Unlock()
	for i, h := range woken {
		woken[i] = nil
		h.queued.Store(false)
		h.routine.Step()
	}
	l.spare = woken
	for _, f := range posted {
		f()
	}
	return len(woken)+len(posted) > 0
}

// Post runs f on the loop, soon. It may be called from any goroutine, and
// does nothing once the loop has ended.
func (l *Loop) Post(f func()) {
	l.mu.Lock()
	if !l.ended {
		l.posted = append(l.posted, f)
	}
	l.mu.Unlock()
	l.rouse()
}

func (l *Loop) rouse() {
	if !l.sleeping.Load() || !l.sleeping.CompareAndSwap(true, false) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended: // the descriptor may be another file's by now
	case l.kernel != nil:
		l.kernel.Rouse(l)
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

// Wakeups counts how often the loop went from waiting to working.
func (l *Loop) Wakeups() int64 { return l.wakeups.Load() }

func (l *Loop) release() {
	l.mu.Lock()
	l.ended, l.posted = true, nil
	l.mu.Unlock()
	for _, s := range l.spares {
		s.shorten(s.Len())
	}
	for _, s := range l.socks {
		if s != nil {
			s.Close()
		}
	}
	if l.kernel == nil {
		_ = l.poller.Close()
		_ = unix.Close(l.epfd)
	}
}

type wakeupHandler struct{}

func (wakeupHandler) Event(s *Sock) {
	var b [8]byte
	_, _ = s.Read(b[:])
}

var started = time.Now()

// nanotime is monotonic, in nanoseconds since the process began.
func nanotime() int64 { return int64(time.Since(started)) + 1 }

// Nanotime is Loop.Nanotime of loops that are not simulated.
func Nanotime() int64 { return nanotime() }

// TimeOf converts an instant of the loop's clock to wall-clock time.
func TimeOf(ns int64) time.Time { return started.Add(time.Duration(ns - 1)) }
