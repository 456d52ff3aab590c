package http1

// Busy implements server.IdleConn.
func (c *conn) Busy() bool {
	return c.session != nil && c.session.phase != lingering && c.Set() != &c.eng.reading
}

// Quiet implements server.IdleConn. A session has already moved received bytes out of the
// kernel.
func (c *conn) Quiet() bool { return c.session != nil || c.sock.Quiet() }

// Reclaim implements server.IdleConn.
func (c *conn) Reclaim() {
	c.finish()
	if c.session != nil {
		c.session.close()
	}
}

// reclaimUpstream is the engine's server.IdleSource. It reclaims pipes before idle
// upstream connections.
func (e *engine) reclaimUpstream() (since int64, reclaim func()) {
	if p := &e.bufs.pipes; p.free.Len() > 0 {
		return 0, func() { p.close(p.free.Get()) }
	}
	u := e.pool.reclaimable()
	if u == nil {
		return 0, nil
	}
	return u.idleSince, func() {
		u.sock.Finish()
		u.close()
	}
}
