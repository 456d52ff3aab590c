package http2

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// upStream is the stream of one request on a connection to the container. It implements
// exchange.Upstream for the exchange of that request.
type upStream struct {
	stream
	conn             *upConn
	req              *wire.Request
	headAt           int64          // position of the request head in the output of the connection
	accept           []byte         // Sec-WebSocket-Accept for the 101, if an HTTP/1 upgrade was converted to an extended CONNECT
	pendingTrailers  []byte         // request trailers waiting to be sent; nil = none
	trailersDeadline int64          // time at which pendingTrailers are discarded; 0 = not set
	res              *wire.Response // the last parsed response head until it is forwarded; nil = none
	heads            []h2.Head      // heads received after res, which are not parsed yet
	status           int16          // status of the last parsed head
	cancelPing       uint16         // number of the PING that followed the reset in HangUp; 0 = none
	tunnel           tunnelState
	processing       processing
	failure          gate.Outcome // reason why no complete response will arrive; Undecided = the response may still arrive
	reused           bool         // the connection had carried another request before
	headReady        bool         // res has a head that Receive has not reported yet
	responseBegan    bool         // a response head has arrived
	lastHeadEnds     bool         // the last head in heads had END_STREAM
	stoppedReading   bool         // the response is complete, and the container does not read the rest of the request
	upload           uploadState
}

// tunnelState is the state of extended CONNECT (RFC 8441).
//
//	tunnelRequested → tunnelOpened     the head that accepts it has arrived
//	tunnelOpened    → tunnelSwitched   Receive has returned that head
type tunnelState uint8

const (
	noTunnel tunnelState = iota
	tunnelRequested
	tunnelOpened
	tunnelSwitched
)

// processing tells whether the container may have processed the request.
type processing uint8

const (
	maybeProcessed   processing = iota
	unprocessed                 // certainly not processed (RFC 9113 section 8.7)
	protocolMismatch            // certainly not processed, because the container speaks another protocol
)

// Send implements exchange.Upstream.
func (s *upStream) Send(req *wire.Request, peer netip.Addr, _ exchange.Sink) (writesSoon bool) {
	u := s.conn
	s.accept = prepare(u, req)
	s.req = req
	if req.Protocol() != nil {
		s.tunnel = tunnelRequested
	}
	end := s.tunnel == noTunnel && !req.HasBody()
	s.headAt = u.position()
	b := u.outBuffer()
	start := len(b)
	b = req.AppendHTTP2(h2.BeginHeaders(b), &u.hpack().enc, peer, u.eng.worker.Host, u.eng.cfg.Scheme)
	u.queue(h2.EndHeaders(b, start, s.id, end, int(u.settings.MaxFrame)))
	if wire.BodyChecked {
		s.check.BeginHTTP2(func(dst []byte, e *h2.Encoder) []byte {
			return req.AppendHTTP2(dst, e, peer, u.eng.worker.Host, u.eng.cfg.Scheme)
		}, false, end)
	}
	s.headWritten(end)
	return u.sock.Writable()
}

var methodConnect = []byte("CONNECT")

// method returns the method in the form sent to the container.
func (s *upStream) method() []byte {
	if s.tunnel != noTunnel {
		return methodConnect
	}
	return s.req.Method
}

// receiveHead applies a field block, which is a response head or trailers.
func (s *upStream) receiveHead(h *h2.Head, end bool) *h2.Error {
	if !s.msg.ExpectsHead() {
		if s.tunnel >= tunnelOpened {
			return errTunnelTrailers
		}
		if err := s.msg.Trailers(end); err != nil {
			return err
		}
		if err := h.CheckTrailers(); err != nil {
			return err
		}
		s.trailers = wire.TrailerLines(h)
		s.noteEndReceived()
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
		if s.tunnel == tunnelRequested && h.Status < 300 {
			s.tunnel = tunnelOpened
			length, bodiless = -1, false // RFC 9110 section 9.3.6
		}
		if err := s.msg.Head(length, bodiless, end); err != nil {
			return err
		}
		if end {
			s.noteEndReceived()
		}
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
	errHeadTooLarge   = &h2.Error{Code: h2.EnhanceYourCalm, Scope: h2.Stream, Fault: h2.FaultMalformed, Reason: "response head beyond the limit"}
	errTooManyHeads   = &h2.Error{Code: h2.EnhanceYourCalm, Scope: h2.Stream, Fault: h2.FaultHeaderBlock, Reason: "too many queued interim responses"}
	errTunnelTrailers = &h2.Error{Code: h2.ProtocolError, Scope: h2.Stream, Fault: h2.FaultMalformed, Reason: "trailers in a tunnel"} // RFC 9113 section 8.5
	errBadResponse    = &h2.Error{Code: h2.ProtocolError, Scope: h2.Stream, Fault: h2.FaultMalformed, Reason: "response head violates RFC 9110"}
)

// tooManyHeads reports whether the queued interim heads would exceed the limit of their
// number or of their total size if h were added to them.
func tooManyHeads(s *upStream, h *h2.Head) bool {
	n := h.Size
	for i := range s.heads {
		n += s.heads[i].Cap()
	}
	return len(s.heads) >= maxQueuedHeads || n > maxQueuedHeadBytes
}

// parseHead parses a head into s.res.
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

// receiveReset applies a RST_STREAM. After a complete response, the code NO_ERROR means
// that the rest of the request is not needed (RFC 9113 section 8.1).
func (s *upStream) receiveReset(code h2.Code) {
	if s.endReceived() {
		s.stoppedReading = true
		s.x.Wake()
		return
	}
	if s.conn.countReset(1); code == h2.EnhanceYourCalm {
		s.conn.countReset(calmWeight - 1)
	}
	if code == h2.RefusedStream {
		s.processing = unprocessed
	}
	s.x.GRPC = grpcOfReset(code)
	s.fail(gate.UpstreamReset)
}

// fail ends the stream before the response is complete.
func (s *upStream) fail(o gate.Outcome) {
	if s.failure != gate.Undecided || s.recvState == recvForwarded {
		return
	}
	if s.endReceived() {
		s.stoppedReading = true
	} else {
		s.failure, s.reset = o, true
	}
	s.x.Wake()
}

// sendReset resets the stream, unless it is closed.
func (s *upStream) sendReset(code h2.Code) {
	if s.state.Closed() || s.c.broken {
		return
	}
	s.advance(h2.OnReset)
	s.c.queue(h2.AppendRSTStream(s.c.outBuffer(), s.id, code))
	s.conn.countReset(1)
}

// Receive implements exchange.Upstream.
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
	case s.failure != gate.Undecided:
		return exchange.HeadFailed, s.failure
	}
	return exchange.HeadAwaited, gate.Undecided
}

func headState(s *upStream) exchange.HeadState {
	switch {
	case s.tunnel == tunnelOpened && (s.status == 101 || s.status >= 200):
		// This head accepts the tunnel. For an HTTP/1 client, parseHead has turned the 2xx
		// into a 101. Heads with another status below 200 are interim heads before it.
		s.tunnel = tunnelSwitched
		return exchange.HeadSwitched
	case s.status < 200:
		return exchange.HeadInterim
	}
	return exchange.HeadFinal
}

// Response implements exchange.Upstream.
func (s *upStream) Response() *wire.Response { return s.res }

// Status implements exchange.Upstream.
func (s *upStream) Status() int { return int(s.status) }

// Pump implements exchange.Source. It also releases the memory of the response head,
// because the head has been forwarded before the body.
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

// Sent implements exchange.Upstream.
func (s *upStream) Sent() bool { return s.sendState != sendIdle && s.c.mayBeSent(s.headAt) }

// ResponseBegan implements exchange.Upstream.
func (s *upStream) ResponseBegan() bool { return s.responseBegan }

// Reused implements exchange.Upstream.
func (s *upStream) Reused() bool { return s.reused }

// Unprocessed implements exchange.Upstream.
func (s *upStream) Unprocessed() bool { return s.processing != maybeProcessed }

// ProtocolMismatch implements exchange.Upstream.
func (s *upStream) ProtocolMismatch() bool { return s.processing == protocolMismatch }

// StoppedReading implements exchange.Upstream.
func (s *upStream) StoppedReading() bool { return s.stoppedReading }

// Broken implements exchange.Sink.
func (s *upStream) Broken() bool { return s.stoppedReading || s.stream.Broken() }

// Failed implements exchange.Source.
func (s *upStream) Failed() bool { return s.failure != gate.Undecided && s.recvState != recvForwarded }

// Complete implements exchange.Upstream.
func (s *upStream) Complete(open bool) {
	if open || s.sendState != sendEnded {
		s.sendReset(h2.Cancel)
	}
	s.end()
}

// ReadAhead implements exchange.Upstream. It may enlarge the window of the stream, so
// that the container can send more. If the window is exhausted, ReadAhead also announces
// all credit that the stream has collected. Otherwise the gate would announce this credit
// only when the client has read half of a window, and the client currently reads nothing.
func (s *upStream) ReadAhead() (moved, complete bool) {
	if s.endReceived() {
		return false, s.failure == gate.Undecided
	}
	if s.c.eng.overBudget() {
		return false, false
	}
	size := s.recv.Size()
	if n := readAheadWindow(size, uint32(s.buffered())); n != size {
		s.resize(n)
	}
	if s.recv.Credit() == 0 {
		s.sendWindowUpdate(s.recv.Flush())
	}
	return false, false
}

// HangUp implements exchange.Upstream. If the upload is incomplete or cancel is true, it
// resets the stream and sends a PING. The acknowledgement of the PING proves that the
// container has read the reset (RFC 9113 section 6.7). Otherwise HangUp does nothing: the
// gate waits for the end of the response, because the container then stops working on the
// request. After a reset, the gate could not know when the container stops.
func (s *upStream) HangUp(cancel bool) {
	if s.sendState == sendEnded && !cancel {
		return
	}
	s.sendReset(h2.Cancel)
	u := s.conn
	if u.cancelPings++; u.cancelPings == 0 {
		u.cancelPings = 1
	}
	s.cancelPing = u.cancelPings
	u.queue(h2.AppendPing(u.outBuffer(), false, cancelPing(s.cancelPing)))
}

// Abort implements exchange.Upstream.
func (s *upStream) Abort() {
	s.sendReset(h2.Cancel)
	s.end()
}

func (s *upStream) end() {
	c := s.conn
	if !s.state.Closed() {
		s.state = h2.ResetByUs
	}
	c.table.remove(s)
	c.uploads.remove(s)
	s.close()
	c.pool.release(s)
	if c.live {
		c.streamEnded()
	}
}
