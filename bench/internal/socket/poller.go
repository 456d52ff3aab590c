package socket

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Events of a Poller.
const (
	Readable = unix.EPOLLIN | unix.EPOLLRDHUP
	Writable = unix.EPOLLOUT
)

// A Poller is one level-triggered epoll set. It belongs to one goroutine; only
// Wake may be called from others.
type Poller struct {
	fd     int
	wake   int
	events [256]unix.EpollEvent
}

// NewPoller returns a Poller that watches nothing but its own wake-up.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making an epoll set: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("making an event descriptor: %w", err)
	}
	p := &Poller{fd: fd, wake: wake}
	if err := p.Add(wake, unix.EPOLLIN); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the set; the sockets in it stay open.
func (p *Poller) Close() {
	unix.Close(p.wake)
	unix.Close(p.fd)
}

// Add begins to watch a descriptor.
func (p *Poller) Add(fd int, events uint32) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, events)
}

// Modify changes what a descriptor is watched for.
func (p *Poller) Modify(fd int, events uint32) error {
	return p.control(unix.EPOLL_CTL_MOD, fd, events)
}

// Remove stops watching a descriptor that stays open.
func (p *Poller) Remove(fd int) error { return p.control(unix.EPOLL_CTL_DEL, fd, 0) }

func (p *Poller) control(op, fd int, events uint32) error {
	if err := unix.EpollCtl(p.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("changing the epoll set for descriptor %d: %w", fd, err)
	}
	return nil
}

// Wake makes Wait return, now or the next time.
func (p *Poller) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:])
}

// Wait returns the descriptors that have news; none after the timeout, after
// Wake and after a signal. The slice is good until the next call. A negative
// timeout counts as zero.
//
// The thread blocks without telling the scheduler: telling it would keep the
// runtime's monitor awake every 20 µs, which costs a tenth of a small load. So
// other goroutines need a processor of their own.
func (p *Poller) Wait(timeout time.Duration) []unix.EpollEvent {
	ts := unix.NsecToTimespec(int64(max(timeout, 0)))
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno == unix.ENOSYS { // before Linux 5.11
		n, _, errno = syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
			uintptr(len(p.events)), uintptr((max(timeout, 0)+time.Millisecond-1)/time.Millisecond), 0, 0)
	}
	if errno != 0 {
		return nil
	}
	events := p.events[:n]
	for i := range events {
		if int(events[i].Fd) == p.wake {
			var drained [8]byte
			_, _ = unix.Read(p.wake, drained[:])
			events[i] = events[len(events)-1]
			return events[:len(events)-1]
		}
	}
	return events
}

// SharpTimers makes the timeouts of the calling thread exact; by default the
// kernel may stretch them by 50 µs (PR_SET_TIMERSLACK, prctl(2)). The caller
// has locked its goroutine to the thread.
func SharpTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }
