package http1

import (
	"fmt"
	"runtime/debug"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// phase is what a session does.
//
//	reading    → probing     a probe whose result is not known at once
//	reading    → exchanging  traffic
//	reading, probing, exchanging → replying   the gate answers by itself
//	exchanging → reading     the answer is complete
//	replying   → reading, or lingering where the connection does not go on
//
// From reading a session ends when nothing has come yet, from any phase when
// the connection closes.
type phase uint8

const (
	reading phase = iota
	probing
	exchanging
	replying
	lingering
)

// session is what a connection needs while it does more than wait: a request
// that is read, under way, or answered. One serves one connection after the
// other. It runs in steps: none of its methods blocks.
type session struct {
	handle   loop.Handle
	eng      *engine
	conn     *conn // nil: spare
	phase    phase
	deadline int64 // when the phase ends at the latest; 0 = no bound

	input
	req          wire.Request
	client       downSide
	x            exchange.Exchange
	probe        *exchange.ProbeCall
	keepAlive    bool // the connection goes on behind the reply
	replyCounted bool // the client has not taken all of the reply

	lingerEnd  int64 // when lingering ends, whatever the client sends
	lingerNext int64 // when more of what it sends may be dropped
}

// Sessions of a loop that stay when a burst is over, and the most that it
// keeps for the next one.
const (
	minFreeSessions = 8
	maxFreeSessions = 16384
)

// Event begins to read a request on an idle connection.
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
		e.conns.Take(c)
	}
	s.conn, c.session = c, s
	s.phase, s.deadline = reading, 0
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

// Step is loop.Routine: it goes on as far as it can now, one phase after the
// other.
func (s *session) Step() {
	if s.conn == nil {
		return // woken by what has ended meanwhile
	}
	defer s.recoverPanic()
	for again := true; again && s.conn != nil; {
		switch s.phase {
		case reading:
			again = s.readRequest()
		case probing:
			again = s.awaitProbe()
		case exchanging:
			again = s.relay()
		case replying:
			again = s.sendReply()
		default:
			again = s.linger()
		}
	}
}

// recoverPanic ends the connection after a panic: the slot is given back, and the
// session is not used again.
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
	s.eng.worker.Departed()
	s.eng.worker.Panicked(fmt.Errorf("%v\n%s", v, stack))
}

// close ends the session. A connection that is still open is idle.
func (s *session) close() {
	c := s.conn
	s.conn, c.session = nil, nil
	if c.sock.Open() {
		c.sock.SetHandler(c)
		s.eng.conns.Take(c)
	}
	s.client.release()
	s.forgetHead()
	s.input.release()
	s.uncountReply()
	s.endLinger()
	s.handle.End()
	s.eng.sessions.Put(s)
}

// forgetHead lets go of the last head. A session that waits, or is spare, must not
// keep the memory of one that the budget has back.
func (s *session) forgetHead() {
	s.req.Reset()
	if s.headMemory > 0 {
		s.x.Describe()
	}
}

// hangUp closes the connection, and the session with it.
func (s *session) hangUp() bool {
	s.conn.close()
	s.close()
	return false
}

// wait returns from a step until there is news, or until the instant.
func (s *session) wait(until int64) bool {
	s.handle.SetDeadline(until)
	return false
}

func (s *session) now() int64 { return s.eng.loop.Now() }

// disconnected reports that the client has left or the loop is to end.
func (s *session) disconnected() bool { return s.conn.disconnected() || s.eng.loop.Closing() }

// relay takes the exchange on.
func (s *session) relay() bool {
	tunnelled := s.x.State() == exchange.StateTunnelling
	ending, outcome, next := s.x.Step(s.now())
	if ending == exchange.Ongoing {
		if !tunnelled && s.x.State() == exchange.StateTunnelling {
			s.eng.worker.Departed() // no longer a request
		}
		return s.wait(next)
	}
	s.eng.worker.Departed()
	switch ending {
	case exchange.Completed:
		return s.completed()
	case exchange.Rejected:
		return s.reject(outcome)
	case exchange.CutOff:
		if s.client.untilClose {
			s.conn.reset() // the end of the connection would look like the end of the answer
		}
	}
	return s.hangUp()
}

// completed goes on behind an answer that has been delivered whole.
func (s *session) completed() bool {
	whole := s.client.Whole()
	fits := s.input.takeLeftover(&s.client.reader)
	s.client.writer.release()
	switch {
	case s.client.keepAlive && fits:
		s.phase, s.deadline = reading, 0
		return true
	case whole && s.r == s.w && s.conn.sock.Quiet() && s.conn.sock.Finish():
		return s.hangUp()
	}
	return s.beginLinger()
}
