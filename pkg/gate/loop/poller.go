package loop

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// poller is the epoll instance for the sockets of a loop and, around it, the wakeup
// poller that the netpoller watches. A simulated loop has none: file is nil.
type poller struct {
	epfd     int // watches the sockets
	file     *os.File
	raw      syscall.RawConn
	fd       int   // of file
	disarmed bool  // the wakeup poller reports no events
	wakeAt   int64 // when the netpoller stops waiting
}

func (p *poller) open() (err error) {
	if p.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if p.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	_ = unix.SetNonblock(p.fd, true) // otherwise os.NewFile would use blocking system calls on a thread
	p.file = os.NewFile(uintptr(p.fd), "epoll")
	if p.raw, err = p.file.SyscallConn(); err != nil {
		return err
	}
	return p.watch(unix.EPOLL_CTL_ADD, unix.EPOLLIN)
}

// watch sets which events of epfd the wakeup poller reports, edge-triggered. Pending
// events are reported only if no earlier event is still on the ready list of the wakeup
// poller: the kernel's ep_modify wakes no waiter for an entry that is on it, and nothing
// removes entries between two waits.
func (p *poller) watch(op int, events uint32) error {
	return unix.EpollCtl(p.fd, op, p.epfd, &unix.EpollEvent{Events: events | edge})
}

// disarm(true) stops the wakeup poller while the loop is busy. Otherwise the netpoller
// would wake an idle thread for each event. After disarm(false) the loop must poll once
// more before it sleeps, for events that arrived earlier.
func (p *poller) disarm(yes bool) {
	if p.disarmed == yes || p.file == nil {
		return
	}
	p.disarmed = yes
	events := uint32(unix.EPOLLIN)
	if yes {
		events = 0
	}
	_ = p.watch(unix.EPOLL_CTL_MOD, events) // fails for bad arguments only
}

// arm makes the netpoller stop waiting at next; 0 = never.
func (p *poller) arm(next int64) {
	if next == 0 || next >= p.wakeAt || p.file == nil {
		return // at worst it wakes too early
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
