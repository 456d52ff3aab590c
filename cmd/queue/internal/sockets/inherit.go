package sockets

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Variables of the service manager (sd_listen_fds(3), sd_pid_notify_with_fds(3)).
const (
	listenPID     = "LISTEN_PID"
	listenFDs     = "LISTEN_FDS"
	listenFDNames = "LISTEN_FDNAMES"
	fdStore       = "FDSTORE"
	notifySocket  = "NOTIFY_SOCKET"
)

// Variables are the service manager's variables, which an application must not get.
var Variables = []string{listenPID, listenFDs, listenFDNames, fdStore, notifySocket, "LISTEN_PIDFDID"}

// firstInherited is the number of the first inherited descriptor.
const firstInherited = 3

// maxPassed limits the loop that sets close-on-exec for the descriptors of another
// process. Without it, a huge number in LISTEN_FDS would keep the loop busy.
const maxPassed = 1024

// unnamed is systemd's name for a descriptor without a name.
const unnamed = "unknown"

// Inherit adds the sockets that the service manager has passed to this process.
func (s *Set) Inherit(lookup func(string) (string, bool)) error {
	return s.inherit(lookup, firstInherited)
}

func (s *Set) inherit(lookup func(string) (string, bool), first int) error {
	count, names, err := parseVariables(lookup, os.Getpid())
	if err != nil {
		return err
	}
	if fdsText, _ := lookup(listenFDs); count == 0 && fdsText != "" {
		// LISTEN_PID is not this process. The sockets were passed to another process, for
		// example to the shell that has started this process. Set close-on-exec, so that
		// an application that this process starts does not get the sockets.
		n, _ := strconv.Atoi(fdsText)
		for fd := first; fd < first+min(n, maxPassed); fd++ {
			unix.CloseOnExec(fd)
		}
	}
	fdOf := map[uint64]int{} // descriptor of each socket, by the kernel's number for the socket
	for i, name := range names[:count] {
		fd := first + i
		unix.CloseOnExec(fd)
		p := portNamed(name)
		if err := checkListening(fd, p); err != nil {
			return fmt.Errorf("%s=%d: descriptor %d (%s, %s): %w", listenFDs, count, fd, p.Name, p.Setting, err)
		}
		if cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE); err == nil {
			if other, exists := fdOf[cookie]; exists {
				return fmt.Errorf("%s=%d: descriptor %d (%s, %s) is the same socket as descriptor %d", listenFDs, count, fd, p.Name, p.Setting, other)
			}
			fdOf[cookie] = fd
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return fmt.Errorf("%s=%d: descriptor %d (%s): %w", listenFDs, count, fd, p.Name, err)
		}
		s.all[p.Name] = &socket{port: p, fd: fd, isStored: true, isInherited: true}
	}
	return nil
}

// parseVariables returns the number of passed descriptors and the port name of each.
func parseVariables(lookup func(string) (string, bool), pid int) (count int, names []string, err error) {
	text, _ := lookup(listenFDs)
	if text == "" {
		return 0, nil, nil
	}
	if pidText, _ := lookup(listenPID); pidText != strconv.Itoa(pid) {
		if _, err := strconv.Atoi(pidText); err != nil && pidText != "" {
			return 0, nil, fmt.Errorf("%s=%q: want the number of the process that %s is for", listenPID, pidText, listenFDs)
		}
		return 0, nil, nil // the descriptors are for another process
	}
	count, err = strconv.Atoi(text)
	if err != nil || count < 0 || count > len(ports) {
		return 0, nil, fmt.Errorf("%s=%q: want a whole number from 0 to %d", listenFDs, text, len(ports))
	}
	list, hasNames := lookup(listenFDNames)
	names = make([]string, count)
	if hasNames && list != "" {
		parts := strings.Split(list, ":")
		if len(parts) != count {
			return 0, nil, fmt.Errorf("%s=%q: want %d names (%s=%d), separated by colons", listenFDNames, list, count, listenFDs, count)
		}
		copy(names, parts)
	}
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case name == "" || name == unnamed:
			name = ports[i].Name
		case portNamed(name) == nil:
			return 0, nil, fmt.Errorf("%s=%q: name %q: want one of %s", listenFDNames, list, name, allNames())
		}
		if seen[name] {
			return 0, nil, fmt.Errorf("%s=%q: two descriptors for %q (a descriptor without a name has the name of its position)", listenFDNames, list, name)
		}
		seen[name], names[i] = true, name
	}
	return count, names, nil
}

// checkListening returns an error unless fd is a listening socket of the right kind.
func checkListening(fd int, p *Port) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return fmt.Errorf("want a listening socket: %w", err)
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	isRight, want := domain == unix.AF_INET || domain == unix.AF_INET6, "TCP"
	if p.isUnix {
		isRight, want = domain == unix.AF_UNIX, "Unix stream"
	}
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	switch {
	case err != nil:
		return err
	case kind != unix.SOCK_STREAM || !isRight:
		return fmt.Errorf("want a listening %s socket, not one of another type", want)
	case listening == 0:
		return errors.New("want a listening socket: listen(2) was not called")
	}
	return nil
}
