package target

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/socket"
)

// lowestPort keeps away from what services usually use.
const lowestPort = 10_000

// given are the ports that were handed out, so that of several targets that
// start at once none gets a port that another has not bound yet.
var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePorts returns a free port for each name. They lie below the range from
// which the kernel takes the ports of outgoing connections, so that none of ten
// thousand clients can take one away.
func freePorts(names []string) (map[string]int, error) {
	given.Lock()
	defer given.Unlock()
	end := ephemeralStart()
	if len(given.ports) > (end-lowestPort)/2 {
		clear(given.ports) // those of long ago
	}
	ports := map[string]int{}
	var held []int
	defer func() {
		for _, fd := range held {
			socket.Close(fd)
		}
	}()
	for _, name := range names {
		for tries := 0; ; tries++ {
			candidate := lowestPort + rand.IntN(end-lowestPort)
			if tries >= 100 {
				candidate = 0
			} else if given.ports[candidate] {
				continue
			}
			fd, port, err := socket.Bind(candidate)
			if err == nil {
				held = append(held, fd)
				ports[name] = port
				given.ports[port] = true
				break
			}
			if candidate == 0 {
				return nil, fmt.Errorf("looking for a free port: %w", err)
			}
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
	request := "GET " + path + " HTTP/1.1\r\nHost: bench.example\r\nConnection: close\r\n"
	for _, f := range fields {
		request += f + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	var version string
	if _, err := fmt.Sscanf(line, "%s %d", &version, &status); err != nil {
		return 0, fmt.Errorf("answer begins with %q", line)
	}
	return status, nil
}
