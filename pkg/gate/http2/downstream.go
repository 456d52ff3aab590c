package http2

import (
	"fmt"
	"runtime/debug"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// phase is the current activity of a downStream.
//
//	phaseArrived → phaseProbing, phaseExchanging, phaseReplying, phaseLoadRequest
//	phaseProbing, phaseExchanging → phaseReplying   a local reply
//	phaseLoadRequest → phaseLoadReports             the request is complete
type phase uint8

const (
	phaseArrived phase = iota
	phaseProbing
	phaseExchanging
	phaseReplying
	phaseLoadRequest
	phaseLoadReports
)

// downStream is one request of a client.
type downStream struct {
	stream
	conn      *downConn // nil = on the free list
	req       wire.Request
	handle    loop.Handle
	x         exchange.Exchange
	probe     *exchange.ProbeCall
	next      *downStream  // next stream in the ring of the startQueue; nil = not queued
	replyBody []byte       // unsent rest of a local reply
	deadline  int64        // deadline of phaseReplying or phaseLoadRequest
	headBytes int32        // number of bytes charged to the memory for heads
	rejection gate.Outcome // outcome for a rejected head; Undecided = the head was accepted
	phase     phase
	isHEAD    bool // the method of the rejected request was HEAD
	isGRPC    bool // the rejected request was a gRPC call
}

func (c *downConn) openStream(h *h2.Head, f *h2.Frame) *h2.Error {
	e := c.eng
	c.peers.Open(f.Stream)
	c.meter.Useful(0)
	if f.Stream > c.lastServed {
		c.closeUnopened(f.Stream) // GOAWAY has announced that this stream is not served
		return nil
	}
	if c.atMaxStreams() {
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
		s = &downStream{}
		s.handle.Bind(e.loop, s)
		s.x.Bind(e.gate, e.clock, s.handle.Wake, &s.handle)
	}
	event, _ := h2.EventOf(f)
	state, _ := h2.Idle.Receive(event)
	s.begin(&c.conn, &s.x, f.Stream, state)
	s.conn, s.phase, s.deadline, s.rejection, s.isHEAD, s.isGRPC, s.replyBody = c, phaseArrived, 0, gate.Undecided, false, false, nil
	s.x.Burst = false
	if f.EndStream {
		s.noteEndReceived()
	}
	c.table.add(s)
	s.handle.Begin()
	c.starting.start(s)
	if h.TooLarge {
		o := gate.HeadTooLarge
		if h.TargetTooLong {
			o = gate.TargetTooLong
		}
		s.reject(h, o)
		_ = s.msg.Head(-1, false, false)
		return nil
	}
	if err := s.msg.Head(h.Length, false, f.EndStream); err != nil {
		e.gate.Reject(gate.BadRequest)
		s.rejection = gate.BadRequest
		return c.reset(s, err)
	}
	if err := s.req.ReadHTTP2(h, f.EndStream); err != nil {
		s.rejection = wire.OutcomeOf(err)
	}
	if s.req.Protocol() != nil {
		s.withhold = withholdBody
	} else {
		s.keepReplay = true
	}
	if !s.chargeHead(s.req.MemorySize() - uncountedHead) {
		s.reject(h, gate.OutOfMemoryBudget)
	}
	return nil
}

// reject discards the head. The stream will get the local reply for o.
func (s *downStream) reject(h *h2.Head, o gate.Outcome) {
	s.rejection = o
	s.isHEAD = string(h.First(h2.NameMethod)) == "HEAD"
	s.isGRPC = wire.IsGRPC(h.First(h2.NameContentType))
	s.req.Reset()
}

// chargeHead charges n bytes to the memory for heads. It returns false if that memory is
// exhausted, or if more than half of it is used and the connection would exceed
// maxConnHeads.
func (s *downStream) chargeHead(n int) bool {
	if n <= 0 {
		return true
	}
	b, c := s.eng().gate.Heads, s.conn
	if int(c.headBytes)+n > maxConnHeads && b.Used() > b.Limit()/2 || !b.Acquire(int64(n)) {
		return false
	}
	s.headBytes += int32(n)
	c.headBytes += int32(n)
	return true
}

var errNoMemory = &h2.Error{Code: h2.EnhanceYourCalm, Scope: h2.Stream, Fault: h2.FaultHeaderBlock, Reason: "no memory left for heads"}

// receiveTrailers applies the field block after a request's body.
func (s *downStream) receiveTrailers(h *h2.Head, f *h2.Frame) *h2.Error {
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
	if !s.chargeHead(len(s.trailers) - uncountedHead) {
		s.trailers = nil
		return errNoMemory
	}
	s.noteEndReceived()
	s.x.Wake()
	return nil
}

// Step implements loop.Routine. It runs phases until one blocks.
func (s *downStream) Step() {
	if s.conn == nil || s.next != nil {
		return
	}
	defer s.recoverPanic()
	for next := true; next && s.conn != nil; {
		switch s.phase {
		case phaseArrived:
			next = s.screen()
		case phaseProbing:
			next = s.awaitProbe()
		case phaseExchanging:
			next = s.relay()
		case phaseLoadRequest:
			next = s.awaitLoadRequest()
		case phaseLoadReports:
			next = s.sendReports()
		default:
			next = s.sendReply()
		}
	}
}

func (s *downStream) recoverPanic() {
	v := recover()
	if v == nil {
		return
	}
	stack := debug.Stack()
	s.x.Abandon()
	s.sendReset(h2.InternalError)
	s.end()
	s.conn = nil
	s.eng().worker.NoteEnd()
	s.eng().worker.ReportPanic(fmt.Errorf("%v\n%s", v, stack))
}

// screen decides whether the request is a probe, gets a local reply, or begins an
// exchange.
func (s *downStream) screen() bool {
	e, c := s.eng(), s.conn
	if s.reset || s.state.Closed() {
		return s.finish()
	}
	if s.rejection != gate.Undecided {
		e.gate.Reject(s.rejection)
		return s.reply(gate.ReplyTo(s.rejection))
	}
	s.describe()
	screening := e.gate.Screen(&exchange.Arrival{
		Peer: c.peer.Addr(), Probe: s.req.Probe(), Asterisk: s.req.Asterisk, Encrypted: c.sock.Layered(),
	})
	switch {
	case screening.Self:
		return s.reply(gate.Reply{Outcome: gate.Probed, Status: 200})
	case screening.Kind != gate.Traffic:
		s.phase, s.probe = phaseProbing, e.gate.BeginProbe(screening, s.handle.Wake)
		return true
	case screening.Rejected:
		e.gate.Reject(screening.Outcome)
		return s.reply(gate.ReplyTo(screening.Outcome))
	case !screening.Trusted:
		s.req.Distrust()
		s.describe()
	case e.gate.LoadReportStream && s.callsForReports():
		s.dropReplay()
		s.phase, s.deadline = phaseLoadRequest, e.loop.Now()+loadRequestTimeout
		return true
	}
	s.x.Begin(e.loop.Now(), s, &e.worker.Router)
	if lines := s.x.TraceLines; lines != nil {
		s.req.ReplaceTrace(lines)
	}
	if g := s.eng().gate; g.RequestStart {
		s.req.SetStart(loop.TimeOf(e.loop.Now()).UnixMicro())
	}
	s.phase = phaseExchanging
	return true
}

func (s *downStream) describe() {
	s.req.Describe(s.x.Reset(), s.eng().worker.Host)
	s.x.Peer, s.x.Encrypted = s.conn.peer, s.conn.sock.Layered()
}

// relay runs a step of the exchange.
func (s *downStream) relay() bool {
	tunnelled := s.x.State() == exchange.StateTunnelling
	result, outcome, next := s.x.Step(s.eng().loop.Now())
	if result == exchange.Ongoing {
		if !tunnelled && s.x.State() == exchange.StateTunnelling {
			s.eng().worker.NoteEnd()
		}
		s.handle.SetDeadline(next)
		return false
	}
	s.eng().worker.NoteEnd()
	if outcome.Meaning().BlockedWindow && s.windowClosed() {
		s.conn.countFault(h2.FaultIdle)
	}
	switch result {
	case exchange.Completed:
	case exchange.Rejected:
		r := s.x.RejectionReply(outcome, s.eng().loop.Now())
		s.x.ReportLoad(&r, &s.req)
		return s.reply(r)
	case exchange.CutOff:
		s.truncate(outcome)
	default:
		s.sendReset(h2.Cancel)
	}
	return s.finish()
}

// finish ends the stream. If the response is complete and the upload is not, the stream
// is reset with NO_ERROR, which tells the client to stop the upload (RFC 9113 section
// 8.1).
func (s *downStream) finish() bool {
	if s.sendState == sendEnded && !s.endReceived() {
		s.sendReset(h2.NoError)
	}
	s.end()
	return false
}

func (s *downStream) end() {
	c := s.conn
	s.conn = nil
	if s.phase == phaseLoadReports {
		delete(c.eng.loadStreams, s)
	}
	if !s.state.Closed() {
		s.state = h2.ResetByPeer
	}
	c.table.remove(s)
	s.close()
	s.req.Reset()
	if s.headBytes > 0 {
		s.x.Reset() // x must not keep the head in memory while s is on the free list
		c.eng.gate.Heads.Release(int64(s.headBytes))
		c.headBytes, s.headBytes = c.headBytes-s.headBytes, 0
	}
	s.probe, s.replyBody = nil, nil
	s.handle.End()
	c.eng.streams.Put(s)
	if c.live {
		c.streamEnded()
	}
}
