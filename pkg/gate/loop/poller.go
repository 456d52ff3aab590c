package loop

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// poller is the system's part of a loop: an epoll instance for the sockets, and
// around it the wakeup poller, which the netpoller watches. A simulated loop
// has none: file is nil.
type poller struct {
	epfd     int // watches the sockets
	file     *os.File
	raw      syscall.RawConn
	fd       int   // of file
	disarmed bool  // the wakeup poller reports nothing
	wakeAt   int64 // when the netpoller gives up waiting
}

func (p *poller) open() (err error) {
	if p.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if p.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	_ = unix.SetNonblock(p.fd, true) // or os.NewFile leaves it to a thread
	p.file = os.NewFile(uintptr(p.fd), "epoll")
	if p.raw, err = p.file.SyscallConn(); err != nil {
		return err
	}
	return p.watch(unix.EPOLL_CTL_ADD, unix.EPOLLIN)
}

// watch says which events of epfd the wakeup poller reports, each time anew
// (EPOLLET). If there are some already, it does so at once.
func (p *poller) watch(op int, events uint32) error {
	return unix.EpollCtl(p.fd, op, p.epfd, &unix.EpollEvent{Events: events | edge})
}

// disarm keeps the netpoller from waking a thread for each event of a loop that
// is awake: one that has nothing to do sits there waiting.
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

// arm makes the netpoller give up waiting when next has come; 0 = never.
func (p *poller) arm(next int64) {
	if next == 0 || next >= p.wakeAt || p.file == nil {
		return // wakes too early at worst
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
