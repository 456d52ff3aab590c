package http2

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// phase is what a stream does.
//
//	arrived → probing, exchanging, replying
//	probing, exchanging → replying   the gate answers by itself
type phase uint8

const (
	arrived phase = iota
	probing
	exchanging
	replying
)

// stream is one request over a client's connection. It runs in steps.
type stream struct {
	clientSide
	handle  loop.Handle
	until   int64 // while replying: when that ends
	x       exchange.Exchange
	probe   *exchange.ProbeCall
	next    *stream      // that waits for its turn behind it, or the first of those; nil = it does not wait
	body    []byte       // of a reply of the gate's own, not written yet
	heads   int32        // octets of the gate's budget of heads
	refused gate.Outcome // outcome of a rejected head; Undecided if accepted
	phase   phase
	head    bool // of a head that is not there any more: the method is HEAD
	grpc    bool // and: the request is a call of gRPC
}

// openStream begins a stream with the head that has been decoded.
func (c *conn) openStream(h *h2.Head, f *h2.Frame, event h2.Event) *h2.Error {
	e := c.eng
	state, _ := h2.Idle.Receive(event)
	if c.crowded() {
		return c.refuseStream(f.Stream, h2.RefusedStream, h2.FaultProtocol)
	}
	err := f.Err
	if err == nil && !h.TooLarge {
		err = h.CheckRequest()
	}
	if err != nil {
		e.gate.Reject(gate.BadRequest)
		return c.refuseStream(f.Stream, err.Code, err.Fault)
	}
	s := e.streams.Get()
	if s == nil {
		s = &stream{}
		s.handle.Bind(e.loop, s)
		s.x.Bind(e.gate, e.clock, s.handle.Wake, &s.handle)
	}
	s.flow.open(&c.link, &s.x, f.Stream, state)
	s.conn, s.phase, s.until, s.refused, s.head, s.grpc, s.body = c, arrived, 0, gate.Undecided, false, false, nil
	s.over, s.x.Crowd = f.EndStream, false
	c.streams = append(c.streams, s)
	s.handle.Begin()
	c.line.begin(s)
	if h.TooLarge {
		o := gate.HeadTooLarge
		if h.TargetTooLong {
			o = gate.TargetTooLong
		}
		s.refuse(h, o)
		_ = s.msg.Head(-1, false, false)
		return nil
	}
	if err := s.msg.Head(h.Length, false, f.EndStream); err != nil {
		e.gate.Reject(gate.BadRequest)
		s.refused = gate.BadRequest
		return c.reset(s, err)
	}
	if err := s.req.ReadHTTP2(h, f.EndStream); err != nil {
		s.refused = wire.OutcomeOf(err)
	}
	s.withheld = s.req.Protocol() != nil
	s.keeps = !s.withheld
	if !s.chargeHead(s.req.Held() - freeHead) {
		s.refuse(h, gate.OutOfMemoryBudget)
	}
	return nil
}

// refuse makes s one whose head is not kept, and which gets a reply of the
// gate's own.
func (s *stream) refuse(h *h2.Head, o gate.Outcome) {
	s.refused = o
	s.head = string(h.First(h2.NameMethod)) == "HEAD"
	s.grpc = wire.IsGRPC(h.First(h2.NameContentType))
	s.req.Reset()
}

// chargeHead takes n octets for a head from the gate's budget. It is false if
// there are none left: for a connection that holds many of them already there
// is only half of what there is.
func (s *stream) chargeHead(n int) bool {
	if n <= 0 {
		return true
	}
	b, c := s.eng().gate.Heads, s.conn
	if int(c.heads)+n > mostHeads && b.Used() > b.Limit()/2 || !b.Acquire(int64(n)) {
		return false
	}
	s.heads += int32(n)
	c.heads += int32(n)
	return true
}

var errNoMemory = &h2.Error{Code: h2.EnhanceYourCalm, Scope: h2.Stream, Fault: h2.FaultHeaderBlock, Reason: "no memory left for heads"}

// receiveTrailers takes the field block behind a request's body.
func (s *stream) receiveTrailers(h *h2.Head, f *h2.Frame) *h2.Error {
	if f.Err != nil {
		return f.Err
	}
	if s.req.ExtendedConnect() {
		return errTunnelTrailers
	}
	if err := s.msg.Trailers(f.EndStream); err != nil {
		return err
	}
	if err := h.CheckTrailers(); err != nil {
		return err
	}
	s.trailers = wire.TrailerLines(h)
	if !s.chargeHead(len(s.trailers) - freeHead) {
		s.trailers = nil
		return errNoMemory
	}
	s.over = true
	s.x.Wake()
	return nil
}

// Step is loop.Routine.
func (s *stream) Step() {
	if s.conn == nil || s.next != nil {
		return
	}
	defer s.contain()
	for s.conn != nil && s.step() {
	}
}

// step runs one phase. It reports whether the next one follows at once.
func (s *stream) step() bool {
	switch s.phase {
	case arrived:
		return s.screen()
	case probing:
		return s.awaitProbe()
	case exchanging:
		return s.relay()
	default:
		return s.sendReply()
	}
}

// contain ends the stream after a panic.
func (s *stream) contain() {
	v := recover()
	if v == nil {
		return
	}
	stack := debug.Stack()
	s.x.Abandon()
	s.sendReset(h2.InternalError)
	s.end()
	s.conn = nil
	s.eng().worker.Departed()
	s.eng().worker.Panicked(fmt.Errorf("%v\n%s", v, stack))
}

// screen begins what the request asks for.
func (s *stream) screen() bool {
	e, c := s.eng(), s.conn
	if s.flow.reset || s.state.Closed() {
		return s.finish()
	}
	if s.refused != gate.Undecided {
		e.gate.Reject(s.refused)
		return s.reply(gate.ReplyTo(s.refused))
	}
	s.describe()
	screening := e.gate.Screen(&exchange.Arrival{
		Peer: c.peer.Addr(), Probe: s.req.Probe(), Asterisk: s.req.Asterisk, Encrypted: c.sock.Layered(),
	})
	switch {
	case screening.Self:
		return s.reply(gate.Reply{Outcome: gate.Probed, Status: 200})
	case screening.Kind != gate.Traffic:
		s.phase, s.probe = probing, e.gate.BeginProbe(screening, s.handle.Wake)
		return true
	case screening.Refused:
		e.gate.Reject(screening.Outcome)
		return s.reply(gate.ReplyTo(screening.Outcome))
	case !screening.Trusted:
		s.req.Distrust()
		s.describe()
	}
	s.x.Begin(e.loop.Now(), &s.clientSide, &e.worker.Router)
	if lines := s.x.TraceLines; lines != nil {
		s.req.ReplaceTrace(lines)
	}
	s.phase = exchanging
	return true
}

func (s *stream) describe() {
	s.req.Describe(s.x.Describe(), s.eng().worker.Host)
	s.x.Peer, s.x.Encrypted = s.conn.peer, s.conn.sock.Layered()
}

// relay takes the exchange on.
func (s *stream) relay() bool {
	tunnelled := s.x.State() == exchange.StateTunnelling
	ending, outcome, next := s.x.Step(s.eng().loop.Now())
	if ending == exchange.Going {
		if !tunnelled && s.x.State() == exchange.StateTunnelling {
			s.eng().worker.Departed()
		}
		s.handle.Until(next)
		return false
	}
	s.eng().worker.Departed()
	if outcome.Meaning().BlockedWindow && s.blocked() {
		s.conn.fault(h2.FaultIdle)
	}
	switch ending {
	case exchange.Completed:
	case exchange.Rejected:
		return s.reply(s.eng().gate.Refusal(outcome, s.eng().loop.Now()))
	case exchange.CutOff:
		s.cutOff(outcome)
	default:
		s.sendReset(h2.Cancel)
	}
	return s.finish()
}

// finish ends the stream. The client is told that the rest of a request is not
// wanted (RFC 9113 section 8.1).
func (s *stream) finish() bool {
	if s.finished && !s.over {
		s.sendReset(h2.NoError)
	}
	s.end()
	return false
}

// end takes the stream out of its connection.
func (s *stream) end() {
	c := s.conn
	s.conn = nil
	if i := slices.Index(c.streams, s); i >= 0 {
		c.streams = slices.Delete(c.streams, i, i+1)
	}
	if !s.state.Closed() {
		s.state = h2.ResetByPeer
	}
	c.remember(s.id, s.state)
	s.flow.close()
	s.req.Reset()
	if s.heads > 0 {
		s.x.Describe() // a spare stream does not keep what the budget has back
		c.eng.gate.Heads.Release(int64(s.heads))
		c.heads, s.heads = c.heads-s.heads, 0
	}
	s.probe, s.body = nil, nil
	s.handle.Done()
	c.eng.streams.Put(s)
	if c.live {
		c.streamEnded()
	}
}
