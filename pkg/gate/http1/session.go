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
//	reading    → probing     the request is a probe
//	reading    → exchanging  the request is traffic
//	reading, probing, exchanging → replying   the gate sends a local reply
//	exchanging → reading     the response is complete
//	exchanging → lingering   the response is complete and the connection closes, but the
//	                         client may still send
//	replying   → reading, or lingering if the connection closes
//
// A session ends when its connection closes. It also ends if its phase is "reading" and
// no bytes have been received; the connection then stays open.
type phase uint8

const (
	reading phase = iota
	probing
	exchanging
	replying
	lingering
	idle   // used only in logs: an idle connection has no session
	closed // used only in logs: a closed connection has no session
)

var phaseNames = [...]string{"reading", "probing", "exchanging", "replying", "lingering", "idle", "closed"}

func (p phase) String() string { return phaseNames[p] }

// session is the state of a connection while a request is read, forwarded or replied to.
// Sessions are reused for other connections.
type session struct {
	handle   loop.Handle
	eng      *engine
	conn     *conn // nil = in the free list
	phase    phase
	deadline int64 // deadline of the phase; 0 = none

	input
	req          wire.Request
	client       downSide
	x            exchange.Exchange
	probe        *exchange.ProbeCall
	keepAlive    bool // the connection stays open after the local reply
	replyCounted bool // counted in Protocol.pendingReplies

	lingerEnd  int64 // latest end of a lingering close
	lingerNext int64 // next time at which received bytes are discarded
}

// Limits of a loop's free list of sessions. During a burst of requests, the list grows up
// to maxFreeSessions. Afterwards it shrinks to minFreeSessions.
const (
	minFreeSessions = 8
	maxFreeSessions = 16384
)

// Event attaches a session to an idle connection and starts reading a request.
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

// Step implements loop.Routine.
func (s *session) Step() {
	if s.conn == nil {
		return // woken after its end
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

// recoverPanic closes the connection after a panic. The session is not reused.
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

// close ends the session. A connection that is still open becomes idle.
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

func (s *session) enter(next phase) {
	s.conn.logState(s.phase, next)
	s.phase = next
}

// dropHead drops the references to the last head, so that the session does not keep
// memory that has been returned to the budget.
func (s *session) dropHead() {
	s.req.Reset()
	if s.headMemory > 0 {
		s.x.Reset()
	}
}

func (s *session) hangUp() bool {
	s.conn.close()
	s.close()
	return false
}

// wait ends the step until the next event, or until the given time (0 = no limit).
func (s *session) wait(deadline int64) bool {
	s.handle.SetDeadline(deadline)
	return false
}

func (s *session) now() int64 { return s.eng.loop.Now() }

func (s *session) disconnected() bool { return s.conn.disconnected() || s.eng.loop.Closing() }

func (s *session) relay() bool {
	tunnelled := s.x.State() == exchange.StateTunnelling
	result, outcome, next := s.x.Step(s.now())
	if result == exchange.Ongoing {
		if !tunnelled && s.x.State() == exchange.StateTunnelling {
			s.eng.worker.NoteEnd() // tunnels do not count as requests
		}
		return s.wait(next)
	}
	s.eng.worker.NoteEnd()
	switch result {
	case exchange.Completed:
		return s.completed()
	case exchange.Rejected:
		return s.reject(outcome)
	case exchange.CutOff:
		if s.client.untilClose {
			s.conn.reset() // a FIN would look like the end of the response
		}
	}
	return s.hangUp()
}

// completed continues after a complete response: with the next request, or by closing the
// connection.
func (s *session) completed() bool {
	complete := s.client.FullyRead() || s.client.keepAlive && s.client.discardBody()
	fits := s.input.takeLeftover(&s.client.reader)
	s.client.writer.release()
	switch {
	case s.client.keepAlive && complete && fits:
		s.enter(reading)
		s.deadline = 0
		return true
	case complete && s.r == s.w && s.conn.sock.Quiet() && s.conn.sock.Finish():
		return s.hangUp()
	}
	return s.beginLinger()
}
