package app

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
)

const (
	// maxSideConns limits the open connections of a side port.
	maxSideConns = 64
	// ownSideConns connections of each side port are exempt from the descriptor budget,
	// so that the port works when clients have exhausted the budget.
	ownSideConns = 2
)

// sideConns tracks the open connections of a side port. Each connection beyond the first
// ownSideConns takes a descriptor from the gate's budget. At maxSideConns, or when the
// budget is exhausted, a new connection replaces the longest idle connection. If all
// connections are busy, the new one is closed. The gate may also close an idle connection
// to return its descriptor to the budget.
type sideConns struct {
	budget *exchange.Descriptors

	mu          sync.Mutex
	conns       map[*sideConn]struct{}
	numAcquired int // descriptors acquired from budget
}

// sideConn is a connection in sideConns. It is idle unless a handler runs.
type sideConn struct {
	net.Conn
	set       *sideConns
	idleSince time.Duration // on server.Clock: when it became idle
	serving   bool
}

func newSideConns(budget *exchange.Descriptors) *sideConns {
	s := &sideConns{budget: budget, conns: map[*sideConn]struct{}{}}
	budget.Add(s)
	return s
}

// admit adds c. If there is no room for c, admit first closes the longest idle
// connection. If no connection is idle, admit returns nil, and the caller closes c.
func (s *sideConns) admit(c net.Conn) *sideConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= maxSideConns || !s.hasDescriptor() {
		oldest := s.longestIdle()
		if oldest == nil {
			return nil
		}
		// Do not release the descriptor of oldest, because c takes it over.
		delete(s.conns, oldest)
		_ = oldest.Conn.Close()
	}
	admitted := &sideConn{Conn: c, set: s, idleSince: server.Clock()}
	s.conns[admitted] = struct{}{}
	return admitted
}

// hasDescriptor reports whether there is a descriptor for a new connection. If
// ownSideConns connections are already exempt from the budget, hasDescriptor acquires a
// descriptor from the budget. The caller holds the lock.
func (s *sideConns) hasDescriptor() bool {
	if len(s.conns)-s.numAcquired < ownSideConns {
		return true
	}
	if !s.budget.TryAcquire() {
		return false
	}
	s.numAcquired++
	return true
}

// longestIdle returns the connection that has been idle longest, or nil if none is
// idle. The caller holds the lock.
func (s *sideConns) longestIdle() (oldest *sideConn) {
	for c := range s.conns {
		if !c.serving && (oldest == nil || c.idleSince < oldest.idleSince) {
			oldest = c
		}
	}
	return oldest
}

// remove removes the closed connection c and releases its descriptor.
func (s *sideConns) remove(c *sideConn) {
	s.mu.Lock()
	_, in := s.conns[c]
	delete(s.conns, c)
	// s counts the descriptors from the budget, but does not record which connections have
	// them. So release one if there is any, whichever connection c is.
	release := in && s.numAcquired > 0
	if release {
		s.numAcquired--
	}
	s.mu.Unlock()
	if release {
		s.budget.Release()
	}
}

// Close implements net.Conn.
func (c *sideConn) Close() error {
	err := c.Conn.Close()
	c.set.remove(c)
	return err
}

// setServing records whether a handler runs.
func (c *sideConn) setServing(serving bool) {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	c.serving, c.idleSince = serving, server.Clock()
}

// Oldest implements exchange.IdleConnections.
func (s *sideConns) Oldest(found func(c exchange.IdleConnection, ok bool)) {
	found(s.oldest())
}

func (s *sideConns) oldest() (c exchange.IdleConnection, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numAcquired == 0 {
		return c, false
	}
	oldest := s.longestIdle()
	if oldest == nil || server.Clock()-oldest.idleSince < exchange.MinIdle {
		return c, false
	}
	return exchange.IdleConnection{Idleness: exchange.IdleClient, IdleSince: int64(oldest.idleSince)}, true
}

// CloseOldest implements exchange.IdleConnections.
func (s *sideConns) CloseOldest(exchange.Idleness) {
	s.mu.Lock()
	oldest := s.longestIdle()
	s.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
}

// sideListener accepts connections and enforces the limits of sideConns.
type sideListener struct {
	net.Listener
	conns *sideConns
}

// Accept implements net.Listener.
func (l *sideListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.conns.admit(c); admitted != nil {
			return admitted, nil
		}
		_ = c.Close()
	}
}

type sideConnKey struct{}

// withSideConn is http.Server.ConnContext.
func withSideConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, sideConnKey{}, c)
}

// noteServing marks the request's connection as busy while h runs.
func noteServing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(sideConnKey{}).(*sideConn)
		c.setServing(true)
		defer c.setServing(false)
		h.ServeHTTP(w, r)
	})
}

const (
	// sideHeadTimeout limits the time to receive a head.
	sideHeadTimeout = 10 * time.Second
	// sideIdleTimeout is longer than the usual interval of scrapes.
	sideIdleTimeout = 90 * time.Second
	// sideWriteTimeout limits the time to send a response, on ports whose handlers do
	// not wait.
	sideWriteTimeout = 30 * time.Second
)
