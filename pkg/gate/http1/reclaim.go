package http1

// Busy implements server.IdleConn.
func (c *conn) Busy() bool {
	return c.session != nil && c.session.phase != lingering && c.Set() != &c.eng.reading
}

// Quiet implements server.IdleConn. A session has the bytes that have come.
func (c *conn) Quiet() bool { return c.session != nil || c.sock.Quiet() }

// Reclaim implements server.IdleConn.
func (c *conn) Reclaim() {
	c.finish()
	if c.session != nil {
		c.session.close()
	}
}

// upstreams is the server.IdleSource of what an engine keeps towards the
// container: pipes, which go first, and connections.
type upstreams struct{ eng *engine }

func (s upstreams) Oldest() (since int64, ok bool) {
	if s.eng.bufs.pipes.free.Len() > 0 {
		return 0, true
	}
	if u := s.eng.pool.spare(); u != nil {
		return u.idleSince, true
	}
	return 0, false
}

func (s upstreams) CloseOldest() {
	if p := &s.eng.bufs.pipes; p.free.Len() > 0 {
		p.close(p.free.Get())
		return
	}
	u := s.eng.pool.spare()
	u.sock.Finish()
	u.close()
}
