package loop

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyLoopbackConnectionsAreTuned(t *testing.T) {
	for peer, eased := range map[string]bool{
		"127.0.0.1": true, "127.0.0.6": true, "::1": true, "::ffff:127.0.0.1": true,
		"192.0.2.1": false, "2001:db8::1": false, "0.0.0.0": false,
	} {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		before := congestionControl(t, fd)
		TuneLoopback(fd, netip.MustParseAddr(peer))
		want := before
		if eased {
			want = "reno"
		}
		if got := congestionControl(t, fd); got != want {
			t.Errorf("peer %s: %s, want %s", peer, got, want)
		}
	}
}

func congestionControl(t *testing.T, fd int) string {
	t.Helper()
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		t.Fatal(err)
	}
	return unix.ByteSliceToString([]byte(name))
}
