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

// maxFreeTasks bounds the coroutines (and their buffers) that a loop keeps for
// the next burst; those beyond it end with their conversation. Those that
// nobody needs any more are trimmed.
const maxFreeTasks = 16384

const eventsPerWait = 128

// Loop is one event loop. Create it with New, run it with Run on a goroutine
// of its own. Unless said otherwise its methods, and those of its sockets and
// tasks, may be called only on the loop.
type Loop struct {
	epfd    int
	poll    *os.File
	rawPoll syscall.RawConn
	events  [eventsPerWait]unix.EpollEvent
	socks   []*Sock // by descriptor
	gen     int32
	now     int64
	free    []*Task
	tasks   []*Task // all of them, free ones included
	live    int     // those with a conversation
	timers  timerHeap
	armed   int64
	cork    []byte // what a layer encodes, on its way to the kernel
	trimAt  int64  // when to look at the free tasks; 0 = never
	unused  int    // fewest free tasks of the period that ends then
	trimmed func(tasks int)

	mu       sync.Mutex
	woken    []*Task
	posted   []func()
	spare    []*Task
	sleeping atomic.Bool
	wakeup   Sock
	ended    bool // guarded by mu
	closing  bool
	wakeups  atomic.Int64
}

// New creates a loop. It holds two descriptors until Run has returned.
func New() (*Loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating an event loop: %w", err)
	}
	if err := unix.SetNonblock(epfd, true); err != nil {
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("creating an event loop: %w", err)
	}
	l := &Loop{epfd: epfd, armed: math.MaxInt64}
	l.poll = os.NewFile(uintptr(epfd), "epoll")
	if l.rawPoll, err = l.poll.SyscallConn(); err != nil {
		_ = l.poll.Close()
		return nil, fmt.Errorf("creating an event loop: %w", err)
	}
	efd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = l.poll.Close()
		return nil, fmt.Errorf("creating an event loop: %w", err)
	}
	l.now = nanotime()
	if err := l.Register(&l.wakeup, efd, wakeupHandler{}); err != nil {
		_ = l.poll.Close()
		_ = unix.Close(efd)
		return nil, err
	}
	return l, nil
}

// Run serves events until Close. It returns nil then, and otherwise the error
// that broke the loop.
func (l *Loop) Run() error {
	defer l.release()
	for {
		err := l.rawPoll.Read(l.serve)
		switch {
		case err == nil:
			return nil // serve says that the loop is closing
		case errors.Is(err, os.ErrDeadlineExceeded):
			l.armed = math.MaxInt64
			if err := l.poll.SetReadDeadline(time.Time{}); err != nil {
				return fmt.Errorf("event loop: %w", err)
			}
		default:
			return fmt.Errorf("event loop: %w", err)
		}
	}
}

// serve handles everything that is due. It returns false when there is
// nothing left to do, which makes the netpoller wait for epfd.
func (l *Loop) serve(uintptr) bool {
	l.sleeping.Store(false)
	l.wakeups.Inc()
	for {
		n := l.poll0()
		l.now = nanotime()
		for i := range l.events[:n] {
			l.dispatch(&l.events[i])
		}
		woke := l.runWoken()
		l.runTimers()
		if l.closing && l.live == 0 {
			return true
		}
		if n > 0 || woke {
			continue
		}
		l.arm()
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
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epfd), uintptr(unsafe.Pointer(&l.events[0])), eventsPerWait, 0, 0, 0)
	if e != 0 {
		return 0 // EINTR; anything else comes back from the netpoller
	}
	return int(n)
}

func (l *Loop) dispatch(ev *unix.EpollEvent) {
	s := l.socks[ev.Fd]
	if s == nil || s.gen != ev.Pad {
		return // closed earlier in this batch; the number may be in use again
	}
	s.note(ev.Events)
	s.handler.Event(s)
}

func (l *Loop) inboxEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.woken) == 0 && len(l.posted) == 0
}

// runWoken resumes the tasks that were woken and runs what was posted.
func (l *Loop) runWoken() bool {
	l.mu.Lock()
	woken, posted := l.woken, l.posted
	l.woken, l.posted = l.spare[:0], nil
	l.mu.Unlock()
	for i, t := range woken {
		woken[i] = nil
		t.queued.Store(false)
		t.resume()
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
	if !l.ended { // else the descriptor may be somebody else's by now
		one := uint64(1)
		_, _ = unix.Write(l.wakeup.fd, (*[8]byte)(unsafe.Pointer(&one))[:])
	}
}

// Close asks the loop to end: every waiting task is resumed and finds
// Closing true; Run returns when the last one has returned. It may be called
// from any goroutine.
func (l *Loop) Close() {
	l.Post(func() {
		l.closing = true
		for _, t := range l.tasks {
			if t.run != nil {
				t.Wake()
			}
		}
	})
}

// Closing tells a task that it must come to an end.
func (l *Loop) Closing() bool { return l.closing }

// Now is the loop's clock in nanoseconds, read once per batch of events.
func (l *Loop) Now() int64 { return l.now }

// Wakeups counts how often the loop went from waiting to working.
func (l *Loop) Wakeups() int64 { return l.wakeups.Load() }

func (l *Loop) release() {
	l.mu.Lock()
	l.ended, l.posted = true, nil
	l.mu.Unlock()
	for _, t := range l.free {
		t.stop()
	}
	for _, s := range l.socks {
		if s != nil {
			s.Close()
		}
	}
	_ = l.poll.Close()
}

type wakeupHandler struct{}

func (wakeupHandler) Event(s *Sock) {
	var b [8]byte
	_, _ = s.Read(b[:])
}

var started = time.Now()

// nanotime is monotonic, in nanoseconds since the process began.
func nanotime() int64 { return int64(time.Since(started)) + 1 }

// Nanotime reads the clock that Now and deadlines use, afresh.
func Nanotime() int64 { return nanotime() }

// TimeOf converts an instant of the loop's clock to wall-clock time.
func TimeOf(ns int64) time.Time { return started.Add(time.Duration(ns - 1)) }
