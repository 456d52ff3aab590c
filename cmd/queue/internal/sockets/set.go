package sockets

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// Set holds a descriptor of each listening socket of the gate until Close. Its methods
// except Inherit and Receive may be called concurrently.
type Set struct {
	log *zap.Logger

	mu     sync.Mutex
	all    map[string]*socket // by the name of the port
	closed bool
}

// socket is a listening socket.
type socket struct {
	port        *Port
	fd          int
	isStored    bool // the service manager also has a descriptor of the socket
	isInherited bool // received from another process
}

// New returns a Set without sockets.
func New(log *zap.Logger) *Set { return &Set{log: log, all: map[string]*socket{}} }

// Listen returns the inherited socket of the setting, or opens the port.
func (s *Set) Listen(setting, address string, port int) (*net.TCPListener, error) {
	p := portOf(setting)
	if ln, err := s.inherited(p, strconv.Itoa(port)); ln != nil || err != nil {
		return asTCP(ln), err
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listening on port %d (%s): %w", port, setting, err)
	}
	s.add(p, ln.(*net.TCPListener))
	return ln.(*net.TCPListener), nil
}

func asTCP(ln net.Listener) *net.TCPListener {
	tcp, _ := ln.(*net.TCPListener)
	return tcp
}

// InheritedDrain returns a listener for the inherited socket of DRAIN_SOCKET, or nil if
// there is none. Closing the listener also removes the file of the socket, unless the
// service manager has a descriptor of the socket too.
func (s *Set) InheritedDrain(path string) (*net.UnixListener, error) {
	ln, err := s.inherited(portNamed(Drain), path)
	if ln == nil || err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(!s.IsStored(Drain))
	return ln.(*net.UnixListener), nil
}

// AddDrain adds the socket that the gate has opened for DRAIN_SOCKET. Closing ln also
// removes the file of the socket, unless the service manager has stored the socket.
func (s *Set) AddDrain(ln *net.UnixListener) {
	s.add(portNamed(Drain), ln)
	ln.SetUnlinkOnClose(!s.IsStored(Drain))
}

// inherited returns a listener for the inherited socket of p; nil = none.
func (s *Set) inherited(p *Port, value string) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sock := s.all[p.Name]
	if sock == nil || !sock.isInherited {
		return nil, nil
	}
	fd, err := unix.FcntlInt(uintptr(sock.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listening on the inherited socket %q: %w", p.Name, err)
	}
	// fd is already non-blocking, so neither os.File nor net.FileListener changes its
	// mode. A change would also affect the running gate: the mode belongs to the socket,
	// which both processes use.
	file := os.NewFile(uintptr(fd), p.Name)
	defer file.Close()
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("listening on the inherited socket %q: %w", p.Name, err)
	}
	s.log.Info("listening on an inherited socket; the setting of its port is ignored",
		zap.String("socket", p.Name), zap.Stringer("address", ln.Addr()), zap.String(p.Setting, value))
	return ln, nil
}

func (s *Set) add(p *Port, ln syscall.Conn) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return
	}
	fd := -1
	_ = raw.Control(func(original uintptr) { fd, err = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil || fd < 0 {
		s.log.Warn("a socket cannot be passed to a successor (queue upgrade)", zap.String("socket", p.Name), zap.Error(err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = unix.Close(fd)
		return
	}
	s.all[p.Name] = &socket{port: p, fd: fd}
	s.store(s.all[p.Name])
}

// CheckUserPort returns an error if an inherited socket listens on the port of the
// container: the gate would forward requests to itself.
func (s *Set) CheckUserPort(port int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, sock := range s.all {
		at, err := unix.Getsockname(sock.fd)
		if err != nil {
			continue
		}
		n := 0
		switch a := at.(type) {
		case *unix.SockaddrInet4:
			n = a.Port
		case *unix.SockaddrInet6:
			n = a.Port
		}
		if n == port && port != 0 { // port 0 stands for USER_PORT=auto
			return fmt.Errorf("USER_PORT=%d is the port of the inherited socket %q (%s): the gate would forward requests to itself", port, name, sock.port.Setting)
		}
	}
	return nil
}

// IsStored reports whether the service manager also has the socket, so that its backlog
// outlives this process.
func (s *Set) IsStored(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sock := s.all[name]
	return sock != nil && sock.isStored
}

// IsInherited reports whether this process has received the socket.
func (s *Set) IsInherited(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sock := s.all[name]
	return sock != nil && sock.isInherited
}

// CloseUnused closes each inherited socket whose port is off in the configuration. The
// function isOn gets the name of a port setting and reports whether that port is on.
func (s *Set) CloseUnused(isOn func(setting string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, sock := range s.all {
		if sock.isInherited && !isOn(sock.port.Setting) {
			s.log.Warn("an inherited socket is closed: its port is off", zap.String("socket", name), zap.String("setting", sock.port.Setting))
			s.remove(sock)
			_ = unix.Close(sock.fd)
			delete(s.all, name)
		}
	}
}

// Close closes the descriptors of s. Listeners returned by Listen stay open.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sock := range s.all {
		_ = unix.Close(sock.fd)
	}
	clear(s.all)
	s.closed = true
}
