// Command overh2 converts HTTP/1.1 to HTTP/2, so that the HTTP/1 tests of package e2e
// also test the gate's HTTP/2. It starts the gate and listens on the gate's serving port
// itself. It sends each HTTP/1.1 request of a client to the gate as an HTTP/2 stream.
// Each client connection has its own HTTP/2 connection to the gate, which is over TLS if
// OVERH2_TLS is 1. If QUEUEGATE_BINARY is the path of overh2, the tests of package e2e
// start it instead of the gate.
//
// Some parts of HTTP/1 have no exact counterpart in HTTP/2:
//
//   - A Connection field is not forwarded if it contains upgrade, or only close or
//     keep-alive. Any other Connection field is forwarded, and the gate rejects it as
//     malformed.
//   - A request with the field Upgrade becomes an extended CONNECT.
//   - If the client closes its connection during a request, overh2 resets the stream with
//     CANCEL. If the client resets its connection, overh2 resets the connection to the
//     gate.
//   - If the gate blames the client and resets a stream before its response, the client
//     gets a 400 with the field X-Reset. After any other reset by the gate, overh2 resets
//     the client's connection.
//   - The response gets Connection: close if the request asked for it or is incomplete,
//     or if the gate has sent GOAWAY.
package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/test/e2e/infront"
)

func main() {
	overTLS := os.Getenv("OVERH2_TLS") == "1"
	infront.Main("overh2", func(c *net.TCPConn, g infront.Gate) {
		dial := func() (net.Conn, error) { return net.Dial("tcp", g.Plain) }
		if overTLS {
			dial = func() (net.Conn, error) {
				return tls.Dial("tcp", g.TLS, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http2.NextProtoTLS}})
			}
		}
		s := &session{client: c, dial: dial}
		s.run()
	}, "UPSTREAM_PROTOCOL=http1")
}

// session is a client's connection, which carries one request at a time.
type session struct {
	client *net.TCPConn
	dial   func() (net.Conn, error)
	gate   *gateConn
	in     []byte // bytes read from the client and not consumed
	peeked int    // number of bytes at the end of s.in that the kernel's buffer still has

	mu      sync.Mutex
	closing bool // a response with Connection: close was sent
}

func (s *session) run() {
	defer s.client.Close()
	defer func() {
		if s.gate != nil {
			s.gate.close()
		}
	}()
	for {
		head, err := s.head()
		if err != nil {
			s.handleGateEnd(err, nil)
			return
		}
		if s.gate == nil || s.gate.isUnusable() {
			if s.gate != nil {
				s.gate.close()
			}
			conn, err := s.dial()
			if err != nil {
				return
			}
			if s.gate, err = newGateConn(conn, s.closeWrite); err != nil {
				return
			}
		}
		r := readRequest(head)
		st := s.gate.open(r)
		a := &responder{s: s, st: st, r: r, out: bufio.NewWriterSize(s.client, 64<<10)}
		done := make(chan struct{})
		go func() { defer close(done); a.run() }()
		if err := s.body(st, r); err != nil {
			s.handleGateEnd(err, st)
			<-done
			return
		}
		s.gate.flush()
		// Wait for the next request or the client's FIN.
		for len(s.in) == 0 {
			if err := s.more(); err != nil {
				s.handleGateEnd(err, st)
				<-done
				return
			}
			if s.isClosing() {
				s.in = nil // no further request is served
			}
		}
		<-done
		if s.isClosing() {
			for s.more() == nil {
				s.in = nil
			}
			return
		}
	}
}

func (s *session) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
}

// closeWrite half-closes the client's connection after the gate has closed its own.
func (s *session) closeWrite() { _ = s.client.CloseWrite() }

func (s *session) handleGateEnd(err error, st *stream) {
	switch {
	case s.gate == nil:
	case !errors.Is(err, io.EOF):
		s.gate.abort()
	case st != nil:
		st.cancel()
	}
}

// more waits for further bytes from the client, and appends them to s.in. It only peeks
// at these bytes, so they stay in the kernel's buffer. The next call sends all pending
// data to the gate, and only then removes the bytes from the kernel's buffer. If this
// buffer is empty, the gate has therefore been sent everything, except an incomplete head
// or line.
func (s *session) more() error {
	if s.gate != nil {
		s.gate.flush()
	}
	if s.peeked > 0 {
		if _, err := io.ReadFull(s.client, make([]byte, s.peeked)); err != nil {
			return err
		}
		s.peeked = 0
	}
	raw, err := s.client.SyscallConn()
	if err != nil {
		return err
	}
	var buf [32 << 10]byte
	var n int
	var got error
	err = raw.Read(func(fd uintptr) bool {
		n, _, got = syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK)
		return !errors.Is(got, syscall.EAGAIN)
	})
	switch {
	case err != nil:
		return err
	case got != nil:
		return got
	case n == 0:
		return io.EOF
	}
	s.in = append(s.in, buf[:n]...)
	s.peeked = n
	return nil
}

// head reads up to the empty line.
func (s *session) head() (string, error) {
	for {
		if i := strings.Index(string(s.in), "\r\n\r\n"); i >= 0 {
			head := string(s.in[:i])
			s.in = s.in[i+4:]
			return head, nil
		}
		if err := s.more(); err != nil {
			return "", err
		}
	}
}

// line reads a line without its CRLF.
func (s *session) line() (string, error) {
	for {
		if i := strings.Index(string(s.in), "\r\n"); i >= 0 {
			line := string(s.in[:i])
			s.in = s.in[i+2:]
			return line, nil
		}
		if err := s.more(); err != nil {
			return "", err
		}
	}
}
