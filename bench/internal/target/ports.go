package target

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/socket"
)

// lowestPort keeps away from what services usually use.
const lowestPort = 10_000

// given are the ports that were handed out, so that of several targets that
// start at once none gets a port that another has not bound yet.
var (
	givenLock sync.Mutex
	given     = map[int]bool{}
)

// freePorts returns a free port for each name. They lie below the range from
// which the kernel takes the ports of outgoing connections, so that none of ten
// thousand clients can take one away.
func freePorts(names []string) (map[string]int, error) {
	givenLock.Lock()
	defer givenLock.Unlock()
	end := ephemeralStart()
	if len(given) > (end-lowestPort)/2 {
		clear(given) // those of long ago
	}
	ports := map[string]int{}
	for tries := 0; len(ports) < len(names); tries++ {
		candidate := lowestPort + rand.IntN(end-lowestPort)
		if given[candidate] {
			continue
		}
		fd, port, err := socket.Bind(candidate)
		if err == nil {
			defer socket.Close(fd)
			ports[names[len(ports)]] = port
			given[port] = true
		} else if tries > 100*len(names) {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
	}
	return ports, nil
}

// ephemeralStart is the first port of net.ipv4.ip_local_port_range.
func ephemeralStart() int {
	const customary = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return customary
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || first <= lowestPort {
		return customary
	}
	return first
}

// tryConnect makes one connection to a port of 127.0.0.1 and drops it.
func tryConnect(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}

// Ask sends one GET over a new connection to a port of 127.0.0.1, with fields
// such as "User-Agent: x", and returns the status.
func Ask(port int, path string, timeout time.Duration, fields ...string) (status int, err error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), timeout)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	var head strings.Builder
	for _, f := range fields {
		head.WriteString(f + "\r\n")
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: bench.example\r\nConnection: close\r\n%s\r\n", path, &head); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	return response.StatusCode, nil
}
