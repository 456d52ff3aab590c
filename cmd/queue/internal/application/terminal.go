package application

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal, shared with the application by the rules
// of job control (termios(3), credentials(7)). The gate is in the foreground, so
// that Ctrl-C starts a drain. The kernel stops a background group that reads the
// terminal or changes its modes; the application then gets the foreground and
// keeps it, and Ctrl-C with it. Methods may be called on nil: no job control.
type terminal struct {
	own         int // process group of the gate
	application int // process group of the application
	continued   chan os.Signal
}

// input returns the application's stdin, which is usually the gate's stdin. It is
// /dev/null if the gate's stdin is the controlling terminal and the gate runs in the
// background (`queue -- app &`), because a read would stop the application.
func input() (*os.File, *terminal, error) {
	foreground, err := foregroundGroup()
	if err != nil {
		return os.Stdin, nil, nil // not a terminal, or not the controlling one
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
	// SIGTTOU would stop the gate if, in the background, it changes the foreground
	// group or writes its log with "stty tostop". Ignore it only after the application
	// has started, because the application would inherit this.
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

// suspend also stops the gate, so that its shell takes over until it continues the
// gate.
func (t *terminal) suspend() {
	select {
	case <-t.continued:
	default:
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-t.continued
	t.resume()
}

// resume continues the stopped application, in the foreground of the terminal if the
// gate itself is in the foreground.
func (t *terminal) resume() {
	if foreground, err := foregroundGroup(); err == nil && foreground == t.own {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.application)
	}
	_ = syscall.Kill(-t.application, syscall.SIGCONT)
}

// reclaim puts the gate into the foreground if the application is there, and
// reports whether it was.
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
