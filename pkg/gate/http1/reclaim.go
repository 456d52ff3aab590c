package http1

// Busy implements server.IdleConn.
func (c *conn) Busy() bool {
	return c.session != nil && c.session.phase != lingering && c.Set() != &c.eng.reading
}

// Quiet implements server.IdleConn. The caller has checked that c is not busy. So if c
// has a session, its request head is incomplete, or c is in lingering close. In both
// cases Quiet returns true, because c may be closed even if bytes have been received.
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
