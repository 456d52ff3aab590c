package http1

import (
	"context"
	"strconv"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// How long clients may take that do not take their reply, or do not stop
// sending behind it.
const (
	replyTimeout  = int64(5 * time.Second)
	lingerTimeout = int64(2 * time.Second)
	lingerTotal   = int64(10 * time.Second)
)

// reasonPhrases are those of the statuses that the gate replies with.
var reasonPhrases = map[int]string{
	200: "OK", 400: "Bad Request", 405: "Method Not Allowed", 408: "Request Timeout", 414: "URI Too Long",
	403: "Forbidden", 417: "Expectation Failed", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
	501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
	505: "HTTP Version Not Supported",
}

func (s *session) appendReply(dst []byte, r *gate.Reply) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(append(dst, ' '), reasonPhrases[r.Status]...)
	for name, value := range r.Fields {
		dst = append(append(dst, "\r\n"...), name...)
		dst = append(append(dst, ": "...), value...)
	}
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(r.Length()), 10)
	dst = append(dst, "\r\n"...)
	dst = s.eng.appendDate(dst)
	if !s.keep {
		dst = append(dst, "Connection: close\r\n"...)
	} else if s.req.Minor == 0 {
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	if string(s.req.Method) == "HEAD" {
		return dst
	}
	return r.AppendBody(dst)
}

// reply begins a reply of the gate's own. With keep the connection goes on
// behind it, if the client's request has been read whole and nothing else
// speaks against that.
func (s *session) reply(r gate.Reply, keep bool) bool {
	s.keep = keep && s.client.skipBody() && s.req.KeepAlive() && !s.eng.gate.Drain.Active()
	if keep {
		s.recoverInput()
	}
	w := &s.client.writer
	w.begin(false, false)
	w.hold(s.appendReply(w.room(), &r))
	s.phase, s.until = replying, s.now()+replyTimeout
	return true
}

// sendReply writes what is left of a reply.
func (s *session) sendReply() bool {
	w := &s.client.writer
	if _, empty := w.Flush(); !empty {
		if w.Broken() || s.now() >= s.until || s.conn.sock.Failed() || s.eng.loop.Closing() {
			return s.hangUp()
		}
		return s.wait(s.until)
	}
	if !s.keep {
		return s.beginLinger()
	}
	s.phase, s.until = reading, 0
	return true
}

// refuse replies to a request that the exchange has refused.
func (s *session) refuse(o gate.Outcome) bool {
	if o == gate.ClientGone {
		return s.hangUp()
	}
	return s.reply(gate.ReplyTo(o), o != gate.BadRequest)
}

// refuseHead replies to a head that is not accepted, and closes.
func (s *session) refuseHead(o gate.Outcome) bool {
	s.reject(o)
	return s.reply(gate.ReplyTo(o), false)
}

// refusePlaintext replies to traffic that came without TLS where only TLS is
// served. Nothing of it is counted as a request.
func (s *session) refusePlaintext() bool {
	s.reject(gate.PlaintextRefused)
	return s.reply(gate.ReplyTo(gate.PlaintextRefused), true)
}

func (s *session) reject(o gate.Outcome) {
	if obs := s.eng.gate.Observer; obs != nil {
		obs.Rejected(o)
	}
}

// beginLinger closes the connection in a way that lets the client read its
// answer while it still sends: a reset, which unread bytes would cause, could
// overtake the answer (RFC 9112 section 9.6).
func (s *session) beginLinger() bool {
	s.conn.sock.CloseWrite()
	s.conn.moveTo(&s.eng.conns)
	s.phase = lingering
	s.until = s.now() + lingerTimeout
	s.lingerEnd = s.now() + lingerTotal
	return true
}

// linger reads and drops what the client still sends.
func (s *session) linger() bool {
	sock := &s.conn.sock
	for turn := 0; !sock.Failed() && !s.eng.loop.Closing() && s.now() < min(s.until, s.lingerEnd); turn++ {
		n, err := sock.Read(s.buf.b)
		switch {
		case err == loop.ErrAgain:
			return s.wait(min(s.until, s.lingerEnd))
		case err != nil:
			return s.hangUp()
		}
		if s.until = s.now() + lingerTimeout; n == len(s.buf.b) && turn == burst {
			s.handle.Wake()
			return false
		}
	}
	return s.hangUp()
}

// pendingProbe is a readiness result on its way.
type pendingProbe struct {
	kind   gate.Kind
	caller gate.Caller
	cancel context.CancelFunc
	result gate.ReadinessResult
	ok     bool
	done   atomic.Bool
}

// beginProbe answers a probe of the platform. Nothing of it is counted, and it
// needs no slot.
func (s *session) beginProbe(kind gate.Kind, c gate.Caller) bool {
	g := s.eng.gate
	p := &pendingProbe{kind: kind, caller: c}
	if kind == gate.ReadinessProbe && !g.Drain.Active() {
		if _, known := g.Readiness.Try(c); !known {
			var ctx context.Context
			ctx, p.cancel = context.WithCancel(context.Background())
			s.phase, s.probe = probing, p
			go p.wait(ctx, g, s.handle.Wake)
			return true
		}
	}
	return s.replyToProbe(p)
}

// wait waits for the result away from the loop.
func (p *pendingProbe) wait(ctx context.Context, g *gate.Gate, wake func()) {
	p.result, p.ok = g.WaitReady(ctx, p.caller)
	p.done.Store(true)
	wake()
}

// awaitProbe replies once the result is known.
func (s *session) awaitProbe() bool {
	p := s.probe
	if !p.done.Load() {
		if !s.gone() {
			return s.wait(0)
		}
		p.cancel()
		s.probe = nil
		return s.hangUp()
	}
	p.cancel()
	s.probe = nil
	return s.replyToProbe(p)
}

func (s *session) replyToProbe(p *pendingProbe) bool {
	g := s.eng.gate
	r, ok := g.ReplyToProbe(p.kind, p.caller, s.conn.peer.Addr(), &s.req.Probe, func() (gate.ReadinessResult, bool) { return p.result, p.ok })
	if !ok {
		return s.hangUp()
	}
	if o := g.Observer; o != nil {
		s.client.describe(&s.x)
		s.x.Outcome, s.x.Status, s.x.ResponseBody = r.Outcome, r.Status, int64(r.Length())
		s.x.Ended = time.Duration(loop.Nanotime())
		o.Probed(&s.x) // before the reply: what follows may overwrite the head
	}
	return s.reply(r, true)
}
