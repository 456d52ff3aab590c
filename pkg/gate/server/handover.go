package server

// StopListening closes the listeners because another process serves the same sockets.
// That process also gets the connections in the backlog. HTTP/2 clients get GOAWAY. Idle
// HTTP/1 connections stay open, because a request may already be on its way on any of
// them. StopListening returns when all loops have stopped accepting, or after
// stopTimeout. Call Shutdown afterwards.
func (s *Server) StopListening() {
	s.onLoops(stopTimeout, func(w *Worker) int {
		w.closeListeners()
		if w.http2 != nil {
			w.http2.StopAccepting()
		}
		return 0
	})
}

// Clients returns the number of client connections, including those in a TLS handshake. A
// loop that does not respond within statsTimeout counts as one client.
func (s *Server) Clients() int {
	n, responded := s.onLoops(statsTimeout, func(w *Worker) int {
		n := w.tls.silent.Len() + w.tls.partial.Len()
		if w.tls.queued.First() != nil || w.tls.handshaking.First() != nil {
			n++
		}
		for _, p := range w.parts {
			n += p.Clients()
		}
		return n
	})
	return n + len(s.workers) - responded
}
