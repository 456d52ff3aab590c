package http1

import (
	"fmt"
	"runtime/debug"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// phase is the phase of a session.
//
//	reading    → probing     a probe whose result is not known yet
//	reading    → exchanging  traffic
//	reading, probing, exchanging → replying   a local reply
//	exchanging → reading     the response is complete
//	replying   → reading, or lingering if the connection closes
//
// A session ends in reading if no bytes have been received, and in any phase when the
// connection closes.
type phase uint8

const (
	reading phase = iota
	probing
	exchanging
	replying
	lingering
	idle   // no session
	closed // no session
)

var phaseNames = [...]string{"reading", "probing", "exchanging", "replying", "lingering", "idle", "closed"}

// String returns the name of p.
func (p phase) String() string { return phaseNames[p] }

// session is the state of a connection that is reading a request, forwarding it or
// replying to it. An idle connection has none. The session is reused for other
// connections. It runs in steps that do not block.
type session struct {
	handle   loop.Handle
	eng      *engine
	conn     *conn // nil = the session is in the free list
	phase    phase
	deadline int64 // deadline of the phase; 0 = none

	input
	req          wire.Request
	client       downSide
	x            exchange.Exchange
	probe        *exchange.ProbeCall
	keepAlive    bool // the connection stays open after the local reply
	replyCounted bool // counted in Protocol.pendingReplies

	lingerEnd  int64 // time at which lingering ends even if the client still sends
	lingerNext int64 // time at which received bytes are discarded next
}

// Maximum length of a loop's free list of sessions, in normal operation and during a
// burst.
const (
	minFreeSessions = 8
	maxFreeSessions = 16384
)

// Event starts reading a request on an idle connection.
func (c *conn) Event(sock *loop.Sock) {
	if !sock.Readable() {
		return
	}
	e := c.eng
	s := e.sessions.Get()
	if s == nil {
		s = newSession(e)
	}
	if c.Set() == &e.silent {
		e.conns.Touch(c)
	}
	s.conn, c.session = c, s
	s.phase, s.deadline = reading, 0
	c.logState(idle, reading)
	s.handle.Begin()
	sock.SetHandler(&s.handle)
	s.client.attach(sock)
	s.Step()
}

func newSession(e *engine) *session {
	s := &session{eng: e}
	s.input.bufs = &e.bufs
	s.handle.Bind(e.loop, s)
	s.client.init(s)
	s.x.Bind(e.gate, e.loop.Nanotime, s.handle.Wake, &s.handle)
	return s
}

// Step implements loop.Routine. It runs phases until one blocks.
func (s *session) Step() {
	if s.conn == nil {
		return // the session was woken after it had ended
	}
	defer s.recoverPanic()
	for more := true; more && s.conn != nil; {
		switch s.phase {
		case reading:
			more = s.readRequest()
		case probing:
			more = s.awaitProbe()
		case exchanging:
			more = s.relay()
		case replying:
			more = s.sendReply()
		default:
			more = s.linger()
		}
	}
}

// recoverPanic closes the connection after a panic. The slot is released, and the session
// is not reused.
func (s *session) recoverPanic() {
	v := recover()
	if v == nil {
		return
	}
	stack := debug.Stack()
	s.x.Abandon()
	s.conn.close()
	s.conn.session, s.conn = nil, nil
	s.releaseHead()
	s.uncountReply()
	s.endLinger()
	s.handle.End()
	s.eng.worker.NoteEnd()
	s.eng.worker.ReportPanic(fmt.Errorf("%v\n%s", v, stack))
}

// close ends the session. If the connection is still open, it becomes idle.
func (s *session) close() {
	c := s.conn
	s.conn, c.session = nil, nil
	if c.sock.Open() {
		c.sock.SetHandler(c)
		s.eng.conns.Touch(c)
		c.logState(s.phase, idle)
	}
	s.client.release()
	s.dropHead()
	s.input.release()
	s.uncountReply()
	s.endLinger()
	s.handle.End()
	s.eng.sessions.Put(s)
}

// enter begins the next phase of a request.
func (s *session) enter(next phase) {
	s.conn.logState(s.phase, next)
	s.phase = next
}

// dropHead drops the references to the last head. Otherwise a session that waits or is
// free would keep memory that has been returned to the budget.
func (s *session) dropHead() {
	s.req.Reset()
	if s.headMemory > 0 {
		s.x.Reset()
	}
}

// hangUp closes the connection and the session.
func (s *session) hangUp() bool {
	s.conn.close()
	s.close()
	return false
}

// wait ends the step. The next one runs at the next event, or at the time until (0 = no
// bound).
func (s *session) wait(until int64) bool {
	s.handle.SetDeadline(until)
	return false
}

func (s *session) now() int64 { return s.eng.loop.Now() }

// disconnected reports whether the client has disconnected or the loop is closing.
func (s *session) disconnected() bool { return s.conn.disconnected() || s.eng.loop.Closing() }

// relay advances the exchange.
func (s *session) relay() bool {
	tunnelled := s.x.State() == exchange.StateTunnelling
	ending, outcome, next := s.x.Step(s.now())
	if ending == exchange.Ongoing {
		if !tunnelled && s.x.State() == exchange.StateTunnelling {
			s.eng.worker.NoteEnd() // a tunnel no longer counts as a request
		}
		return s.wait(next)
	}
	s.eng.worker.NoteEnd()
	switch ending {
	case exchange.Completed:
		return s.completed()
	case exchange.Rejected:
		return s.reject(outcome)
	case exchange.CutOff:
		if s.client.untilClose {
			s.conn.reset() // without a reset, the end of the connection would look like the end of the response
		}
	}
	return s.hangUp()
}

// completed is called after a complete response. It continues with the next request or
// closes the connection.
func (s *session) completed() bool {
	whole := s.client.Whole() || s.client.keepAlive && s.client.discardBody()
	fits := s.input.takeLeftover(&s.client.reader)
	s.client.writer.release()
	switch {
	case s.client.keepAlive && whole && fits:
		s.enter(reading)
		s.deadline = 0
		return true
	case whole && s.r == s.w && s.conn.sock.Quiet() && s.conn.sock.Finish():
		return s.hangUp()
	}
	return s.beginLinger()
}
