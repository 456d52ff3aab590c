package launch

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Ports are below the kernel's range for outgoing connections.
const (
	firstPort  = 15_000
	portBlocks = 340
	blockSize  = 50
)

var (
	portsMu   sync.Mutex
	freePorts []int          // unused ports of the current block
	blocks    []net.Listener // one listener for each block of ports that is reserved
)

// FreePort returns a port that no other call returns, in any test process.
func FreePort(t testing.TB) int {
	t.Helper()
	if port := Port(); port != 0 {
		return port
	}
	t.Fatal("no free port")
	return 0
}

// Port is FreePort without a testing.TB. It returns 0 if no port is free.
func Port() int {
	portsMu.Lock()
	defer portsMu.Unlock()
	for len(freePorts) > 0 || takeBlock() {
		port := freePorts[0]
		freePorts = freePorts[1:]
		if isFree(port) {
			return port
		}
	}
	return 0
}

// isFree reports whether a process can listen on port. It binds a socket that Go's poller
// does not know, and prevents forks meanwhile: the poller, or a child that has not yet
// executed another program, could keep the port in use for a moment after the close.
func isFree(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	return syscall.Bind(fd, &syscall.SockaddrInet4{Port: port}) == nil
}

// FreeRow reserves n consecutive ports, and returns the first one. As with FreePort, no
// other call returns these ports. n must not exceed blockSize.
func FreeRow(t testing.TB, n int) int {
	t.Helper()
	portsMu.Lock()
	defer portsMu.Unlock()
	for takeBlock() {
		first := slices.Min(freePorts[len(freePorts)-blockSize:])
		free := true
		for port := first; port < first+n; port++ {
			free = isFree(port) && free
		}
		freePorts = slices.DeleteFunc(freePorts, func(port int) bool { return first <= port && port < first+n })
		if free {
			return first
		}
	}
	t.Fatalf("no %d free ports in a row", n)
	return 0
}

// takeBlock reserves a block of ports for this process by listening on an abstract Unix
// socket. Like ports, abstract sockets belong to a network namespace.
func takeBlock() bool {
	for _, block := range rand.Perm(portBlocks) {
		l, err := net.Listen("unix", fmt.Sprintf("@queuegate-test-ports/%d", block))
		if err != nil {
			continue
		}
		blocks = append(blocks, l)
		for _, i := range rand.Perm(blockSize) {
			freePorts = append(freePorts, firstPort+block*blockSize+i)
		}
		return true
	}
	return false
}

// Address returns the address of a loopback port.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Accepts reports whether addr accepts connections.
func Accepts(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
