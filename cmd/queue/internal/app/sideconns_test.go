package app

import (
	"net"
	"net/http"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// sidePipe passes a new connection to s.admit. The result admitted is nil if s has
// rejected the connection. The function closed reports whether s has removed it again.
func sidePipe(t *testing.T, s *sideConns) (admitted *sideConn, closed func() bool) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	admitted = s.admit(ours)
	return admitted, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, open := s.conns[admitted]
		return !open
	}
}

func TestASidePortAtItsLimitClosesTheLongestIdleConnection(t *testing.T) {
	s := newSideConns(exchange.NewDescriptors(1000))
	first, firstClosed := sidePipe(t, s)
	_, secondClosed := sidePipe(t, s)
	for range maxSideConns - 2 {
		sidePipe(t, s)
	}
	first.setServing(true) // a handler runs
	if c, _ := sidePipe(t, s); c == nil || firstClosed() || !secondClosed() {
		t.Errorf("admitted %v, first closed %v, second closed %v; want the second one closed", c != nil, firstClosed(), secondClosed())
	}
	for c := range s.conns {
		c.setServing(true)
	}
	if c, _ := sidePipe(t, s); c != nil {
		t.Error("a connection beyond the limit is admitted although all others are busy")
	}
	first.setServing(false)
	if c, _ := sidePipe(t, s); c == nil || !firstClosed() {
		t.Error("an idle connection is not closed for a new one")
	}
}

func TestSidePortsRespondWhenClientsExhaustTheDescriptors(t *testing.T) {
	budget := exchange.NewDescriptors(3)
	s := newSideConns(budget)
	for budget.TryAcquire() {
	}
	for range 3 * ownSideConns {
		if c, _ := sidePipe(t, s); c == nil {
			t.Fatal("a connection is rejected")
		}
		if n := len(s.conns); n > ownSideConns {
			t.Fatalf("%d connections with an exhausted budget", n)
		}
	}
}

func TestSidePortConnectionsReleaseTheirDescriptors(t *testing.T) {
	const n = 10
	budget := exchange.NewDescriptors(n)
	s := newSideConns(budget)
	var conns []*sideConn
	for range ownSideConns + n + 5 {
		c, _ := sidePipe(t, s)
		conns = append(conns, c)
	}
	if budget.Free() != 0 || len(s.conns) != ownSideConns+n {
		t.Errorf("%d free, %d connections", budget.Free(), len(s.conns))
	}
	s.CloseOldest(exchange.IdleClient)
	if budget.Free() != 1 || len(s.conns) != ownSideConns+n-1 {
		t.Errorf("%d free, %d connections after one was closed for clients", budget.Free(), len(s.conns))
	}
	for _, c := range conns {
		_ = c.Close()
		_ = c.Close()
	}
	if budget.Free() != n || len(s.conns) != 0 || s.numAcquired != 0 {
		t.Errorf("%d free, %d connections, %d held when all are closed", budget.Free(), len(s.conns), s.numAcquired)
	}
	if _, ok := s.oldest(); ok {
		t.Error("Oldest reports an idle connection although there are none")
	}
}

func TestSidePortsCloseIdleConnections(t *testing.T) {
	a := &App{gate: &exchange.Gate{Config: exchange.Config{Descriptors: exchange.NewDescriptors(10)}}}
	p := a.addPort("ADMIN_PORT", "127.0.0.1", 0, http.NotFoundHandler())
	if p.server.IdleTimeout <= 0 || p.server.ReadHeaderTimeout <= 0 {
		t.Errorf("idle timeout %v, head timeout %v", p.server.IdleTimeout, p.server.ReadHeaderTimeout)
	}
}
