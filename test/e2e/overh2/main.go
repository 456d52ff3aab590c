// Command overh2 runs the gate so that all its traffic is HTTP/2 while its clients
// speak HTTP/1.1: it listens on the serving port and sends each request to the gate as
// a stream, with one HTTP/2 connection per client connection. With QUEUEGATE_BINARY set
// to it, the tests of the directory above check HTTP/2 by the rules of HTTP/1. With
// OVERH2_TLS=1 it uses HTTP/2 over TLS.
//
// Conversions without an exact counterpart:
//
//   - Connection: close and keep-alive are not forwarded; other options are, and
//     the gate treats them as malformed. A websocket upgrade becomes an extended CONNECT.
//   - If a client closes during a request, its stream is reset with CANCEL; if it
//     resets, the connection to the gate is reset.
//   - A stream that is reset before its response becomes a 400 with the field
//     X-Reset, if the client caused it, otherwise a reset of the connection.
//   - A response gets Connection: close if its request is incomplete, or if the
//     gate has sent GOAWAY.
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
	peeked int    // bytes at the end of in that are still in the kernel

	mu    sync.Mutex
	ended bool // a response with Connection: close was sent
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
			s.left(err, nil)
			return
		}
		if s.gate == nil || s.gate.refuses() {
			if s.gate != nil {
				s.gate.close()
			}
			conn, err := s.dial()
			if err != nil {
				return
			}
			if s.gate, err = newGateConn(conn, s.idle); err != nil {
				return
			}
		}
		r := readRequest(head)
		st := s.gate.open(r)
		a := &responder{s: s, st: st, r: r, out: bufio.NewWriterSize(s.client, 64<<10)}
		done := make(chan struct{})
		go func() { defer close(done); a.run() }()
		if err := s.body(st, r); err != nil {
			s.left(err, st)
			<-done
			return
		}
		s.gate.flush()
		// Wait for the next request or the client's FIN.
		for len(s.in) == 0 {
			if err := s.more(); err != nil {
				s.left(err, st)
				<-done
				return
			}
			if s.over() {
				s.in = nil // no further request is served
			}
		}
		<-done
		if s.over() {
			for s.more() == nil {
				s.in = nil
			}
			return
		}
	}
}

func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// idle half-closes the client's connection after the gate has closed its own.
func (s *session) idle() { _ = s.client.CloseWrite() }

func (s *session) left(err error, st *stream) {
	switch {
	case s.gate == nil:
	case !errors.Is(err, io.EOF):
		s.gate.abort()
	case st != nil:
		st.cancel()
	}
}

// more waits until the client has sent more bytes. The bytes stay in the kernel's buffer
// until they are sent to the gate, so that an empty buffer means that the gate has all
// bytes.
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
