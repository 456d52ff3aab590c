package http2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Protocol is what the container is spoken to in.
type Protocol uint8

// The protocols. Auto finds out once per start of the container.
const (
	Auto Protocol = iota
	HTTP1
	H2C // HTTP/2 without TLS, by prior knowledge
)

// Limits of a client's connection.
const (
	maxStreams       = 250
	maxHeadBytes     = 1 << 20
	maxFields        = 4096
	streamWindow     = 64 << 10                  // what a request may send ahead of the container
	connectionWindow = maxStreams * streamWindow // else bodies that nobody reads yet would hold up those that are read
)

// Config is what the engine needs beside the gate.
type Config struct {
	// Upstream is the user container's address.
	Upstream netip.AddrPort
	// Protocol is how the container is spoken to.
	Protocol Protocol
	// UpstreamTLS makes connections to the container sessions of TLS; nil: they
	// are plain.
	UpstreamTLS *tls.Config
	// UpstreamTLSFailed is told why no session came about. It may be nil.
	UpstreamTLSFailed func(error)
	// Panicked is told of a contained panic, with its value. It may be nil.
	Panicked func(v any)
}

// Server is the HTTP/2 engine. All methods may be called from any goroutine.
type Server struct {
	gate     *gate.Gate
	cfg      Config
	http     http.Server
	incoming *incoming
	up       *upstream
	served   sync.WaitGroup
	date     dateCache
	copies   copyBuffers
	ballast  ballast

	mu     sync.Mutex
	conns  map[*conn]struct{}
	errors map[string]int64
}

// Stats is the state of the engine and what it saw since the start.
type Stats struct {
	gate.HTTP2Stats
	Upstream UpstreamStats
}

// maxErrorKinds bounds Stats.Errors, whatever the library calls its errors.
const maxErrorKinds = 128

// NewServer makes an engine that waits for connections. Close or Shutdown
// ends it.
func NewServer(g *gate.Gate, c Config) (*Server, error) {
	if !c.Upstream.IsValid() || c.Upstream.Port() == 0 {
		return nil, fmt.Errorf("upstream %s: want an address with a port", c.Upstream)
	}
	if c.UpstreamTLSFailed == nil {
		c.UpstreamTLSFailed = func(error) {}
	}
	if c.Panicked == nil {
		c.Panicked = func(any) {}
	}
	s := &Server{
		gate: g, cfg: c,
		incoming: newIncoming(c.Upstream),
		conns:    make(map[*conn]struct{}),
		errors:   make(map[string]int64),
	}
	s.up = newUpstream(s)
	s.http = http.Server{
		Handler:        http.HandlerFunc(s.handle),
		Protocols:      new(http.Protocols),
		MaxHeaderBytes: maxHeadBytes,
		ConnContext:    withConn,
		ConnState:      noteState,
		ErrorLog:       log.New(io.Discard, "", 0), // a peer's faults are counted, panics are contained before
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: connectionWindow,
			MaxReadFrameSize:              16 << 10,
			CountError:                    s.countError,
		},
	}
	s.http.Protocols.SetUnencryptedHTTP2(true)
	g.Descriptors.Add(idleConns{s})
	s.served.Go(func() { _ = s.http.Serve(s.incoming) }) // says only that the server was closed
	return s, nil
}

// TakeOver serves a connection that an event loop has given away: a
// non-blocking descriptor of the gate's budget, which the engine owns from now
// on, and the bytes that were read, which it copies. It does not block.
func (s *Server) TakeOver(fd int, peer netip.AddrPort, read []byte) {
	read = append([]byte(nil), read...)
	go func() {
		file := os.NewFile(uintptr(fd), "client")
		c, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			s.countError("take_over") // out of descriptors
			s.gate.Descriptors.Release()
			return
		}
		s.serve(newConn(c, peer, read))
	}()
}

// Serve serves a connection on which the client has begun, or will begin,
// with the preface of HTTP/2: a *tls.Conn whose handshake has chosen h2, or a
// plain one. It holds a descriptor of the gate's budget. The engine owns it from
// now on. Serve does not block.
func (s *Server) Serve(c net.Conn) {
	peer, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	w := newConn(c, netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()), nil)
	_, w.encrypted = c.(*tls.Conn)
	s.serve(w)
}

func (s *Server) serve(c *conn) {
	s.ballast.take()
	c.done = func() { s.forget(c) }
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if !s.incoming.give(c) {
		_ = c.Close()
	}
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.gate.Descriptors.Release()
}

func (s *Server) countError(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.errors[kind]; !known && len(s.errors) >= maxErrorKinds {
		kind = "other"
	}
	s.errors[kind]++
}

// Stats looks at the engine.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{gate.HTTP2Stats{Connections: len(s.conns), Errors: maps.Clone(s.errors)}, s.up.stats()}
}

// Listening tells the engine, from outside, that the container has begun to
// accept connections: requests that are held try at once.
func (s *Server) Listening() { s.up.line.hurry() }

// Shutdown takes no more connections, tells the clients of all others that
// they end (GOAWAY), and waits for their streams. When ctx is done first, what
// is left is cut.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.Close()
	return err
}

// Close cuts everything.
func (s *Server) Close() {
	_ = s.http.Close()
	s.mu.Lock()
	left := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		left = append(left, c)
	}
	s.mu.Unlock()
	for _, c := range left {
		_ = c.Close()
		c.cut()
	}
	s.served.Wait()
	s.up.close()
}

// connKey is the place of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// incoming is a listener whose connections come from elsewhere.
type incoming struct {
	conns chan *conn
	ended chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newIncoming(addr netip.AddrPort) *incoming {
	return &incoming{conns: make(chan *conn), ended: make(chan struct{}), addr: net.TCPAddrFromAddrPort(addr)}
}

// give hands c to the server; false means that it takes no more.
func (l *incoming) give(c *conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.ended:
		return false
	}
}

func (l *incoming) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, errors.New("taking connections: the server has ended")
	}
}

func (l *incoming) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

func (l *incoming) Addr() net.Addr { return l.addr }
