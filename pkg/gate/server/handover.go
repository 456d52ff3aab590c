package server

// StopListening closes the listeners and leaves their backlog to another process, which
// serves the same sockets. HTTP/2 clients get GOAWAY. Idle HTTP/1 connections stay open,
// because a request may be in flight. StopListening returns when all loops have stopped
// accepting, or after stopTimeout. Call Shutdown afterwards.
func (s *Server) StopListening() {
	s.onLoops(stopTimeout, func(w *Worker) int {
		w.closeListeners()
		if w.http2 != nil {
			w.http2.StopAccepting()
		}
		return 0
	})
}

// Clients returns the approximate number of client connections. If a loop has queued or
// running TLS handshakes, they count as one connection together. A loop that does not
// respond within statsTimeout counts as one connection, because it may have some. So the
// result is 0 only if there are certainly no connections.
func (s *Server) Clients() int {
	n, responded := s.onLoops(statsTimeout, func(w *Worker) int {
		n := w.tls.silent.Len() + w.tls.partial.Len()
		if w.tls.queued.First() != nil || w.tls.handshaking.First() != nil {
			n++
		}
		for _, e := range w.engines {
			n += e.Clients()
		}
		return n
	})
	return n + len(s.workers) - responded
}
