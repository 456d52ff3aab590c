package application

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
)

func TestListenersAreFoundWithTheirOwner(t *testing.T) {
	own, err := socketsOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		network, address string
		reachable        bool
	}{
		{"tcp4", "127.0.0.1:0", true}, {"tcp4", "0.0.0.0:0", true}, {"tcp4", "127.9.8.7:0", false}, {"tcp", ":0", true},
	} {
		l, err := net.Listen(c.network, c.address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		address := mustAddress(l.Addr().String())
		all, err := listeners()
		if err != nil {
			t.Fatal(err)
		}
		fromTables, err := listenersFromTables()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(one listener) bool { return one.address == address })
		if i < 0 {
			t.Fatalf("%v is not in %v", address, all)
		}
		if !slices.Contains(fromTables, all[i]) {
			t.Errorf("%+v is not in the list from /proc: %v", all[i], fromTables)
		}
		now, err := socketsOf(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if own[all[i].inode] || !now[all[i].inode] || all[i].reachable() != c.reachable {
			t.Errorf("%v: %+v, before %v, now %v", address, all[i], own[all[i].inode], now[all[i].inode])
		}
	}
}

func TestTheListOfListenersExcludesConnections(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, list := range []func() ([]listener, error){listeners, listenersFromTables} {
		all, err := list()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(all, func(one listener) bool { return one.address.String() == c.LocalAddr().String() }) {
			t.Errorf("%v is in %v", c.LocalAddr(), all)
		}
	}
}

func TestAnInvalidSocketTableIsAnError(t *testing.T) {
	const titles = "  sl  local_address ...\n"
	for _, line := range []string{
		"0: 0100007F:1F90 0:0 0A\n",
		"0: 0100007F 0:0 0A 0:0 0:0 0 0 0 7\n",
		"0: 01007F:1F90 0:0 0A 0:0 0:0 0 0 0 7\n",
		"0: x:1F90 0:0 0A 0:0 0:0 0 0 0 7\n",
		"0: 0100007F:1F90 0:0 0A 0:0 0:0 0 0 0 x\n",
	} {
		if found, err := parseListeners([]byte(titles + line)); err == nil {
			t.Errorf("%q: %v", line, found)
		}
	}
	if found, err := parseListeners([]byte(titles + "0: 0100007F:1F90 0:0 0A 0:0 0:0 0 0 0 7\n")); err != nil || len(found) != 1 || found[0].inode != 7 || found[0].address.Port() != 8080 {
		t.Errorf("%v, %v", found, err)
	}
}

func mustAddress(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }
