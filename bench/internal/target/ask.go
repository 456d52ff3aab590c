package target

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

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
