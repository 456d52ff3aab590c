package loop

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// poller has two epoll instances. The first one watches the sockets of a loop. The second
// one is called the wakeup poller. It watches the first one, and Go's netpoller watches
// the wakeup poller. A simulated loop has no epoll instances, and file is nil.
type poller struct {
	epfd     int // descriptor of the epoll instance that watches the sockets
	file     *os.File
	raw      syscall.RawConn
	fd       int   // descriptor of the wakeup poller, closed by closing the field file
	disarmed bool  // the wakeup poller reports no events
	wakeAt   int64 // time at which the netpoller stops waiting
}

func (p *poller) open() (err error) {
	if p.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if p.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	_ = unix.SetNonblock(p.fd, true) // otherwise os.NewFile would use blocking system calls
	p.file = os.NewFile(uintptr(p.fd), "epoll")
	if p.raw, err = p.file.SyscallConn(); err != nil {
		return err
	}
	return p.watch(unix.EPOLL_CTL_ADD, unix.EPOLLIN)
}

// watch sets the events of epfd that the wakeup poller reports. An event that is already
// pending at the call may remain unreported, because the wakeup poller is edge-triggered:
// the kernel's function ep_modify wakes no waiter if an earlier event is still in the
// ready list of the wakeup poller.
func (p *poller) watch(op int, events uint32) error {
	return unix.EpollCtl(p.fd, op, p.epfd, &unix.EpollEvent{Events: events | edge})
}

// disarm(true) stops the wakeup poller while the loop is busy. Otherwise the netpoller
// would wake an idle thread for each event. After disarm(false), the loop must poll once
// more before it sleeps.
func (p *poller) disarm(yes bool) {
	if p.disarmed == yes || p.file == nil {
		return
	}
	p.disarmed = yes
	events := uint32(unix.EPOLLIN)
	if yes {
		events = 0
	}
	_ = p.watch(unix.EPOLL_CTL_MOD, events) // fails only for invalid arguments
}

// arm makes the netpoller stop waiting when the parameter next, a time on the loop's
// clock, has come. The value 0 means that no wait has to end.
func (p *poller) arm(next int64) {
	if next == 0 || next >= p.wakeAt || p.file == nil {
		// The netpoller need not stop before wakeAt, which a previous call has set. If
		// wakeAt is before next, the netpoller stops too early. This does no harm,
		// because the loop then waits again.
		return
	}
	p.wakeAt = next
	_ = p.file.SetReadDeadline(TimeOf(next))
}

func (p *poller) close() {
	if p.file != nil {
		_ = p.file.Close()
	}
	if p.epfd >= 0 {
		_ = unix.Close(p.epfd)
	}
}
