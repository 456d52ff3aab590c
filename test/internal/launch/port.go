package launch

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

var (
	portsMu    sync.Mutex
	portsGiven = map[int]bool{}
)

// FreePort picks a port below the range that the kernel gives to outgoing
// connections, so that none of those takes it, and gives none twice.
func FreePort(t testing.TB) int {
	t.Helper()
	if port := freePort(); port != 0 {
		return port
	}
	t.Fatal("no free port")
	return 0
}

func freePort() int {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := 15000 + rand.IntN(17000)
		if portsGiven[port] {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		portsGiven[port] = true
		return port
	}
	return 0
}

// At is the address of a port on this machine.
func At(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Accepts reports whether something listens there.
func Accepts(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
