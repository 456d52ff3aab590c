package sockets

import (
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// storeTimeout limits the wait for a service manager that does not read.
const storeTimeout = time.Second

// store passes a socket that the gate has opened to the service manager, which keeps the
// descriptor during a restart of the gate. It does nothing if the service manager has no
// descriptor store (FDSTORE). The caller holds s.mu.
func (s *Set) store(sock *socket) {
	if os.Getenv(fdStore) == "" || os.Getenv(fdStore) == "0" || os.Getenv(notifySocket) == "" {
		return
	}
	if err := tellManager("FDSTORE=1\nFDNAME="+sock.port.Name, unix.UnixRights(sock.fd)); err != nil {
		s.log.Warn("systemd cannot store a socket: connections are refused during a restart", zap.String("socket", sock.port.Name), zap.Error(err))
		return
	}
	sock.isStored = true
}

// remove removes a socket from the service manager's store.
func (s *Set) remove(sock *socket) {
	if sock.isStored && os.Getenv(fdStore) != "" && os.Getenv(notifySocket) != "" {
		_ = tellManager("FDSTOREREMOVE=1\nFDNAME="+sock.port.Name, nil)
	}
}

// tellManager sends a notification and descriptors to the service manager. It uses
// system calls, because a connected net.UnixConn for datagrams cannot send descriptors.
func tellManager(text string, rights []byte) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(storeTimeout))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
		return err
	}
	return unix.Sendmsg(fd, []byte(text), rights, &unix.SockaddrUnix{Name: os.Getenv(notifySocket)}, 0)
}
