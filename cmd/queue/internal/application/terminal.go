package application

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal, shared by job control (termios(3),
// credentials(7)). The gate is in the foreground, so that Ctrl-C starts a drain. If the
// kernel stops the application because it uses the terminal, the application gets the
// foreground and keeps it. Methods may be called on nil: no job control.
type terminal struct {
	own         int // process group of the gate
	application int // process group of the application
	continued   chan os.Signal
}

// input returns the application's stdin: usually the gate's. It is /dev/null if the
// gate is in the background of its controlling terminal, because a read would stop the
// application.
func input() (*os.File, *terminal, error) {
	foreground, err := foregroundGroup()
	if err != nil {
		return os.Stdin, nil, nil // stdin is not the controlling terminal
	}
	own := syscall.Getpgrp()
	if foreground != own {
		null, err := os.Open(os.DevNull)
		return null, nil, err
	}
	return os.Stdin, &terminal{own: own, continued: make(chan os.Signal, 1)}, nil
}

// foregroundGroup returns an error unless stdin is the controlling terminal.
func foregroundGroup() (int, error) { return unix.IoctlGetInt(0, unix.TIOCGPGRP) }

// begin starts job control of the application's group.
func (t *terminal) begin(group int) {
	if t == nil {
		return
	}
	t.application = group
	// SIGTTOU would stop the gate if it uses the terminal in the background. Ignore it
	// only after the start of the application, which would inherit this.
	signal.Ignore(syscall.SIGTTOU)
	signal.Notify(t.continued, syscall.SIGCONT)
}

// stopped is called when the application was stopped.
func (t *terminal) stopped(by syscall.Signal) {
	wants := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch foreground, err := foregroundGroup(); {
	case err != nil:
	case foreground == t.application && !wants: // Ctrl-Z
		t.reclaim()
		t.suspend()
	case wants && foreground != t.own && foreground != t.application:
		t.suspend()
	case wants:
		t.resume()
	}
}

// suspend also stops the gate, so that its shell takes over.
func (t *terminal) suspend() {
	select {
	case <-t.continued:
	default:
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-t.continued
	t.resume()
}

// resume continues the stopped application, in the foreground if the gate is there.
func (t *terminal) resume() {
	if foreground, err := foregroundGroup(); err == nil && foreground == t.own {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.application)
	}
	_ = syscall.Kill(-t.application, syscall.SIGCONT)
}

// reclaim moves the foreground from the application to the gate. It reports whether the
// application was there.
func (t *terminal) reclaim() bool {
	if t == nil {
		return false
	}
	foreground, err := foregroundGroup()
	if err != nil || foreground != t.application {
		return false
	}
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.own)
	return true
}
