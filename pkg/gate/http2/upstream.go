package http2

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// upStream is one exchange over a connection to the container, and its
// gate.UpstreamSide.
type upStream struct {
	stream
	conn             *upConn
	req              *wire.Request
	headAt           int64          // offset of the head in the bytes written to the connection
	accept           []byte         // Sec-WebSocket-Accept of the 101, if an HTTP/1 upgrade became extended CONNECT
	pendingTrailers  []byte         // request trailers waiting to be sent; nil = none
	trailersDeadline int64          // deadline after which late is discarded; 0 = not set
	res              *wire.Response // the last head, until it has been forwarded; nil = none
	heads            []h2.Head      // that have come behind the one in res, which has not been taken
	status           int16          // status code of the last head
	cancelPing       uint16         // number of the PING sent after the reset in HangUp; 0 = none
	reused           bool           // the connection had carried a request before
	isTunnel         bool           // extended CONNECT
	tunnelSwitched   bool           // the extended CONNECT has been accepted
	tunnelOpened     bool           // the head that accepts the extended CONNECT has arrived
	stoppedReading   bool           // the response is complete and the container does not read the rest of the request
	responseBegan    bool           // a head has arrived
	headReady        bool           // res has not been returned by Receive yet
	unprocessed      bool           // the container did not process the request
	mismatch         bool           // unprocessed, because the container speaks another protocol
	failed           bool           // the response will not arrive, or not completely
	lastHeadEnds     bool           // the last element of heads had END_STREAM
	failure          gate.Outcome
}

// Send is gate.UpstreamSide.
func (s *upStream) Send(req *wire.Request, peer netip.Addr, _ exchange.Sink) (soon bool) {
	u := s.conn
	s.accept = prepare(u, req)
	s.req, s.isTunnel = req, req.Protocol() != nil
	end := !s.isTunnel && !req.HasBody()
	s.headAt = u.position()
	b := u.room()
	start := len(b)
	b = req.AppendHTTP2(h2.BeginHeaders(b), &u.hpack().enc, peer, u.eng.worker.Host, u.eng.cfg.Scheme)
	u.queue(h2.EndHeaders(b, start, s.id, end, int(u.settings.MaxFrame)))
	s.started, s.finished = true, end
	if wire.BodyChecked {
		s.check.BeginHTTP2(func(dst []byte, e *h2.Encoder) []byte {
			return req.AppendHTTP2(dst, e, peer, u.eng.worker.Host, u.eng.cfg.Scheme)
		}, false, end)
	}
	if end {
		s.advance(h2.OnHeadersEnd)
	} else {
		s.advance(h2.OnHeaders)
	}
	return s.c.sock.Writable()
}

var methodConnect = []byte("CONNECT")

// method returns the method as sent to the container.
func (s *upStream) method() []byte {
	if s.isTunnel {
		return methodConnect
	}
	return s.req.Method
}

// receiveHead takes a field block: a head, or trailers.
func (s *upStream) receiveHead(h *h2.Head, end bool) *h2.Error {
	if !s.msg.ExpectsHead() {
		if s.tunnelOpened {
			return errTunnelTrailers
		}
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
	s.responseBegan = true
	if h.Status == 101 { // RFC 9113 section 8.6
		return errBadResponse
	}
	if h.Status < 200 {
		if err := s.msg.Interim(end); err != nil {
			return err
		}
	} else {
		bodiless := string(s.method()) == "HEAD" || h.Status == 204 || h.Status == 304
		length := h.Length
		if s.tunnelOpened = s.isTunnel && h.Status < 300; s.tunnelOpened {
			length, bodiless = -1, false // RFC 9110 section 9.3.6
		}
		if err := s.msg.Head(length, bodiless, end); err != nil {
			return err
		}
		s.over = end
	}
	if s.headReady || len(s.heads) > 0 {
		if h.Status < 200 && tooManyHeads(s, h) {
			return errTooManyHeads
		}
		s.heads = append(s.heads, h2.Head{})
		s.heads[len(s.heads)-1].CopyFrom(h)
		s.lastHeadEnds = end
	} else if err := s.parseHead(h, end); err != nil {
		return err
	}
	s.x.Wake()
	return nil
}

var (
	errHeadTooLarge   = &h2.Error{Code: h2.EnhanceYourCalm, Scope: h2.Stream, Fault: h2.FaultMalformed, Reason: "head of an answer beyond the limit"}
	errTooManyHeads   = &h2.Error{Code: h2.EnhanceYourCalm, Scope: h2.Stream, Fault: h2.FaultHeaderBlock, Reason: "more interim answers than the client takes"}
	errTunnelTrailers = &h2.Error{Code: h2.ProtocolError, Scope: h2.Stream, Fault: h2.FaultMalformed, Reason: "trailers in a tunnel"} // RFC 9113 section 8.5
	errBadResponse    = &h2.Error{Code: h2.ProtocolError, Scope: h2.Stream, Fault: h2.FaultMalformed, Reason: "head of an answer against RFC 9110"}
)

// Interim heads that wait for the client to take those before them.
const (
	maxQueuedHeads     = 64
	maxQueuedHeadBytes = 64 << 10 // octets
)

// crowded reports that there is no room for another interim head.
func tooManyHeads(s *upStream, h *h2.Head) bool {
	n := h.Size
	for i := range s.heads {
		n += s.heads[i].Cap()
	}
	return len(s.heads) >= maxQueuedHeads || n > maxQueuedHeadBytes
}

// take reads a head into res.
func (s *upStream) parseHead(h *h2.Head, end bool) *h2.Error {
	if s.res == nil {
		s.res = s.conn.pool.getResponse()
	}
	var err error
	if s.accept != nil && h.Status >= 200 && h.Status < 300 {
		err = s.res.ReadSwitched(h, s.accept)
	} else {
		err = s.res.ReadHTTP2(h, end, s.method())
	}
	if err != nil {
		return errBadResponse
	}
	s.headReady, s.status = true, int16(s.res.Status)
	return nil
}

// receiveReset takes the container's RST_STREAM. After a whole answer NO_ERROR
// says that the rest of the request is not wanted (RFC 9113 section 8.1).
func (s *upStream) receiveReset(code h2.Code) {
	if s.over {
		s.stoppedReading = true
		s.x.Wake()
		return
	}
	if s.conn.countReset(1); code == h2.EnhanceYourCalm {
		s.conn.countReset(calmWeight - 1)
	}
	s.unprocessed = code == h2.RefusedStream
	s.x.GRPC = grpcOfReset(code)
	s.fail(gate.UpstreamReset)
}

// fail ends the stream: no more of an answer will come.
func (s *upStream) fail(o gate.Outcome) {
	if s.failed || s.given {
		return
	}
	if s.over { // all has come that was to come
		s.stoppedReading = true
	} else {
		s.failed, s.failure, s.stream.reset = true, o, true
	}
	s.x.Wake()
}

// sendReset ends the stream towards the container, unless it has ended.
func (s *upStream) sendReset(code h2.Code) {
	if s.state.Closed() || s.c.broken {
		return
	}
	s.advance(h2.OnReset)
	s.c.queue(h2.AppendRSTStream(s.c.room(), s.id, code))
	s.conn.countReset(1)
}

// Receive is gate.UpstreamSide.
func (s *upStream) Receive() (exchange.HeadState, gate.Outcome) {
	if !s.headReady && len(s.heads) > 0 {
		h := &s.heads[0]
		last := len(s.heads) == 1
		if s.parseHead(h, last && s.lastHeadEnds) != nil {
			s.sendReset(h2.ProtocolError)
			return exchange.HeadFailed, gate.UpstreamMalformed
		}
		s.heads = s.heads[1:]
	}
	switch {
	case s.headReady:
		s.headReady = false
		return headState(s), gate.Undecided
	case s.failed:
		return exchange.HeadFailed, s.failure
	}
	return exchange.HeadAwaited, gate.Undecided
}

func headState(s *upStream) exchange.HeadState {
	switch {
	case s.isTunnel && (s.status == 101 || s.status >= 200 && s.status < 300):
		s.tunnelSwitched = true
		return exchange.HeadSwitched
	case s.status < 200:
		return exchange.HeadInterim
	}
	return exchange.HeadFinal
}

// Response implements exchange.Upstream.
func (s *upStream) Response() *wire.Response { return s.res }

// Status is gate.UpstreamSide.
func (s *upStream) Status() int { return int(s.status) }

// Pump is gate.Source. The head has gone on before the body: an answer that
// waits for its client does not hold it.
func (s *upStream) Pump(dst exchange.Sink) (moved bool) {
	s.dropResponse()
	return s.stream.Pump(dst)
}

func (s *upStream) dropResponse() {
	if s.res != nil {
		s.conn.pool.putResponse(s.res)
		s.res = nil
	}
}

// Sent is gate.UpstreamSide.
func (s *upStream) Sent() bool { return s.started && s.c.mayBeSent(s.headAt) }

// ResponseBegan is gate.UpstreamSide.
func (s *upStream) ResponseBegan() bool { return s.responseBegan }

// Reused is gate.UpstreamSide.
func (s *upStream) Reused() bool { return s.reused }

// Unprocessed is gate.UpstreamSide.
func (s *upStream) Unprocessed() bool { return s.unprocessed }

// Mistaken implements exchange.Upstream.
func (s *upStream) Mistaken() bool { return s.mismatch }

// StoppedReading is gate.UpstreamSide.
func (s *upStream) StoppedReading() bool { return s.stoppedReading }

// Broken is gate.Sink.
func (s *upStream) Broken() bool { return s.stoppedReading || s.stream.Broken() }

// Failed is gate.Source.
func (s *upStream) Failed() bool { return s.failed && !s.given }

// Complete is gate.UpstreamSide.
func (s *upStream) Complete(open bool) {
	if open || !s.finished {
		s.sendReset(h2.Cancel)
	}
	s.end()
}

// ReadAhead implements exchange.Upstream. The container's sending is bounded by the
// stream window, which is doubled each time it is half full, up to streamWindow. So
// a container can send at most twice the bytes already buffered. An exhausted window
// is announced at once: the client takes nothing, so no later read would announce it.
func (s *upStream) ReadAhead() (moved, whole bool) {
	if s.over {
		return false, !s.failed
	}
	if s.c.eng.short() {
		return false, false
	}
	if size, held := s.recv.Size(), uint32(s.buffered()); size < streamWindow && held >= size/2 {
		resize(&s.stream, min(2*max(size, held, minWindow), streamWindow))
	}
	if s.recv.Left() == 0 {
		s.announce(s.recv.Flush())
	}
	return false, false
}

// HangUp implements exchange.Upstream. A container that has the whole request may
// finish its response, because a reset would hide when it does. A container that
// waits for the rest of the upload gets a reset and a PING, whose acknowledgement
// proves that it has read the reset (RFC 9113 section 6.7).
func (s *upStream) HangUp() {
	if s.finished {
		return
	}
	s.sendReset(h2.Cancel)
	u := s.conn
	if u.cancelPings++; u.cancelPings == 0 {
		u.cancelPings = 1
	}
	s.cancelPing = u.cancelPings
	u.queue(h2.AppendPing(u.room(), false, cancelPing(s.cancelPing)))
}

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
	s.stream.close()
	c.pool.release(s)
	if c.live {
		c.streamEnded()
	}
}
