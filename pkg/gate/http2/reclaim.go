package http2

import (
	"net"
	"net/http"

	"github.com/queuegate/queuegate/pkg/gate"
)

// noteState keeps since when a client's connection has had no stream.
func noteState(c net.Conn, state http.ConnState) {
	if state == http.StateIdle || state == http.StateNew {
		c.(*conn).idleSince.Store(now())
	} else {
		c.(*conn).idleSince.Store(0)
	}
}

// idleConns is what the engine offers to gate.Descriptors: clients'
// connections without a stream.
type idleConns struct{ srv *Server }

// Oldest implements gate.IdleConnections.
func (i idleConns) Oldest(found func(gate.IdleConnection, bool)) {
	_, since := i.oldest()
	found(gate.IdleConnection{Idleness: gate.IdleClient, Since: since}, since != 0)
}

// CloseOldest implements gate.IdleConnections.
func (i idleConns) CloseOldest(gate.Idleness) {
	if c, _ := i.oldest(); c != nil {
		i.srv.gate.Descriptors.NoteReclaimed()
		_ = c.Close()
	}
}

func (i idleConns) oldest() (oldest *conn, since int64) {
	i.srv.mu.Lock()
	defer i.srv.mu.Unlock()
	since = now() - int64(gate.MinIdle) // no younger one
	for c := range i.srv.conns {
		if t := c.idleSince.Load(); t != 0 && t <= since {
			oldest, since = c, t
		}
	}
	if oldest == nil {
		return nil, 0
	}
	return oldest, since
}
