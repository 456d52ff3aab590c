package loop

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// poller has two epoll instances: one for the sockets of a loop, and the wakeup poller,
// which contains the first and is watched by the netpoller. A simulated loop has neither:
// file is nil.
type poller struct {
	epfd     int // descriptor of the epoll instance that watches the sockets
	file     *os.File
	raw      syscall.RawConn
	fd       int   // descriptor of the wakeup poller, which file owns
	disarmed bool  // the wakeup poller is set to report no events
	wakeAt   int64 // time at which the netpoller stops waiting
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

// watch sets which events of epfd the wakeup poller reports, edge-triggered. An event
// that is already pending may go unreported. The kernel's ep_modify wakes no waiter if an
// earlier event is still on the ready list of the wakeup poller, and nothing removes it
// from that list between two waits.
func (p *poller) watch(op int, events uint32) error {
	return unix.EpollCtl(p.fd, op, p.epfd, &unix.EpollEvent{Events: events | edge})
}

// disarm(true) stops the wakeup poller while the loop is busy. Otherwise the netpoller
// would wake an idle thread for each event. disarm(false) starts it again. The loop must
// then poll once more before it sleeps, because of events that arrived in between.
func (p *poller) disarm(yes bool) {
	if p.disarmed == yes || p.file == nil {
		return
	}
	p.disarmed = yes
	events := uint32(unix.EPOLLIN)
	if yes {
		events = 0
	}
	_ = p.watch(unix.EPOLL_CTL_MOD, events) // fails only for bad arguments
}

// arm makes the netpoller stop waiting at the time next; 0 = never.
func (p *poller) arm(next int64) {
	if next == 0 || next >= p.wakeAt || p.file == nil {
		return // without the timer change, the netpoller at worst wakes too early
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
