package hostile

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

type endKind uint8

const (
	endNone  endKind = iota // the connection is open
	endClose                // a clean end of the stream
	endReset                // a reset, or any other error
)

// client is a raw connection to the proxy.
type client struct {
	conn    *net.TCPConn
	methods []string // methods of the requests; they determine the framing of responses

	mu      sync.Mutex
	changed chan struct{} // replaced at each change
	stream  []byte
	end     endKind
}

func dialClient(address string, methods []string) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, hangTime)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn.(*net.TCPConn), methods: methods, changed: make(chan struct{})}
	go c.receive()
	return c, nil
}

func (c *client) receive() {
	chunk := make([]byte, 64<<10)
	for {
		n, err := c.conn.Read(chunk)
		c.mu.Lock()
		c.stream = append(c.stream, chunk[:n]...)
		if err != nil {
			c.end = endReset
			if errors.Is(err, io.EOF) {
				c.end = endClose
			}
		}
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *client) state() ([]byte, endKind, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream, c.end, c.changed
}

// wait waits until done returns true. It returns false at the deadline, or if the
// connection ends before.
func (c *client) wait(deadline time.Time, done func([]byte, endKind) bool) bool {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		stream, end, changed := c.state()
		if done(stream, end) {
			return true
		}
		if end != endNone {
			return false
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

// write sends data, in writes of one byte if slowly is set. It stops at an error, but
// does not return it: the receiver notices that the connection has ended.
func (c *client) write(data []byte, slowly bool) {
	size := len(data)
	if slowly {
		size = 1
	}
	for len(data) > 0 {
		c.conn.SetWriteDeadline(time.Now().Add(hangTime))
		n, err := c.conn.Write(data[:min(size, len(data))])
		if err != nil {
			return
		}
		data = data[n:]
	}
}

// responseList is a received stream, parsed by the strict parser.
type responseList struct {
	finals     []message
	all        []message // with interim responses; the last one may be incomplete
	isComplete bool      // the stream ends with a complete response
	tunnel     []byte    // bytes after a 101
	switched   bool
	err        error // errIncomplete or a parse error after the last complete response
}

// readResponses frames the responses to requests with these methods.
func readResponses(stream []byte, methods []string, end endKind) responseList {
	list := responseList{isComplete: true}
	at := 0
	for at < len(stream) {
		m, err := parseResponse(stream[at:], methodOf(methods, len(list.finals)), end == endClose)
		if m.headEnd > 0 {
			m.headEnd += at
		}
		m.end += at
		if err != nil {
			list.isComplete, list.err = false, err
			if m.headEnd > 0 {
				list.all = append(list.all, m)
			}
			return list
		}
		list.all = append(list.all, m)
		at = m.end
		if m.status == 101 {
			list.finals = append(list.finals, m)
			list.tunnel, list.switched = stream[at:], true
			return list
		}
		if m.status >= 200 {
			list.finals = append(list.finals, m)
		}
	}
	return list
}
