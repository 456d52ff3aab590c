package http2

import (
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// reply begins a local reply. A gRPC call gets a Trailers-Only response (gRPC over
// HTTP/2). Replies to probes have no gRPC form.
func (s *downStream) reply(r gate.Reply) bool {
	s.announceDrain()
	l := s.c
	b, enc := l.outBuffer(), &l.hpack().enc
	start := len(b)
	b = h2.BeginHeaders(b)
	end := true
	if !r.Outcome.Meaning().ProbeReply && (s.isGRPC || s.req.GRPC()) {
		b = s.appendGRPC(enc.AppendNamed(enc.AppendStatus(b, 200), h2.NameContentType, []byte("application/grpc")), r.Outcome)
		if r.Retry > 0 {
			b = enc.AppendText(b, []byte("grpc-retry-pushback-ms"), strconv.AppendInt(nil, int64(r.Retry)*1000, 10))
		}
		b = wire.AppendLines(b, enc, []byte(r.LoadReport))
	} else {
		b = enc.AppendStatus(b, r.Status)
		for name, value := range r.Fields {
			b = enc.AppendText(b, []byte(name), []byte(value))
		}
		b = enc.AppendNamed(b, h2.NameContentLength, strconv.AppendInt(nil, int64(r.Length()), 10))
		b = enc.AppendNamed(b, h2.NameDate, s.eng().worker.Date())
		if r.Length() > 0 && !s.isHEAD && string(s.req.Method) != "HEAD" {
			s.replyBody, end = r.AppendBody(nil), false
		}
	}
	l.queue(h2.EndHeaders(b, start, s.id, end, int(l.settings.MaxFrame)))
	s.responseBegan(end)
	s.phase, s.deadline = phaseReplying, s.eng().loop.Now()+replyTimeout
	return true
}

// sendReply writes the rest of a local reply.
func (s *downStream) sendReply() bool {
	if len(s.replyBody) > 0 && !s.Disconnected() {
		s.replyBody = s.replyBody[s.Write(s.replyBody):]
		if len(s.replyBody) > 0 && s.eng().loop.Now() < s.deadline {
			s.handle.SetDeadline(s.deadline)
			return false
		}
	}
	switch {
	case s.Disconnected():
	case len(s.replyBody) > 0:
		if s.windowClosed() {
			s.conn.countFault(h2.FaultIdle)
		}
		s.sendReset(h2.Cancel)
	default:
		s.Finish(nil)
	}
	return s.finish()
}

// truncate ends a response after its head. It ends a gRPC call with its status in
// trailers, and any other response with a reset.
func (s *downStream) truncate(o gate.Outcome) {
	if !s.req.GRPC() || s.Disconnected() || s.sendState == sendEnded {
		s.sendReset(h2.InternalError)
		return
	}
	l := s.c
	b := l.outBuffer()
	start := len(b)
	b = s.appendGRPC(h2.BeginHeaders(b), o)
	l.queue(h2.EndHeaders(b, start, s.id, true, int(l.settings.MaxFrame)))
	s.headWritten(true)
}

// appendGRPC appends the gRPC status of a call and its message. The messages are fixed
// texts that need no percent-encoding.
func (s *downStream) appendGRPC(b []byte, o gate.Outcome) []byte {
	m, enc := o.Meaning(), &s.c.hpack().enc
	b = enc.AppendNamed(b, h2.NameGRPCStatus, strconv.AppendInt(nil, int64(s.grpcStatus(o)), 10))
	b = enc.AppendNamed(b, h2.NameGRPCMessage, []byte(strings.TrimSpace(m.Body)))
	b = enc.AppendText(b, []byte("k-gate-outcome"), []byte(o.String()))
	if status := o.ProxyStatus(); status != "" {
		b = enc.AppendText(b, []byte("proxy-status"), []byte(status))
	}
	return b
}

// awaitProbe sends the reply to a probe once the result is known. Probes are not counted
// and need no slot.
func (s *downStream) awaitProbe() bool {
	p := s.probe
	if !p.Ready() && !s.Disconnected() {
		s.handle.SetDeadline(0)
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
