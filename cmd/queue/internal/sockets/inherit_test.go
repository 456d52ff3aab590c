package sockets

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

func lookup(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		text, ok := variables[name]
		return text, ok
	}
}

func TestVariablesOfTheServiceManagerNameTheSockets(t *testing.T) {
	const pid = 7
	for name, c := range map[string]struct {
		variables map[string]string
		want      []string
		err       string
	}{
		"none":                    {map[string]string{}, nil, ""},
		"for another process":     {map[string]string{listenPID: "8", listenFDs: "1"}, nil, ""},
		"for no process":          {map[string]string{listenFDs: "1"}, nil, ""},
		"by name":                 {map[string]string{listenPID: "7", listenFDs: "2", listenFDNames: "admin:serving"}, []string{"admin", "serving"}, ""},
		"in order":                {map[string]string{listenPID: "7", listenFDs: "3"}, []string{"serving", "tls", "admin"}, ""},
		"in order, named unknown": {map[string]string{listenPID: "7", listenFDs: "2", listenFDNames: "unknown:unknown"}, []string{"serving", "tls"}, ""},
		"partly named":            {map[string]string{listenPID: "7", listenFDs: "2", listenFDNames: "unknown:drain"}, []string{"serving", "drain"}, ""},
		"a process number":        {map[string]string{listenPID: "x", listenFDs: "1"}, nil, `LISTEN_PID="x"`},
		"no number":               {map[string]string{listenPID: "7", listenFDs: "x"}, nil, `LISTEN_FDS="x"`},
		"a negative number":       {map[string]string{listenPID: "7", listenFDs: "-1"}, nil, `LISTEN_FDS="-1"`},
		"more than ports":         {map[string]string{listenPID: "7", listenFDs: "10"}, nil, `LISTEN_FDS="10"`},
		"an unknown name":         {map[string]string{listenPID: "7", listenFDs: "1", listenFDNames: "app.socket"}, nil, `LISTEN_FDNAMES="app.socket": name "app.socket": want one of serving,`},
		"too few names":           {map[string]string{listenPID: "7", listenFDs: "2", listenFDNames: "serving"}, nil, "want 2 names"},
		"a name twice":            {map[string]string{listenPID: "7", listenFDs: "2", listenFDNames: "tls:unknown"}, nil, `two descriptors for "tls"`},
	} {
		t.Run(name, func(t *testing.T) {
			count, names, err := parseVariables(lookup(c.variables), pid)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil || count != len(c.want) || !slices.Equal(names[:count], c.want) {
				t.Errorf("%d %q, %v; want %q", count, names, err, c.want)
			}
		})
	}
}

// passed returns a Set that has inherited the socket of ln. Normally the first inherited
// descriptor is 3, but the test process may use 3, so passed takes another one.
func passed(t *testing.T, name string, ln interface{ File() (*os.File, error) }) *Set {
	t.Helper()
	file, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// F_DUPFD returns a descriptor of at least 100 without the close-on-exec flag.
	// Inherited descriptors do not have this flag either.
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD, 100)
	if err != nil {
		t.Fatal(err)
	}
	s := New(zap.NewNop())
	t.Cleanup(s.Close)
	if err := s.inherit(lookup(map[string]string{listenPID: strconv.Itoa(os.Getpid()), listenFDs: "1", listenFDNames: name}), fd); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnInheritedSocketIsNotPassedToChildrenAndDoesNotBlock(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := passed(t, Serving, ln.(*net.TCPListener))
	fd := uintptr(s.all[Serving].fd)
	if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v: not close-on-exec", flags, err)
	}
	if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("status flags %#x, %v: blocking", flags, err)
	}
	if !s.IsStored(Serving) || !s.IsInherited(Serving) || s.IsStored(TLS) {
		t.Error("the service manager has the socket, and no other")
	}
	in, err := s.Listen("QUEUE_SERVING_PORT", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if in.Addr().String() != ln.Addr().String() {
		t.Errorf("listening on %v, want %v", in.Addr(), ln.Addr())
	}
	if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("status flags %#x, %v: Listen made the shared socket blocking", flags, err)
	}
}

func TestSocketsArePassedToASuccessor(t *testing.T) {
	s := New(zap.NewNop())
	defer s.Close()
	admin, err := s.Listen("ADMIN_PORT", "127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	s.all["admin"].isStored = true
	ours, theirs := unixPair(t)
	next := New(zap.NewNop())
	defer next.Close()
	sent := make(chan error, 1)
	go func() { sent <- s.Send(ours) }()
	if err := next.Receive(theirs); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if !next.IsStored("admin") || !next.IsInherited("admin") {
		t.Error("the successor does not know that the service manager has the socket")
	}
	ln, err := next.Listen("ADMIN_PORT", "127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if ln.Addr().String() != admin.Addr().String() {
		t.Errorf("listening on %v, want %v", ln.Addr(), admin.Addr())
	}
}

func TestARefusedSuccessorGetsTheReason(t *testing.T) {
	ours, theirs := unixPair(t)
	if err := Refuse(ours, "another upgrade is in progress"); err != nil {
		t.Fatal(err)
	}
	if err := New(zap.NewNop()).Receive(theirs); err == nil || !strings.Contains(err.Error(), "another upgrade is in progress") {
		t.Errorf("%v", err)
	}
}

func TestAPredecessorThatCannotUpgradeIsReportedAsTooOld(t *testing.T) {
	ours, theirs := unixPair(t)
	_ = ours.Close()
	if err := New(zap.NewNop()).Receive(theirs); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("%v", err)
	}
}

func unixPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		conns[i] = conn.(*net.UnixConn)
	}
	return conns[0], conns[1]
}

func TestSocketsOfAnotherProcessAreNotPassedToChildren(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	s := New(zap.NewNop())
	defer s.Close()
	if err := s.inherit(lookup(map[string]string{listenPID: "1", listenFDs: "1"}), fd); err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v: not close-on-exec", flags, err)
	}
}

func TestAnInheritedSocketOnTheUserPortIsAnError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := passed(t, Serving, ln.(*net.TCPListener))
	port := ln.Addr().(*net.TCPAddr).Port
	if err := s.CheckUserPort(port); err == nil || !strings.Contains(err.Error(), "USER_PORT") {
		t.Errorf("%v, want an error", err)
	}
	if err := s.CheckUserPort(port + 1); err != nil {
		t.Error(err)
	}
}
