package http2

import (
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// reply begins a reply of the gate's own. gRPC calls get a head that is the
// trailers as well (gRPC over HTTP/2, Trailers-Only), but for probes.
func (s *stream) reply(r gate.Reply) bool {
	s.announceClose()
	l := s.l
	b, enc := l.room(), &l.hpack().enc
	start := len(b)
	b = h2.BeginHeaders(b)
	end := true
	if !r.Outcome.Meaning().ProbeReply && (s.grpc || s.req.GRPC()) {
		b = s.appendGRPC(b, r.Outcome, true)
	} else {
		b = enc.AppendStatus(b, r.Status)
		for name, value := range r.Fields {
			b = enc.AppendText(b, []byte(name), []byte(value))
		}
		b = enc.AppendNamed(b, h2.NameContentLength, strconv.AppendInt(nil, int64(r.Length()), 10))
		b = enc.AppendNamed(b, h2.NameDate, s.eng().worker.Date())
		if r.Length() > 0 && !s.head && string(s.req.Method) != "HEAD" {
			s.body, end = r.AppendBody(nil), false
		}
	}
	l.hold(h2.EndHeaders(b, start, s.id, end, int(l.settings.MaxFrame)))
	s.start()
	if end {
		s.finished = true
		s.sent(h2.OnHeadersEnd)
	}
	s.phase, s.until = replying, s.eng().loop.Now()+replyTimeout
	return true
}

// sendReply writes what is left of a reply.
func (s *stream) sendReply() bool {
	if len(s.body) > 0 && !s.Disconnected() {
		s.body = s.body[s.Write(s.body):]
		if len(s.body) > 0 && s.eng().loop.Now() < s.until {
			s.handle.Until(s.until)
			return false
		}
	}
	switch {
	case s.Disconnected():
	case len(s.body) > 0:
		if s.blocked() {
			s.conn.fault(h2.FaultIdle)
		}
		s.sendReset(h2.Cancel)
	default:
		s.Finish(nil)
	}
	return s.finish()
}

// cutOff ends an answer of which some has gone out: a gRPC call with its
// status, anything else with a reset.
func (s *stream) cutOff(o gate.Outcome) {
	if !s.req.GRPC() || s.Disconnected() || s.finished {
		s.sendReset(h2.InternalError)
		return
	}
	l := s.l
	b := l.room()
	start := len(b)
	b = s.appendGRPC(h2.BeginHeaders(b), o, false)
	l.hold(h2.EndHeaders(b, start, s.id, true, int(l.settings.MaxFrame)))
	s.finished = true
	s.sent(h2.OnHeadersEnd)
}

// appendGRPC appends the status of a call. The fixed texts of outcomes need no
// escapes.
func (s *stream) appendGRPC(b []byte, o gate.Outcome, head bool) []byte {
	m, enc := o.Meaning(), &s.l.hpack().enc
	if head {
		b = enc.AppendStatus(b, 200)
		b = enc.AppendNamed(b, h2.NameContentType, []byte("application/grpc"))
	}
	b = enc.AppendNamed(b, h2.NameGRPCStatus, strconv.AppendInt(nil, int64(s.grpcStatus(o)), 10))
	b = enc.AppendNamed(b, h2.NameGRPCMessage, []byte(strings.TrimSpace(m.Body)))
	return enc.AppendText(b, []byte("k-gate-outcome"), []byte(o.String()))
}

// awaitProbe replies to a probe once the result is known. Nothing of it is
// counted, and it needs no slot.
func (s *stream) awaitProbe() bool {
	p := s.probe
	if !p.Ready() && !s.Disconnected() {
		s.handle.Until(0)
		return false
	}
	s.probe = nil
	if !p.Ready() {
		p.Cancel()
		return s.finish()
	}
	probe := s.req.Probe()
	r, ok := p.Reply(s.eng().gate, &s.x, &probe)
	if !ok {
		s.sendReset(h2.Cancel)
		return s.finish()
	}
	return s.reply(r)
}
