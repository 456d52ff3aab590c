package http2

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// clientSide is the gate.ClientSide of a request over HTTP/2.
type clientSide struct {
	flow
	conn *conn // nil: spare
	req  wire.Request
}

func (s *clientSide) eng() *Engine { return s.l.eng }

// Request implements exchange.Downstream.
func (s *clientSide) Request() (*wire.Request, netip.Addr) { return &s.req, s.conn.peer.Addr() }

// Disconnected is gate.ClientSide.
func (s *clientSide) Disconnected() bool {
	return s.flow.reset || !s.conn.live || s.eng().loop.Closing()
}

// CheckDisconnected is gate.ClientSide.
func (s *clientSide) CheckDisconnected() bool { return s.Disconnected() }

// Closing is gate.ClientSide.
func (s *clientSide) Closing() bool { return s.eng().loop.Closing() }

// ExpectsContinue is gate.ClientSide.
func (s *clientSide) ExpectsContinue() bool {
	return s.req.Expect && s.taken == 0 && s.held() == 0 && !s.over
}

// Upgrades is gate.ClientSide: extended CONNECT asks for one protocol, to which
// a container switches with 101, or over HTTP/2 with 200.
func (s *clientSide) Upgrades(res *wire.Response) bool {
	return s.req.Protocol() != nil && (res.Status != 101 || s.req.Offers(res))
}

// Whole is gate.ClientSide.
func (s *clientSide) Whole() bool { return s.over || s.withheld }

// Idempotent is gate.ClientSide.
func (s *clientSide) Idempotent() bool { return s.req.Protocol() == nil && s.req.Idempotent() }

// Rewind is gate.ClientSide.
func (s *clientSide) Rewind(whole bool) bool {
	return (!whole || s.Whole()) && s.rewind()
}

// Continue is gate.ClientSide.
func (s *clientSide) Continue() {
	b := s.l.room()
	start := len(b)
	b = s.l.hpack().enc.AppendStatus(h2.BeginHeaders(b), 100)
	s.l.hold(h2.EndHeaders(b, start, s.id, false, int(s.l.settings.MaxFrame)))
}

// Interim is gate.ClientSide.
func (s *clientSide) Interim(res *wire.Response) { s.sendHead(res, false) }

// Answer is gate.ClientSide.
func (s *clientSide) Respond(res *wire.Response) {
	s.start()
	s.forget()
	s.announceClose()
	s.sendHead(res, res.Body == wire.NoBody || res.Body == wire.BodyLength && res.Length == 0)
}

// Switch is gate.ClientSide.
func (s *clientSide) Switch(res *wire.Response) {
	s.start()
	s.forget()
	s.sendHead(res, false)
	s.withheld, s.given = false, false
}

// start notes that the head of the answer is written.
func (s *clientSide) start() {
	s.started = true
	if s.paced {
		s.paced = false
		s.eng().turns.answered()
	}
}

// sendHead writes the head that up has received.
func (s *clientSide) sendHead(res *wire.Response, end bool) {
	b := s.l.room()
	start := len(b)
	b = res.AppendHTTP2(h2.BeginHeaders(b), &s.l.hpack().enc, s.eng().worker.Date())
	s.l.hold(h2.EndHeaders(b, start, s.id, end, int(s.l.settings.MaxFrame)))
	if wire.BodyChecked && s.started && s.x.State() != exchange.StateTunnelling {
		s.check.BeginHTTP2(func(dst []byte, e *h2.Encoder) []byte {
			return res.AppendHTTP2(dst, e, s.eng().worker.Date())
		}, res.Body == wire.NoBody, end)
	}
	if end {
		s.finished = true
		s.sent(h2.OnHeadersEnd)
	}
}

// Drop is gate.ClientSide.
func (s *clientSide) Drop() { s.sendReset(h2.Cancel) }

// announceClose tells the client of a draining gate that the connection takes
// no further streams.
func (s *clientSide) announceClose() {
	if s.eng().gate.Drain.Active() {
		s.conn.goAway()
	}
}

// sendReset ends the stream towards the client, unless it has ended.
func (s *clientSide) sendReset(code h2.Code) {
	if s.flow.reset || s.state.Closed() {
		return
	}
	s.sent(h2.OnReset)
	s.flow.reset = true
	if !s.over {
		s.l.meter.Expect(&s.recv, &s.l.recv)
	}
	if !s.l.broken {
		s.l.hold(h2.AppendRSTStream(s.l.room(), s.id, code))
	}
}
