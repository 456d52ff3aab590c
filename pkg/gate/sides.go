package gate

// A side speaks one protocol with one peer. It reads and writes heads, bodies,
// interim answers, trailers, ends and cuts of one request at a time; what
// happens when is the exchange's decision. No method blocks: a side does what
// it can, and the engine that drives the exchange steps it again when its peer has
// news. All methods are called on one loop.

// Source is where a body comes from.
type Source interface {
	// Pump gives dst what is at hand, as much as dst takes but no more than a
	// bounded amount, and Finish behind the last of it. It reports whether
	// anything has moved.
	Pump(dst Sink) (moved bool)
	// Taken is the number of payload bytes that have been given on.
	Taken() int64
	// Ended reports whether all has been given on, the end included.
	Ended() bool
	// Failed reports whether the body has broken off, and Malformed whether it
	// did because it could not be understood.
	Failed() bool
	Malformed() bool
}

// Sink is where a message goes. A head that a side has begun goes out before
// the payload.
type Sink interface {
	// Put takes payload, and returns how much of it: with less than all, dst is
	// full until its peer has taken something, and the rest comes again.
	Put(p []byte) int
	// Room is how much payload Put would take now, as far as that is known: a
	// source reads no more than that ahead, and little at 0. With less than all
	// that it could be, dst leads to a step once there is more.
	Room() int
	// Finish says that the body is complete. The trailers are field lines, each
	// with its CRLF.
	Finish(trailers []byte)
	// Flush writes what waits, and reports whether anything went and whether
	// nothing is left.
	Flush() (moved, empty bool)
	// Broken reports that the peer takes no more.
	Broken() bool
}

// ClientSide speaks to the client.
type ClientSide interface {
	Source // the request's body
	Sink   // the answer

	// Gone reports that the client has left, or is to be treated so.
	Gone() bool
	// Closing reports that the loop is to end.
	Closing() bool
	// CheckGone is Gone with a check of what no event has reported yet.
	CheckGone() bool
	// Expects reports that the client waits for a 100 before it sends the body.
	Expects() bool
	// Upgrades reports that the client has asked for what up switches to.
	Upgrades(up UpstreamSide) bool
	// Idempotent reports that the request may be executed more than once (RFC
	// 9110 section 9.2.2).
	Idempotent() bool
	// Whole reports that all of the request has been read from the client.
	Whole() bool
	// Rewind makes the body come again from its first byte. It is false if that
	// is not possible any more; whole asks for a body that is there to its end.
	Rewind(whole bool) bool
	// Continue sends a 100 of the gate's own.
	Continue()
	// Interim hands on the 1xx that up has received.
	Interim(up UpstreamSide)
	// Answer begins the final answer with the head that up has received.
	Answer(up UpstreamSide)
	// Switch hands on the 101 that up has received: what follows are bytes.
	Switch(up UpstreamSide)
	// Drop closes towards a client that has left.
	Drop()
}

// UpstreamSide speaks to the user container, for one exchange.
type UpstreamSide interface {
	Source // the answer's body
	Sink   // the request

	// Send begins the request that c has received, and reports whether its first
	// byte goes out at the end of this turn of the loop.
	Send(c ClientSide) (soon bool)
	// Receive reads the next head of the answer. The outcome tells why there
	// will be none, with HeadFailed.
	Receive() (HeadState, Outcome)
	// Status is that of the last head that was received.
	Status() int
	// Sent reports whether a byte of the request has gone out, Heard whether one
	// of an answer has come.
	Sent() bool
	Heard() bool
	// Reused reports that this connection has carried a request before.
	Reused() bool
	// Unprocessed reports that by the container's own word, or because it speaks
	// another protocol, nothing was done about the request.
	Unprocessed() bool
	// Unwilling reports that the container will not read the rest of the
	// request.
	Unwilling() bool
	// Complete ends an exchange whose answer has been read to its end. With
	// open, the request has not been sent to its end.
	Complete(open bool)
	// HangUp tells the container that the client has left, and goes on reading.
	HangUp()
	// Abort ends the exchange at once.
	Abort()
}

// HeadState is what Receive has found.
type HeadState uint8

// The states of a head.
const (
	HeadAwaited  HeadState = iota // nothing new
	HeadPartial                   // something, not all
	HeadInterim                   // a 1xx
	HeadFinal                     // an answer; its body may be pumped
	HeadSwitched                  // a 101: what follows are bytes
	HeadFailed                    // there will be none
)

// Connector finds connections to the container. It belongs to one loop.
type Connector interface {
	// Connect returns a side for x, which is in StateConnecting. Without one,
	// failed says that x ends with o; otherwise Connect is called again with
	// each step of x, at the latest when next has come (0 = no bound). fresh
	// asks for a connection that has not been used.
	Connect(x *Exchange, now int64, fresh bool) (up UpstreamSide, next int64, o Outcome, failed bool)
	// Cancel takes back what Connect has begun for x.
	Cancel(x *Exchange)
}

// sides are those of one exchange.
type sides struct {
	client ClientSide
	up     UpstreamSide // nil = none yet
}

// Repeatable reports whether the request may be sent a second time, and could
// be.
func (s *sides) Repeatable() bool { return s.client.Idempotent() && s.client.Whole() }

// Room is how much of the answer the client would take now.
func (s *sides) Room() int { return s.client.Room() }

// delivered reports whether the client has had its whole answer, and has sent
// its whole request, although not all of that has gone on.
func (s *sides) delivered() bool {
	if !s.up.Ended() || !s.client.Whole() {
		return false
	}
	_, empty := s.client.Flush()
	return empty
}

// tunnelOver reports whether a tunnel has ended. Each direction's end goes on by
// itself.
func (s *sides) tunnelOver() bool {
	if s.client.Failed() || s.up.Failed() || s.client.Broken() || s.up.Broken() {
		return true
	}
	_, downEmpty := s.client.Flush()
	_, upEmpty := s.up.Flush()
	return s.client.Ended() && s.up.Ended() && downEmpty && upEmpty
}
