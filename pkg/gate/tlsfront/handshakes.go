package tlsfront

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// handshakes are the handshakes under way, oldest first.
type handshakes struct {
	free   chan struct{} // holds one for each that is under way
	mu     sync.Mutex
	list   list.List
	closed bool
}

// pending is one handshake.
type pending struct {
	conn  *net.TCPConn
	since time.Time
}

// begin takes a place for c. When there is none it waits for one, and after
// crowdedTimeout cuts the handshake that has taken longest.
func (s *handshakes) begin(c *net.TCPConn) *list.Element {
	for taken := false; !taken; {
		select {
		case s.free <- struct{}{}:
			taken = true
		default:
			taken = s.crowded()
		}
	}
	h := &pending{conn: c, since: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := h.since.Add(handshakeTimeout)
	if s.closed {
		deadline = time.Unix(1, 0)
	}
	_ = c.SetDeadline(deadline)
	return s.list.PushBack(h)
}

// crowded waits for a place until the oldest handshake has had its time, and
// reports whether it got one.
func (s *handshakes) crowded() bool {
	s.mu.Lock()
	e := s.list.Front()
	s.mu.Unlock()
	if e == nil {
		return false
	}
	oldest := e.Value.(*pending)
	timer := time.NewTimer(time.Until(oldest.since.Add(crowdedTimeout)))
	defer timer.Stop()
	select {
	case s.free <- struct{}{}:
		return true
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list.Front() == e { // else its handshake has ended
		_ = oldest.conn.SetDeadline(time.Unix(1, 0))
		s.list.MoveToBack(e)
		oldest.since = time.Now()
	}
	return false
}

func (s *handshakes) end(e *list.Element) {
	s.mu.Lock()
	s.list.Remove(e)
	s.mu.Unlock()
	<-s.free
}

// cut ends all handshakes, and those that begin later.
func (s *handshakes) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for e := s.list.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*pending).conn.SetDeadline(time.Unix(1, 0))
	}
}

const plaintextAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n" +
	"K-Gate-Outcome: bad-request\r\nContent-Length: 27\r\nConnection: close\r\n\r\nthis port speaks TLS only.\n"

// explain tells a client that speaks HTTP to a port of TLS what is wrong.
func explain(c net.Conn, err error) {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return
	}
	switch strings.TrimRight(string(header.RecordHeader[:]), " /") {
	case "GET", "POST", "HEAD", "PUT", "DELET", "PATCH", "OPTIO", "CONNE", "TRACE":
		_, _ = c.Write([]byte(plaintextAnswer))
	}
}
