package http1

// Busy implements server.IdleConn.
func (c *conn) Busy() bool {
	return c.session != nil && c.session.phase != lingering && c.Set() != &c.eng.reading
}

// Quiet implements server.IdleConn. If the connection has a session, received bytes are
// in the session's buffer and not in the kernel.
func (c *conn) Quiet() bool { return c.session != nil || c.sock.Quiet() }

// Reclaim implements server.IdleConn.
func (c *conn) Reclaim() {
	c.finish()
	if c.session != nil {
		c.session.close()
	}
}

// reclaimUpstream is the server.IdleSource of the engine for descriptors on the upstream
// side. Pipes are reclaimed before idle connections.
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
