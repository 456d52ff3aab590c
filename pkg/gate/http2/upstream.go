package http2

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// upStream is one exchange over a connection to the container, and its
// gate.UpstreamSide.
type upStream struct {
	flow
	conn        *upConn
	method      []byte
	headAt      int64  // the place of the head among the octets of the connection
	reused      bool   // the connection had carried a request before
	tunnel      bool   // extended CONNECT
	accept      []byte // of that of a client of HTTP/1: what its 101 says
	switched    bool   // and it has been accepted
	stopped     bool   // the container has answered whole and does not want the rest of the request
	heard       bool   // some head has come
	received    bool   // the head in res is new
	unprocessed bool   // nothing was done about the request
	failed      bool   // no answer will come, or no more of it
	failure     gate.Outcome
	status      int            // of the last head
	res         *wire.Response // that head, until it has gone on; nil = none
	heads       []h2.Head      // that have come behind the one in res, which has not been taken
	ends        bool           // END_STREAM came with the last of them
}

// Send is gate.UpstreamSide.
func (s *upStream) Send(c gate.ClientSide) (soon bool) {
	req, peer := c.(wire.Requester).Request()
	u := s.conn
	if u.settings.ConnectProtocol {
		s.accept = req.Extend()
	} else if !req.HTTP2 {
		req.ForgetProtocol() // of a try on another connection
	}
	s.method, s.tunnel = req.Method, req.Protocol() != nil
	end := !s.tunnel && (req.Body == wire.NoBody || req.Body == wire.BodyLength && req.Length == 0)
	s.headAt = u.place()
	b := u.room()
	start := len(b)
	b = req.AppendHTTP2(h2.BeginHeaders(b), &u.hpack().enc, peer, u.eng.worker.Host, u.eng.cfg.Scheme)
	u.hold(h2.EndHeaders(b, start, s.id, end, int(u.settings.MaxFrame)))
	s.started, s.finished = true, end
	if end {
		s.sent(h2.OnHeadersEnd)
	} else {
		s.sent(h2.OnHeaders)
	}
	return s.l.wire.Writable()
}

// Finish is gate.Sink. A tunnel has no end before it has begun.
func (s *upStream) Finish(trailers []byte) {
	if !s.tunnel || s.switched {
		s.flow.Finish(trailers)
	}
}

// receiveHead takes a field block: a head, or trailers.
func (s *upStream) receiveHead(h *h2.Head, end bool) *h2.Error {
	if !s.msg.ExpectsHead() {
		if err := s.msg.Trailers(end); err != nil {
			return err
		}
		if err := h.CheckTrailers(); err != nil {
			return err
		}
		s.trailers = wire.TrailerLines(h)
		s.over = true
		s.x.Wake()
		return nil
	}
	if h.TooLarge {
		return errHeadTooLarge
	}
	if err := h.CheckResponse(); err != nil {
		return err
	}
	s.heard = true
	if h.Status == 101 { // RFC 9113 section 8.6
		return errBadResponse
	}
	if h.Status < 200 {
		if err := s.msg.Interim(end); err != nil {
			return err
		}
	} else {
		bodiless := string(s.method) == "HEAD" || h.Status == 204 || h.Status == 304
		if err := s.msg.Head(h.Length, bodiless, end); err != nil {
			return err
		}
		s.over = end
	}
	if s.received || len(s.heads) > 0 {
		if h.Status < 200 && s.crowded(h) {
			return errTooManyHeads
		}
		s.heads = append(s.heads, h2.Head{})
		s.heads[len(s.heads)-1].CopyFrom(h)
		s.ends = end
	} else if err := s.take(h, end); err != nil {
		return err
	}
	s.x.Wake()
	return nil
}

var (
	errHeadTooLarge = &h2.Error{Code: h2.EnhanceYourCalm, Scope: h2.Stream, Fault: h2.FaultMalformed, Reason: "head of an answer beyond the limit"}
	errTooManyHeads = &h2.Error{Code: h2.EnhanceYourCalm, Scope: h2.Stream, Fault: h2.FaultHeaderBlock, Reason: "more interim answers than the client takes"}
	errBadResponse  = &h2.Error{Code: h2.ProtocolError, Scope: h2.Stream, Fault: h2.FaultMalformed, Reason: "head of an answer against RFC 9110"}
)

// Interim heads that wait for the client to take those before them.
const (
	mostHeadsWaiting = 64
	headsWaiting     = 64 << 10 // octets
)

// crowded reports that there is no room for another interim head.
func (s *upStream) crowded(h *h2.Head) bool {
	n := h.Size
	for i := range s.heads {
		n += s.heads[i].Cap()
	}
	return len(s.heads) >= mostHeadsWaiting || n > headsWaiting
}

// take reads a head into res.
func (s *upStream) take(h *h2.Head, end bool) *h2.Error {
	if s.res == nil {
		s.res = s.conn.pool.getResponse()
	}
	var err error
	if s.accept != nil && h.Status >= 200 && h.Status < 300 {
		err = s.res.ReadSwitched(h, s.accept)
	} else {
		err = s.res.ReadHTTP2(h, end, s.method)
	}
	if err != nil {
		return errBadResponse
	}
	s.received, s.status = true, s.res.Status
	return nil
}

// receiveReset takes the container's RST_STREAM. After a whole answer NO_ERROR
// says that the rest of the request is not wanted (RFC 9113 section 8.1).
func (s *upStream) receiveReset(code h2.Code) {
	if s.over {
		s.stopped = true
		s.x.Wake()
		return
	}
	s.unprocessed = code == h2.RefusedStream
	s.fail(gate.UpstreamReset)
}

// fail ends the stream: no more of an answer will come.
func (s *upStream) fail(o gate.Outcome) {
	if s.failed || s.given {
		return
	}
	if s.over { // all has come that was to come
		s.stopped = true
	} else {
		s.failed, s.failure, s.flow.reset = true, o, true
	}
	s.x.Wake()
}

// sendReset ends the stream towards the container, unless it has ended.
func (s *upStream) sendReset(code h2.Code) {
	if s.state.Closed() || s.l.broken {
		return
	}
	s.sent(h2.OnReset)
	s.l.hold(h2.AppendRSTStream(s.l.room(), s.id, code))
}

// Receive is gate.UpstreamSide.
func (s *upStream) Receive() (gate.HeadState, gate.Outcome) {
	if !s.received && len(s.heads) > 0 {
		h := &s.heads[0]
		last := len(s.heads) == 1
		if s.take(h, last && s.ends) != nil {
			s.sendReset(h2.ProtocolError)
			return gate.HeadFailed, gate.UpstreamMalformed
		}
		s.heads = s.heads[1:]
	}
	switch {
	case s.received:
		s.received = false
		return s.headState(), gate.Served
	case s.failed:
		return gate.HeadFailed, s.failure
	}
	return gate.HeadAwaited, gate.Served
}

func (s *upStream) headState() gate.HeadState {
	switch {
	case s.tunnel && (s.status == 101 || s.status >= 200 && s.status < 300):
		s.switched = true
		return gate.HeadSwitched
	case s.status < 200:
		return gate.HeadInterim
	}
	return gate.HeadFinal
}

// Response is wire.Responder.
func (s *upStream) Response() *wire.Response { return s.res }

// Status is gate.UpstreamSide.
func (s *upStream) Status() int { return s.status }

// Pump is gate.Source. The head has gone on before the body: an answer that
// waits for its client does not hold it.
func (s *upStream) Pump(dst gate.Sink) (moved bool) {
	s.dropResponse()
	return s.flow.Pump(dst)
}

func (s *upStream) dropResponse() {
	if s.res != nil {
		s.conn.pool.putResponse(s.res)
		s.res = nil
	}
}

// Sent is gate.UpstreamSide.
func (s *upStream) Sent() bool { return s.started && s.l.left(s.headAt) }

// Heard is gate.UpstreamSide.
func (s *upStream) Heard() bool { return s.heard }

// Reused is gate.UpstreamSide.
func (s *upStream) Reused() bool { return s.reused }

// Unprocessed is gate.UpstreamSide.
func (s *upStream) Unprocessed() bool { return s.unprocessed }

// Unwilling is gate.UpstreamSide.
func (s *upStream) Unwilling() bool { return s.stopped }

// Broken is gate.Sink.
func (s *upStream) Broken() bool { return s.stopped || s.flow.Broken() }

// Failed is gate.Source.
func (s *upStream) Failed() bool { return s.failed && !s.given }

// Complete is gate.UpstreamSide.
func (s *upStream) Complete(open bool) {
	if open || !s.finished {
		s.sendReset(h2.Cancel)
	}
	s.end()
}

// HangUp is gate.UpstreamSide. HTTP/2 has no way to say that the client has
// left but the reset that would also end the answer.
func (s *upStream) HangUp() {}

// Abort is gate.UpstreamSide.
func (s *upStream) Abort() {
	s.sendReset(h2.Cancel)
	s.end()
}

// end takes the stream out of its connection.
func (s *upStream) end() {
	c := s.conn
	if !s.state.Closed() {
		s.state = h2.ResetByUs
	}
	c.remember(s.id, s.state)
	s.flow.close()
	c.pool.release(s)
	if c.live {
		c.streamEnded()
	}
}
