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

// Clients returns 0 if there are no client connections, including those before the end of
// their TLS handshake. Otherwise the result is approximate: all handshakes of a loop,
// queued or in progress, count as one client, and so does a loop that does not respond
// within statsTimeout.
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
