package http1

import (
	"cmp"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// readRequest reads a request head and begins its exchange, its probe or a local reply.
func (s *session) readRequest() bool {
	if s.deadline == 0 {
		s.dropHead()
		s.skipped = false
		s.shrink()
	}
	complete, more := s.readHead()
	if !complete {
		return more
	}
	s.deadline = 0
	if s.conn.Set() == &s.eng.reading {
		s.eng.conns.Touch(s.conn)
	}
	s.conn.sentHead = true
	s.r = len(s.req.Raw)
	s.client.begin()
	s.client.describe(&s.x)
	screening := s.eng.gate.Screen(&exchange.Arrival{
		Peer: s.conn.peer.Addr(), Probe: s.req.Probe(), Asterisk: s.req.Asterisk, Encrypted: s.conn.sock.Layered(),
	})
	switch {
	case screening.Self:
		return s.reply(gate.Reply{Outcome: gate.Probed, Status: 200}, true)
	case screening.Kind != gate.Traffic:
		s.phase, s.probe = probing, s.eng.gate.BeginProbe(screening, s.handle.Wake)
		return true
	case screening.Rejected:
		s.eng.gate.Reject(screening.Outcome)
		return s.reply(gate.ReplyTo(screening.Outcome), true)
	case !screening.Trusted:
		s.req.Distrust()
		s.client.describe(&s.x)
	}
	s.x.Begin(s.now(), &s.client, &s.eng.worker.Router)
	if lines := s.x.TraceLines; lines != nil {
		s.req.ReplaceTrace(lines)
	}
	if g := s.eng.gate; g.RequestStart {
		s.req.SetStart(loop.TimeOf(s.now()).UnixMicro())
	}
	s.enter(exchanging)
	return true
}

// readHead reads and parses a head. The result complete is true if the head is complete
// and valid. Otherwise the caller must return at once. Its own result must then be more,
// which reports whether the session can continue without a new event.
func (s *session) readHead() (complete, more bool) {
	c := s.conn
	if s.buf == nil {
		s.buf = s.eng.bufs.requests.get()
	}
	if s.r > 0 {
		s.w = copy(s.buf.b, s.buf.b[s.r:s.w])
		s.r = 0
	}
	for {
		if s.input.skipEmptyLine() {
			s.req.Reset()
		}
		if s.w > 0 {
			if possible, complete := s.preface(); complete {
				return false, s.switchToHTTP2()
			} else if !possible {
				complete, err := s.req.Scan(s.buf.b[:s.w])
				if complete && err == nil {
					err = s.req.Parse()
				}
				if err != nil {
					return false, s.rejectHead(wire.OutcomeOf(err))
				}
				if complete {
					return true, true
				}
			}
		}
		if s.w == len(s.buf.b) && !s.grow() {
			return false, s.rejectHead(gate.OutOfMemoryBudget)
		}
		n, err := c.sock.Read(s.buf.b[s.w:])
		switch {
		case err == nil:
			s.w += n
			continue
		case err != loop.ErrAgain || s.w == 0 && s.eng.worker.ShuttingDown() || s.eng.loop.Closing():
			c.finish()
			s.close()
			return false, false
		case s.w == 0:
			s.close() // ends only the session; the connection stays open and is idle
			return false, false
		}
		if s.deadline == 0 {
			s.deadline = s.now() + int64(cmp.Or(s.eng.cfg.HeadTimeout, defaultHeadTimeout))
			s.eng.reading.Touch(c)
		}
		if s.now() >= s.deadline {
			return false, s.rejectHead(gate.HeadTimeout)
		}
		return false, s.wait(s.deadline)
	}
}

// preface reports whether the received bytes may begin the HTTP/2 preface, and whether
// they contain the whole preface.
func (s *session) preface() (possible, complete bool) {
	c := s.conn
	if s.buf.b[0] != 'P' || !s.eng.worker.HasHTTP2() || c.sentHead || c.sock.Layered() {
		return false, false
	}
	return h2.MatchPreface(s.buf.b[:s.w])
}

func (s *session) switchToHTTP2() bool {
	c := s.conn
	c.Set().Remove(c)
	s.eng.worker.SwitchToHTTP2(c.sock.Detach(), c.peer, s.buf.b[:s.w])
	s.close()
	return false
}
