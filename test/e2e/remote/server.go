package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Server owns one TCP port and the connections to it. A [Client] calls its exported
// methods through net/rpc. These calls may run concurrently.
type Server struct {
	holder int // a bound socket that never listens reserves the port
	port   int

	mu             sync.Mutex
	changed        *sync.Cond // signals a change of a field below
	listener       net.Listener
	conns          []*conn
	waiting        []int
	accepted       int
	responded      int
	commonResponse []byte
}

// NewServer reserves a port of 127.0.0.1 without listening: connections to it
// are refused until Listen.
func NewServer() (*Server, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the port's holder: %w", err)
	}
	if err := reuse(fd); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, fmt.Errorf("binding the port's holder: %w", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("reading the port: %w", err)
	}
	s := &Server{holder: fd, port: name.(*unix.SockaddrInet4).Port}
	s.changed = sync.NewCond(&s.mu)
	return s, nil
}

func reuse(fd int) error {
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
}

// Serve handles calls on the control connection until it closes.
func (s *Server) Serve(control net.Conn) error {
	r := rpc.NewServer()
	if err := r.RegisterName("Container", s); err != nil {
		return fmt.Errorf("registering the calls: %w", err)
	}
	r.ServeConn(control)
	return nil
}

// Port returns the reserved port.
func (s *Server) Port(_ None, port *int) error {
	*port = s.port
	return nil
}

// Listen starts to accept connections.
func (s *Server) Listen(None, *None) error {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = reuse(int(fd)) }), err)
	}}
	l, err := lc.Listen(context.Background(), "tcp4", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.listener = l
	s.mu.Unlock()
	go s.acceptAll(l)
	return nil
}

// Unlisten stops accepting: later connections are refused, open ones stay.
func (s *Server) Unlisten(None, *None) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return errors.New("not listening")
	}
	err := s.listener.Close()
	s.listener = nil
	return err
}

func (s *Server) acceptAll(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		c := &conn{server: s, id: len(s.conns), net: nc.(*net.TCPConn), response: s.commonResponse}
		s.conns = append(s.conns, c)
		s.accepted++
		s.mu.Unlock()
		go c.readAll()
	}
}

// Accept returns the id of the next connection that has sent a byte. A silent
// connection, such as a TCP probe, is only counted.
func (s *Server) Accept(a AcceptArgs, id *int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waitLocked(a.Timeout, func() bool { return len(s.waiting) > 0 }) {
		return fmt.Errorf("no connection with a request within %v (%d accepted in all)", a.Timeout, s.accepted)
	}
	*id, s.waiting = s.waiting[0], s.waiting[1:]
	return nil
}

// Counts describes all connections since the start.
func (s *Server) Counts(_ None, n *Counts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n = Counts{Accepted: s.accepted, Waiting: len(s.waiting), Responded: s.responded}
	return nil
}

// RespondAll makes every later connection respond to each head with these bytes. Accept
// does not return such connections.
func (s *Server) RespondAll(response []byte, _ *None) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commonResponse = bytes.Clone(response)
	return nil
}

// Read removes the oldest recorded bytes of a connection, at most a.Max, and returns
// them.
func (s *Server) Read(a ReadArgs, r *ReadReply) error {
	c, err := s.find(a.ID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitLocked(a.Timeout, func() bool { return c.recorded.Len() > 0 || c.state.EndKind != Open })
	r.Data = bytes.Clone(c.recorded.Next(a.Max))
	s.changed.Broadcast()
	if len(r.Data) == 0 {
		r.EndKind, r.EndedAt = c.state.EndKind, c.state.EndedAt
	}
	return nil
}

// Write sends bytes and returns when the kernel has accepted them.
func (s *Server) Write(a WriteArgs, _ *None) error {
	c, err := s.find(a.ID)
	if err != nil {
		return err
	}
	return c.write(a.Data)
}

// Fill sends pattern bytes and returns when the kernel has accepted them all.
func (s *Server) Fill(a FillArgs, _ *None) error {
	c, err := s.find(a.ID)
	if err != nil {
		return err
	}
	return c.fill(a)
}

// Drain reads a body of pattern bytes and fails if any byte differs.
func (s *Server) Drain(a DrainArgs, _ *None) error {
	c, err := s.find(a.ID)
	if err != nil {
		return err
	}
	return c.drain(a)
}

// Pause stops or resumes reading from a connection.
func (s *Server) Pause(a PauseArgs, _ *None) error {
	c, err := s.find(a.ID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.paused = a.Paused
	s.changed.Broadcast()
	return nil
}

// State returns the byte counts of a connection.
func (s *Server) State(id int, st *State) error {
	c, err := s.find(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*st = c.state
	st.Unread = c.recorded.Len()
	return nil
}

// CloseWrite half-closes a connection.
func (s *Server) CloseWrite(id int, _ *None) error {
	c, err := s.find(id)
	if err != nil {
		return err
	}
	return c.net.CloseWrite()
}

// Close closes a connection.
func (s *Server) Close(id int, _ *None) error {
	c, err := s.find(id)
	if err != nil {
		return err
	}
	c.end(Closed)
	return c.net.Close()
}

// Abort resets a connection.
func (s *Server) Abort(id int, _ *None) error {
	c, err := s.find(id)
	if err != nil {
		return err
	}
	c.end(Closed)
	return errors.Join(c.net.SetLinger(0), c.net.Close())
}

func (s *Server) find(id int) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id < 0 || id >= len(s.conns) {
		return nil, fmt.Errorf("no connection %d", id)
	}
	return s.conns[id], nil
}

// waitLocked waits until the function done returns true, but no longer than timeout. It
// returns the last result of done. The caller holds s.mu.
func (s *Server) waitLocked(timeout time.Duration, done func() bool) bool {
	expired := false
	timer := time.AfterFunc(timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		expired = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	for !done() && !expired {
		s.changed.Wait()
	}
	return done()
}

func endOf(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return EOF
	case errors.Is(err, syscall.ECONNRESET):
		return Reset
	case errors.Is(err, net.ErrClosed):
		return Closed
	}
	return err.Error()
}
