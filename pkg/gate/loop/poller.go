package loop

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// poller has two epoll instances: one watches the sockets of a loop; the other, the
// wakeup poller, watches the first and is watched by the netpoller. In a simulated loop,
// file is nil.
type poller struct {
	epfd     int // watches the sockets
	file     *os.File
	raw      syscall.RawConn
	fd       int   // descriptor of the wakeup poller; file closes it
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

// watch sets which events of epfd the wakeup poller reports, edge-triggered. It may miss
// an event that is already pending: the kernel's ep_modify wakes no waiter while an
// earlier event is still on the wakeup poller's ready list.
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

// arm makes the netpoller stop waiting at the time next; 0 = never.
func (p *poller) arm(next int64) {
	if next == 0 || next >= p.wakeAt || p.file == nil {
		return // at worst the netpoller wakes too early
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
