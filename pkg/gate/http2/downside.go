package http2

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// This file implements exchange.Downstream.

func (s *downStream) eng() *Engine { return s.c.eng }

// Request implements exchange.Downstream.
func (s *downStream) Request() (*wire.Request, netip.Addr) { return &s.req, s.conn.peer.Addr() }

// Disconnected implements exchange.Downstream.
func (s *downStream) Disconnected() bool {
	return s.reset || !s.conn.live || s.eng().loop.Closing()
}

// CheckDisconnected implements exchange.Downstream.
func (s *downStream) CheckDisconnected() bool { return s.Disconnected() }

// Closing implements exchange.Downstream.
func (s *downStream) Closing() bool { return s.eng().loop.Closing() }

// ExpectsContinue implements exchange.Downstream.
func (s *downStream) ExpectsContinue() bool {
	return s.req.Expect && s.consumed == 0 && s.buffered() == 0 && !s.endReceived()
}

// Upgrades implements exchange.Downstream. The container accepts an extended CONNECT with
// a 2xx over HTTP/2, or with a 101 over HTTP/1.1 that names the requested protocol.
func (s *downStream) Upgrades(res *wire.Response) bool {
	return s.req.Protocol() != nil && (res.Status != 101 || s.req.Offers(res))
}

// FullyRead implements exchange.Downstream.
func (s *downStream) FullyRead() bool { return s.endReceived() || s.withhold != withholdNothing }

// Received implements exchange.Downstream.
func (s *downStream) Received() bool { return s.endReceived() }

// Idempotent implements exchange.Downstream.
func (s *downStream) Idempotent() bool { return s.req.Protocol() == nil && s.req.Idempotent() }

// Rewind implements exchange.Downstream.
func (s *downStream) Rewind(complete bool) bool {
	return (!complete || s.FullyRead()) && s.rewind()
}

// Continue implements exchange.Downstream.
func (s *downStream) Continue() {
	b := s.c.outBuffer()
	start := len(b)
	b = s.c.hpack().enc.AppendStatus(h2.BeginHeaders(b), 100)
	s.c.queue(h2.EndHeaders(b, start, s.id, false, int(s.c.settings.MaxFrame)))
}

// Interim implements exchange.Downstream.
func (s *downStream) Interim(res *wire.Response) { s.queueHead(res, false, wire.Framing{}) }

// Respond implements exchange.Downstream.
func (s *downStream) Respond(res *wire.Response) {
	s.announceDrain()
	s.sendFinalHead(res, res.Body == wire.NoBody || res.Body == wire.BodyLength && res.Length == 0)
}

// Promise implements exchange.Downstream. Unlike Respond, it keeps the replay buffer,
// because the request may still be retried.
func (s *downStream) Promise(res *wire.Response) {
	s.announceDrain()
	s.queueHead(res, false, wire.Framing{Load: s.x.LoadReport(res)})
	s.beginCheck(res, false)
	s.responseBegan(false)
}

// Switch implements exchange.Downstream.
func (s *downStream) Switch(res *wire.Response) {
	s.sendFinalHead(res, false)
	s.withhold = withholdNothing
}

// sendFinalHead sends the head of the final response. If end is true, the head has
// END_STREAM.
func (s *downStream) sendFinalHead(res *wire.Response, end bool) {
	s.dropReplay()
	s.queueHead(res, end, wire.Framing{Timing: s.x.ServerTiming(), Load: s.x.LoadReport(res)})
	s.beginCheck(res, end)
	s.responseBegan(end)
}

// beginCheck starts to compare the length of the response body with the length that the
// head of res announces. It has an effect only if wire.BodyChecked is true. The flag end
// means that no body follows the head.
func (s *downStream) beginCheck(res *wire.Response, end bool) {
	if wire.BodyChecked && s.x.State() != exchange.StateTunnelling {
		s.check.BeginHTTP2(func(dst []byte, e *h2.Encoder) []byte {
			return res.AppendHTTP2(dst, e, wire.Framing{}, s.eng().worker.Date())
		}, res.Body == wire.NoBody, end)
	}
}

func (s *downStream) queueHead(res *wire.Response, end bool, f wire.Framing) {
	b := s.c.outBuffer()
	start := len(b)
	b = res.AppendHTTP2(h2.BeginHeaders(b), &s.c.hpack().enc, f, s.eng().worker.Date())
	s.c.queue(h2.EndHeaders(b, start, s.id, end, int(s.c.settings.MaxFrame)))
}

// Finish implements exchange.Sink.
func (s *downStream) Finish(trailers []byte) { s.stream.Finish(s.x.ResponseTrailers(trailers)) }

// responseBegan records that the head of a final response is queued.
func (s *downStream) responseBegan(end bool) {
	s.headWritten(end)
	if s.paced {
		s.paced = false
		s.eng().pacer.responseBegan()
	}
}

// Drop implements exchange.Downstream.
func (s *downStream) Drop() { s.sendReset(h2.Cancel) }

// announceDrain sends GOAWAY on the connection if the gate is draining.
func (s *downStream) announceDrain() {
	if s.eng().gate.Drain.Active() {
		s.conn.goAway()
	}
}

// sendReset resets the stream, unless it is closed.
func (s *downStream) sendReset(code h2.Code) {
	if s.reset || s.state.Closed() {
		return
	}
	s.advance(h2.OnReset)
	s.reset = true
	if !s.endReceived() {
		s.c.meter.Expect(&s.recv)
	}
	if !s.c.broken {
		s.c.queue(h2.AppendRSTStream(s.c.outBuffer(), s.id, code))
	}
}
