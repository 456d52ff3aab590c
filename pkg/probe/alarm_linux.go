package probe

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kernelAlarm is an Alarm that uses a timerfd(2), which costs a descriptor and a
// goroutine.
type kernelAlarm struct {
	file  *os.File
	fd    int
	fired chan struct{}
}

// NewKernelAlarm returns an Alarm that uses a kernel timer (timerfd_create(2)).
func NewKernelAlarm() (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &kernelAlarm{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd, fired: make(chan struct{}, 1)}
	go a.listen()
	return a, nil
}

func (a *kernelAlarm) listen() {
	var expirations [8]byte
	for {
		if _, err := a.file.Read(expirations[:]); err != nil {
			return // the alarm was stopped
		}
		select {
		case a.fired <- struct{}{}:
		default:
		}
	}
}

func (a *kernelAlarm) C() <-chan struct{} { return a.fired }

func (a *kernelAlarm) Set(d time.Duration) error {
	return os.NewSyscallError("timerfd_settime",
		unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil))
}

func (a *kernelAlarm) Stop() { _ = a.file.Close() }
