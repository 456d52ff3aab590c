package http1

import (
	"bytes"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// Timeouts for clients that do not read their reply or continue to send after it.
const (
	replyTimeout  = int64(5 * time.Second)
	lingerTimeout = int64(2 * time.Second)
	lingerTotal   = int64(10 * time.Second)
)

// Connections in lingering close discard large pieces with pauses between them, so that
// thousands of rejected uploads cannot starve the loop.
const (
	lingerBytes = 1 << 20
	lingerPause = int64(10 * time.Millisecond)
)

func (s *session) appendReply(dst []byte, r *gate.Reply, bodyless bool) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(append(dst, ' '), wire.Reason(r.Status)...)
	for name, value := range r.Fields {
		dst = append(append(dst, "\r\n"...), name...)
		dst = append(append(dst, ": "...), value...)
	}
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(r.Length()), 10)
	dst = append(append(append(dst, "\r\nDate: "...), s.eng.worker.Date()...), "\r\n"...)
	if !s.keepAlive {
		dst = append(dst, "Connection: close\r\n"...)
	} else if s.req.Minor == 0 {
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	if bodyless {
		return dst
	}
	return r.AppendBody(dst)
}

// reply begins a local reply. If keep is true and the request has been read completely,
// the connection may stay open.
func (s *session) reply(r gate.Reply, keep bool) bool {
	s.keepAlive = keep && s.client.discardBody() && s.req.KeepAlive() && !s.eng.gate.Drain.Active()
	bodyless := string(s.req.Method) == "HEAD"
	// The head contains the bytes of r.Hash, and takeLeftover may overwrite the head.
	r.Hash = bytes.Clone(r.Hash)
	if keep {
		s.keepAlive = s.input.takeLeftover(&s.client.reader) && s.keepAlive
	}
	w := &s.client.writer
	w.begin(false, false)
	w.setBuffered(s.appendReply(w.buffered(), &r, bodyless))
	s.enter(replying)
	s.deadline = s.now() + replyTimeout
	return true
}

func (s *session) sendReply() bool {
	w := &s.client.writer
	if _, empty := w.Flush(); !empty {
		if w.Broken() || s.now() >= s.deadline || s.conn.sock.Failed() || s.eng.loop.Closing() {
			return s.hangUp()
		}
		if !s.replyCounted {
			s.replyCounted = true
			s.eng.cfg.pendingReplies.Inc()
		}
		return s.wait(s.deadline)
	}
	s.uncountReply()
	if !s.keepAlive {
		return s.beginLinger()
	}
	s.enter(reading)
	s.deadline = 0
	return true
}

func (s *session) uncountReply() {
	if s.replyCounted {
		s.replyCounted = false
		s.eng.cfg.pendingReplies.Dec()
		s.eng.worker.NoteEnd()
	}
}

func (s *session) reject(o gate.Outcome) bool {
	if o == gate.ClientGone {
		return s.hangUp()
	}
	r := s.x.RejectionReply(o, s.now())
	s.x.ReportLoad(&r, &s.req)
	return s.reply(r, o != gate.BadRequest)
}

// rejectHead rejects an invalid head and closes the connection after the reply.
func (s *session) rejectHead(o gate.Outcome) bool {
	s.eng.gate.Reject(o)
	return s.reply(gate.ReplyTo(o), false)
}

// beginLinger begins a lingering close. Closing a socket with unread bytes sends a reset,
// which could overtake the response (RFC 9112 section 9.6).
func (s *session) beginLinger() bool {
	s.conn.sock.CloseWrite()
	if s.eng.cfg.lingering.Inc() > maxLingering {
		s.eng.cfg.lingering.Dec()
		return s.hangUp()
	}
	s.eng.conns.Touch(s.conn)
	s.enter(lingering)
	s.r, s.w = 0, 0
	s.dropHead()
	s.shrink()
	s.deadline = s.now() + lingerTimeout
	s.lingerNext, s.lingerEnd = 0, s.now()+lingerTotal
	return true
}

// maxLingering limits the connections in lingering close on all loops together.
const maxLingering = 512

func (s *session) endLinger() {
	if s.phase == lingering {
		s.phase = reading
		s.eng.cfg.lingering.Dec()
		s.eng.worker.NoteEnd()
	}
}

// linger discards received bytes until the client closes or a deadline passes.
func (s *session) linger() bool {
	sock := &s.conn.sock
	for !s.eng.loop.Closing() && s.now() < min(s.deadline, s.lingerEnd) {
		if s.now() < s.lingerNext && !sock.HungUp() {
			return s.wait(min(s.lingerNext, s.deadline, s.lingerEnd))
		}
		switch _, err := sock.Discard(lingerBytes, s.buf.b); {
		case err == loop.ErrAgain:
			return s.wait(min(s.deadline, s.lingerEnd))
		case err != nil:
			return s.hangUp()
		}
		s.deadline, s.lingerNext = s.now()+lingerTimeout, s.now()+lingerPause
	}
	return s.hangUp()
}

func (s *session) awaitProbe() bool {
	p := s.probe
	if !p.Ready() && !s.disconnected() {
		return s.wait(0)
	}
	s.probe = nil
	if !p.Ready() {
		p.Cancel()
		return s.hangUp()
	}
	probe := s.req.Probe()
	// The values in probe refer to the head, which s.reply may overwrite. So p.Reply uses
	// them before s.reply is called.
	r, ok := p.Reply(s.eng.gate, &s.x, &probe)
	if !ok {
		return s.hangUp()
	}
	return s.reply(r, true)
}
