package server

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// sharedListener is a listening socket of a server. A second descriptor of the same
// socket stands for another process.
type sharedListener struct {
	*net.TCPListener
	other int
}

func newSharedListener(t *testing.T) sharedListener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	l := sharedListener{TCPListener: ln.(*net.TCPListener)}
	_ = raw.Control(func(fd uintptr) { l.other, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(l.other) })
	return l
}

func newClosingServer(t *testing.T, loops int) *Server {
	t.Helper()
	g := &exchange.Gate{}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(g, Config{Loops: loops, HTTP1: closingProtocol{}, Upstream: upstream.Config{Address: netip.MustParseAddrPort("127.0.0.1:1")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAShutdownLeavesTheBacklogOfASharedSocketToTheOtherProcess(t *testing.T) {
	for _, isShared := range []bool{true, false} {
		s, ln := newClosingServer(t, 1), newSharedListener(t)
		serve := s.ServeTLS
		if isShared {
			serve = s.ServeShared
		}
		if err := serve(ln.TCPListener, nil); err != nil {
			t.Fatal(err)
		}
		var client net.Conn
		var err error
		// This function blocks the loop, so the new connection is still in the backlog
		// when the shutdown begins.
		s.onLoops(time.Minute, func(w *Worker) int {
			if client, err = net.Dial("tcp", ln.Addr().String()); err == nil {
				w.stopAccepting()
			}
			return 0
		})
		if err != nil {
			t.Fatal(err)
		}
		fd, _, err := unix.Accept(ln.other)
		if isAccepted := err == nil; isAccepted != isShared {
			t.Errorf("shared %v: the other process accepts: %v", isShared, err)
		}
		if err == nil {
			_ = unix.Close(fd)
		}
		_ = client.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("shared %v: %v", isShared, err)
		}
		_ = client.Close()
	}
}

// A process that has stopped accepting must remove the shared socket from its epoll sets.
// Otherwise the kernel would wake this process for some of the new connections, and not
// the process that accepts them.
func TestStopListeningRemovesSharedSocketsFromAllEpollSets(t *testing.T) {
	s, ln := newClosingServer(t, 3), newSharedListener(t)
	var st unix.Stat_t
	if err := unix.Fstat(ln.other, &st); err != nil {
		t.Fatal(err)
	}
	if err := s.ServeTLS(ln.TCPListener, nil); err != nil {
		t.Fatal(err)
	}
	s.onLoops(time.Minute, func(*Worker) int { return 0 }) // returns when all loops have begun to listen
	if n := watchers(t, st.Ino); n != 3 {
		t.Fatalf("%d epoll sets have the socket, want 3", n)
	}
	s.StopListening()
	if n := watchers(t, st.Ino); n != 0 {
		t.Errorf("%d epoll sets have the socket after StopListening", n)
	}
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fd, _, err := unix.Accept(ln.other)
	if err != nil {
		t.Fatalf("the other process accepts: %v", err)
	}
	_ = unix.Close(fd)
	if n := s.Clients(); n != 0 {
		t.Errorf("%d clients", n)
	}
}

// watchers returns the number of epoll sets of this process that contain the socket with
// this inode.
func watchers(t *testing.T, inode uint64) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // fails if the descriptor has been closed
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "tfd:") && strings.Contains(line, fmt.Sprintf(" ino:%x ", inode)) {
				n++
			}
		}
	}
	return n
}
