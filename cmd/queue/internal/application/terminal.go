package application

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of the gate and the application (job control,
// see termios(3) and credentials(7)). At first the gate is in the foreground, so that
// Ctrl-C starts a drain. If the application then uses the terminal, the kernel stops the
// application, and the gate gives it the foreground. A nil *terminal means that there is
// no job control.
type terminal struct {
	gateGroup int // process group of the gate
	appGroup  int // process group of the application
	continued chan os.Signal
	discarded chan os.Signal // SIGTTOU during a fork; nothing receives from it
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
	return os.Stdin, &terminal{gateGroup: own, continued: make(chan os.Signal, 1), discarded: make(chan os.Signal, 1)}, nil
}

// foregroundGroup returns the foreground process group of the controlling terminal. If
// stdin is not that terminal, it returns an error.
func foregroundGroup() (int, error) { return unix.IoctlGetInt(0, unix.TIOCGPGRP) }

// beforeFork catches SIGTTOU instead of ignoring it, because a child inherits ignored
// signals.
func (t *terminal) beforeFork() {
	if t != nil {
		signal.Notify(t.discarded, syscall.SIGTTOU)
	}
}

// afterFork ignores SIGTTOU. Otherwise the kernel would stop the gate when the gate, in
// the background, changes the foreground group.
func (t *terminal) afterFork() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

// begin starts job control of the application's group.
func (t *terminal) begin(group int) {
	if t == nil {
		return
	}
	t.appGroup = group
	signal.Notify(t.continued, syscall.SIGCONT)
}

// stopped is called when a signal has stopped the application. The parameter sig is this
// signal.
func (t *terminal) stopped(sig syscall.Signal) {
	usesTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	switch foreground, err := foregroundGroup(); {
	case err != nil:
	case foreground == t.appGroup && !usesTerminal: // Ctrl-Z
		t.reclaim()
		t.suspend()
	case usesTerminal && foreground != t.gateGroup && foreground != t.appGroup:
		t.suspend()
	case usesTerminal:
		t.resume()
	}
}

// suspend stops the gate after the application was stopped, so that the shell that
// started the gate regains the terminal. When the shell continues the gate, suspend
// continues the application.
func (t *terminal) suspend() {
	select {
	case <-t.continued:
	default:
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-t.continued
	t.resume()
}

// resume continues the stopped application. If the gate is in the foreground of the
// terminal, the gate first gives the foreground to the application.
func (t *terminal) resume() {
	if foreground, err := foregroundGroup(); err == nil && foreground == t.gateGroup {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.appGroup)
	}
	_ = syscall.Kill(-t.appGroup, syscall.SIGCONT)
}

// reclaim takes the foreground of the terminal back for the gate, if the application
// has it. It reports whether the application had it.
func (t *terminal) reclaim() bool {
	if t == nil {
		return false
	}
	foreground, err := foregroundGroup()
	if err != nil || foreground != t.appGroup {
		return false
	}
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.gateGroup)
	return true
}
