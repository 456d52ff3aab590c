package sockdiag

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
)

func listen(t *testing.T, network, address string) *net.TCPListener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

func skipUnsupported(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, syscall.EPROTONOSUPPORT) {
		t.Skip("this kernel lacks sock_diag")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAConnectionHasItsUnreadBytesAndKeepAliveTimer(t *testing.T) {
	for _, network := range []string{"tcp4", "tcp"} {
		l := listen(t, network, ":0")
		port := l.Addr().(*net.TCPAddr).AddrPort().Port()
		client, err := net.Dial("tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if _, err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		local, remote := client.RemoteAddr().(*net.TCPAddr).AddrPort(), client.LocalAddr().(*net.TCPAddr).AddrPort()
		var s Socket
		testkit.Until(t, "unread bytes and a timer", func() bool {
			s, err = Connection(local, remote)
			skipUnsupported(t, err)
			return s.NumUnread == 5 && s.Timer == 2
		})
		if s.TimerRemaining <= 0 || s.State == Listening || s.Inode == 0 {
			t.Errorf("%s: %+v", network, s)
		}
		if _, err := Connection(local, netip.AddrPortFrom(remote.Addr(), 1)); !errors.Is(err, ErrNotFound) {
			t.Errorf("a connection from port 1: %v", err)
		}
		if _, err := Connection(netip.AddrPortFrom(local.Addr(), 1), remote); !errors.Is(err, ErrNotFound) {
			t.Errorf("a connection to port 1: %v", err)
		}
	}
}

func TestListenersAreListedWithAddressAndInode(t *testing.T) {
	for _, c := range []struct{ network, address, want string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1"}, {"tcp4", "127.9.8.7:0", "127.9.8.7"}, {"tcp4", "0.0.0.0:0", "0.0.0.0"}, {"tcp", ":0", "::"}, {"tcp6", "[::1]:0", "::1"},
	} {
		l := listen(t, c.network, c.address)
		port := l.Addr().(*net.TCPAddr).AddrPort().Port()
		all, err := Listeners()
		skipUnsupported(t, err)
		i := slices.IndexFunc(all, func(s Socket) bool { return s.Local.Port() == port && s.Local.Addr().String() == c.want })
		if i < 0 || all[i].State != Listening || all[i].Inode == 0 {
			t.Errorf("%s %s: index %d in %+v", c.network, c.address, i, all)
		}
	}
}

// A response to a dump has several messages of up to 32 KiB.
func TestAThousandListenersAreListed(t *testing.T) {
	const num = 1000
	ports := map[uint16]bool{}
	for range num {
		ports[listen(t, "tcp4", "127.0.0.1:0").Addr().(*net.TCPAddr).AddrPort().Port()] = true
	}
	all, err := Listeners()
	skipUnsupported(t, err)
	for _, s := range all {
		delete(ports, s.Local.Port())
	}
	if len(ports) > 0 {
		t.Errorf("%d of %d listeners are not listed", len(ports), num)
	}
}
