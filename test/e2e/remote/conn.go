package remote

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"time"
)

// recordLimit bounds the recorded bytes that the test has not read yet. A connection at
// the limit is not read.
const recordLimit = 4 << 20

// conn is one accepted connection. Fields below net are guarded by the
// server's mutex.
type conn struct {
	server   *Server
	id       int
	net      *net.TCPConn
	response []byte // response to each head; nil = the test responds

	recorded bytes.Buffer
	state    State
	handed   bool
	paused   bool
}

// readAll records received bytes until the connection ends.
func (c *conn) readAll() {
	buf := make([]byte, 64<<10)
	for {
		c.awaitRoom()
		n, err := c.net.Read(buf)
		if n > 0 {
			c.record(buf[:n])
		}
		if err != nil {
			c.end(endOf(err))
			return
		}
	}
}

func (c *conn) awaitRoom() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for (c.paused || c.recorded.Len() > recordLimit) && c.state.EndKind == Open {
		c.server.changed.Wait()
	}
}

func (c *conn) record(p []byte) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	c.recorded.Write(p)
	c.state.Received += int64(len(p))
	if c.response != nil {
		c.respondToHeadsLocked()
		return
	}
	if !c.handed {
		c.handed = true
		s.waiting = append(s.waiting, c.id)
	}
}

func (c *conn) respondToHeadsLocked() {
	end := []byte("\r\n\r\n")
	for {
		i := bytes.Index(c.recorded.Bytes(), end)
		if i < 0 {
			return
		}
		c.recorded.Next(i + len(end))
		c.server.responded++
		if _, err := c.net.Write(c.response); err != nil {
			return
		}
	}
}

func (c *conn) end(kind string) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state.EndKind == Open {
		c.state.EndKind, c.state.EndedAt = kind, time.Now().UnixNano()
	}
	s.changed.Broadcast()
}

func (c *conn) write(p []byte) error {
	n, err := c.net.Write(p)
	c.server.mu.Lock()
	c.state.Sent += int64(n)
	c.server.mu.Unlock()
	return err
}

func (c *conn) fill(a FillArgs) error {
	piece := make([]byte, a.Piece)
	framed := make([]byte, 0, a.Piece+32)
	for at := int64(0); at < a.Bytes; {
		p := piece[:min(int64(a.Piece), a.Bytes-at)]
		Pattern(p, at)
		out := p
		if a.Chunked {
			framed = fmt.Appendf(framed[:0], "%x\r\n", len(p))
			framed = append(append(framed, p...), "\r\n"...)
			out = framed
		}
		if err := c.write(out); err != nil {
			return err
		}
		at += int64(len(p))
	}
	return nil
}

func (c *conn) drain(a DrainArgs) error {
	if !a.Chunked {
		return CheckPattern(io.LimitReader((*recording)(c), a.Bytes), a.Bytes)
	}
	buffered := bufio.NewReader((*recording)(c))
	if err := CheckPattern(httputil.NewChunkedReader(buffered), a.Bytes); err != nil {
		return err
	}
	if end, err := buffered.Peek(2); err != nil || string(end) != "\r\n" {
		return fmt.Errorf("after the last chunk came %q, %v", end, err)
	}
	return nil
}

// recording is a conn with the method Read of an io.Reader. Read returns bytes that the
// connection has recorded. If there are none, Read waits for more.
type recording conn

func (r *recording) Read(p []byte) (int, error) {
	s := r.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waitLocked(Timeout, func() bool { return r.recorded.Len() > 0 || r.state.EndKind != Open }) {
		return 0, ErrSilent
	}
	if r.recorded.Len() == 0 {
		return 0, errors.New("connection ended: " + r.state.EndKind)
	}
	s.changed.Broadcast()
	return r.recorded.Read(p)
}
