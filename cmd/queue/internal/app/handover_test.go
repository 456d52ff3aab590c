package app

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheGateDetectsThatTheSuccessorsProcessHasEnded(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[0]), "")
	conn, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if isClosed(conn.(*net.UnixConn)) {
		t.Error("the peer is there")
	}
	_ = unix.Close(fds[1])
	if !isClosed(conn.(*net.UnixConn)) {
		t.Error("the peer has ended")
	}
}
