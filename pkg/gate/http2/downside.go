package http2

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

func (s *downStream) eng() *Engine { return s.c.eng }

// Request implements exchange.Downstream.
func (s *downStream) Request() (*wire.Request, netip.Addr) { return &s.req, s.conn.peer.Addr() }

// Disconnected is gate.ClientSide.
func (s *downStream) Disconnected() bool {
	return s.stream.reset || !s.conn.live || s.eng().loop.Closing()
}

// CheckDisconnected is gate.ClientSide.
func (s *downStream) CheckDisconnected() bool { return s.Disconnected() }

// Closing is gate.ClientSide.
func (s *downStream) Closing() bool { return s.eng().loop.Closing() }

// ExpectsContinue is gate.ClientSide.
func (s *downStream) ExpectsContinue() bool {
	return s.req.Expect && s.consumed == 0 && s.buffered() == 0 && !s.over
}

// Upgrades is gate.ClientSide: extended CONNECT asks for one protocol, to which
// a container switches with 101, or over HTTP/2 with 200.
func (s *downStream) Upgrades(res *wire.Response) bool {
	return s.req.Protocol() != nil && (res.Status != 101 || s.req.Offers(res))
}

// Whole is gate.ClientSide.
func (s *downStream) Whole() bool { return s.over || s.withheld }

// Idempotent is gate.ClientSide.
func (s *downStream) Idempotent() bool { return s.req.Protocol() == nil && s.req.Idempotent() }

// Rewind is gate.ClientSide.
func (s *downStream) Rewind(whole bool) bool {
	return (!whole || s.Whole()) && s.rewind()
}

// Continue is gate.ClientSide.
func (s *downStream) Continue() {
	b := s.c.room()
	start := len(b)
	b = s.c.hpack().enc.AppendStatus(h2.BeginHeaders(b), 100)
	s.c.queue(h2.EndHeaders(b, start, s.id, false, int(s.c.settings.MaxFrame)))
}

// Interim is gate.ClientSide.
func (s *downStream) Interim(res *wire.Response) { s.sendHead(res, false) }

// Answer is gate.ClientSide.
func (s *downStream) Respond(res *wire.Response) {
	s.responseStarted()
	s.dropReplay()
	s.announceDrain()
	s.sendHead(res, res.Body == wire.NoBody || res.Body == wire.BodyLength && res.Length == 0)
}

// Switch is gate.ClientSide.
func (s *downStream) Switch(res *wire.Response) {
	s.responseStarted()
	s.dropReplay()
	s.sendHead(res, false)
	s.withheld, s.given = false, false
}

// start notes that the head of the answer is written.
func (s *downStream) responseStarted() {
	s.started = true
	if s.begunPaced {
		s.begunPaced = false
		s.eng().pacer.responseStarted()
	}
}

// sendHead writes the head that up has received.
func (s *downStream) sendHead(res *wire.Response, end bool) {
	b := s.c.room()
	start := len(b)
	b = res.AppendHTTP2(h2.BeginHeaders(b), &s.c.hpack().enc, s.eng().worker.Date())
	s.c.queue(h2.EndHeaders(b, start, s.id, end, int(s.c.settings.MaxFrame)))
	if wire.BodyChecked && s.started && s.x.State() != exchange.StateTunnelling {
		s.check.BeginHTTP2(func(dst []byte, e *h2.Encoder) []byte {
			return res.AppendHTTP2(dst, e, s.eng().worker.Date())
		}, res.Body == wire.NoBody, end)
	}
	if end {
		s.finished = true
		s.advance(h2.OnHeadersEnd)
	}
}

// Drop is gate.ClientSide.
func (s *downStream) Drop() { s.sendReset(h2.Cancel) }

// announceClose tells the client of a draining gate that the connection takes
// no further streams.
func (s *downStream) announceDrain() {
	if s.eng().gate.Drain.Active() {
		s.conn.goAway()
	}
}

// sendReset ends the stream towards the client, unless it has ended.
func (s *downStream) sendReset(code h2.Code) {
	if s.stream.reset || s.state.Closed() {
		return
	}
	s.advance(h2.OnReset)
	s.stream.reset = true
	if !s.over {
		s.c.meter.Expect(&s.recv, &s.c.recv)
	}
	if !s.c.broken {
		s.c.queue(h2.AppendRSTStream(s.c.room(), s.id, code))
	}
}
