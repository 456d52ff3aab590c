package hostile

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"
)

// tokenPattern matches the tokens of requests: q, the number of the run, and a letter for
// the role.
var tokenPattern = regexp.MustCompile(`q([0-9]{6})([a-z])`)

func tokenOf(run int, role string) string { return fmt.Sprintf("q%06d%s", run, role) }

// containerConn is a connection of the container.
type containerConn struct {
	conn     net.Conn
	received []byte
	runs     []arrival
	messages []message // complete messages, with offsets into received
	partial  message
	err      error // error of the strict parser after the last complete message
	closed   bool
	tunnel   int  // offset of the tunnel in received; 0 = none
	echo     bool // echo received bytes
	closing  bool // the container closes the connection
	jobs     chan func()
}

// arrival records that a piece of the received bytes arrived during this run. The piece
// begins at this offset in received, and ends at the offset of the next arrival.
type arrival struct{ offset, run int }

// container is a scripted origin that records all bytes.
type container struct {
	listener net.Listener

	mu       sync.Mutex
	conns    []*containerConn
	scripts  map[string]*script
	greeting *script // sent once, on the next connection, without waiting for a request
	run      int
}

func newContainer(address string) (*container, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &container{listener: l, scripts: map[string]*script{}}
	go c.serve()
	return c, nil
}

func (c *container) port() int { return c.listener.Addr().(*net.TCPAddr).Port }

func (c *container) serve() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		cc := &containerConn{conn: conn, jobs: make(chan func(), 4096)}
		c.mu.Lock()
		c.conns = append(c.conns, cc)
		greeting := c.greeting
		c.greeting = nil
		c.mu.Unlock()
		if greeting != nil {
			c.start(cc, greeting)
		}
		go cc.work()
		go c.receive(cc)
	}
}

func (cc *containerConn) work() {
	for job := range cc.jobs {
		job()
	}
	cc.conn.Close()
}

func (c *container) receive(cc *containerConn) {
	defer close(cc.jobs)
	chunk := make([]byte, 64<<10)
	started := 0 // messages whose response has begun
	for {
		n, err := cc.conn.Read(chunk)
		c.mu.Lock()
		if n > 0 {
			cc.runs = append(cc.runs, arrival{len(cc.received), c.run})
			cc.received = append(cc.received, chunk[:n]...)
		}
		if cc.echo && n > 0 {
			data := string(chunk[:n])
			cc.jobs <- func() { cc.conn.Write([]byte(data)) }
		}
		for cc.tunnel == 0 && c.advance(cc, &started) {
		}
		cc.closed = err != nil
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// advance parses the next message, and queues its response. The caller holds mu.
func (c *container) advance(cc *containerConn, started *int) bool {
	at := 0
	if n := len(cc.messages); n > 0 {
		at = cc.messages[n-1].end
	}
	if at == len(cc.received) || errors.Is(cc.err, errMalformed) {
		return false
	}
	m, err := parseRequest(cc.received[at:], false)
	cc.partial, cc.err = m, err
	s := c.scripts[tokenPattern.FindString(m.target)]
	if m.headEnd > 0 && *started == len(cc.messages) {
		switch {
		case s != nil && s.early:
			*started++
			c.start(cc, s)
		case s == nil && err != nil && m.has("Expect", "100-continue"):
			cc.jobs <- func() { cc.conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) }
		}
	}
	if errors.Is(err, errMalformed) {
		cc.jobs <- func() {
			cc.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nX-Container: yes\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			cc.conn.Close()
		}
		return false
	}
	if err != nil {
		return false
	}
	m.end += at
	m.headEnd += at
	cc.messages = append(cc.messages, m)
	cc.partial, cc.err = message{}, nil
	if *started < len(cc.messages) {
		*started++
		if s != nil {
			c.start(cc, s)
		} else {
			cc.jobs <- func() { cc.respond(m) }
		}
	}
	if s != nil {
		for _, st := range s.steps {
			if st.kind == stepEcho {
				cc.echo, cc.tunnel = true, m.end
				if rest := string(cc.received[m.end:]); rest != "" {
					cc.jobs <- func() { cc.conn.Write([]byte(rest)) }
				}
			}
		}
	}
	return true
}

// begin starts a run. Bytes that arrive from now on belong to this run. The script s is
// the response to the tested request; if s is nil, the container generates the response.
// If unasked is set, the container closes all connections, and plays s when the gate
// opens the next one, without waiting for a request.
func (c *container) begin(run int, s *script, unasked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = run
	if s == nil {
		return
	}
	if !unasked {
		c.scripts[tokenOf(run, "t")] = s
		return
	}
	c.greeting = s
	for _, cc := range c.conns {
		if !cc.closed {
			cc.closing = true
			cc.conn.Close()
		}
	}
}

// describePending describes the connections that still wait for the rest of a message. It
// returns "" if there are none.
func (c *container) describePending() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []string
	for i, cc := range c.conns {
		if cc.closed || cc.tunnel > 0 || cc.closing || errors.Is(cc.err, errMalformed) {
			continue
		}
		if cc.err != nil {
			open = append(open, fmt.Sprintf("connection %d still waits for the rest of %s %.60q", i, cc.partial.method, cc.partial.target))
		}
	}
	return strings.Join(open, "; ")
}

// forget gives up the connections that still wait for the rest of a message. The method
// describePending no longer returns them, so that later runs are not blamed for them.
func (c *container) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cc := range c.conns {
		if cc.err != nil && !cc.closed {
			cc.closing = true
		}
	}
}

// finish waits until all connections have ended. After timeout it closes those that are
// still open.
func (c *container) finish(timeout time.Duration) {
	deadline := time.Now().Add(timeout)
	for {
		c.mu.Lock()
		open := 0
		for _, cc := range c.conns {
			if cc.closed {
				continue
			}
			open++
			if time.Now().After(deadline) {
				cc.conn.Close()
			}
		}
		c.mu.Unlock()
		if open == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
