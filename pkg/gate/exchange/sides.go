package exchange

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// A side speaks one protocol with one peer. It reads and writes heads, bodies,
// interim responses, trailers, ends and resets of one request at a time; the
// exchange decides when. No method blocks: a side does as much as it can now, and
// the engine that drives the exchange steps it again on the peer's next event. All
// methods are called on one loop.

// Source is a side that a body is read from.
type Source interface {
	// Pump moves a bounded amount of payload to dst, and calls dst.Finish after the
	// last byte. It reports whether anything moved.
	Pump(dst Sink) (moved bool)
	// Taken is the number of payload bytes that dst has accepted.
	Taken() int64
	// Ended reports whether dst has accepted the whole body including its end.
	Ended() bool
	// Failed reports whether the body was cut off.
	Failed() bool
	// Malformed reports whether it was cut off because it could not be parsed.
	Malformed() bool
}

// Sink is a side that a message is written to. A head goes out before the payload.
type Sink interface {
	// Write accepts a prefix of p and returns its length. Less than len(p) means
	// that the sink is full; the exchange is stepped when it has capacity again.
	Write(p []byte) int
	// Capacity estimates how many bytes Write would accept now. A source reads at
	// most that much ahead, and little at 0. When a full sink has capacity again,
	// the exchange is stepped.
	Capacity() int
	// Finish ends the body. The trailers are field lines, each with its CRLF.
	Finish(trailers []byte)
	// Flush writes buffered bytes. It reports whether any were written, and whether
	// none are left.
	Flush() (moved, empty bool)
	// Broken reports that the peer accepts nothing more.
	Broken() bool
}

// Downstream is the side of the client.
type Downstream interface {
	Source // the request's body
	Sink   // the response

	// Request is the request and the client's address. It is valid until the end of
	// the exchange.
	Request() (req *wire.Request, peer netip.Addr)
	// Disconnected reports that the client has disconnected, or counts as
	// disconnected.
	Disconnected() bool
	// CheckDisconnected is like Disconnected, but also asks the kernel for events
	// that the loop has not reported yet.
	CheckDisconnected() bool
	// Closing reports that the loop is about to end.
	Closing() bool
	// ExpectsContinue reports whether the client waits for a 100 before it sends
	// the body (RFC 9110 section 10.1.1).
	ExpectsContinue() bool
	// Upgrades reports whether the client has asked for the protocol that res
	// switches to.
	Upgrades(res *wire.Response) bool
	// Idempotent reports whether the request may be executed more than once (RFC
	// 9110 section 9.2.2).
	Idempotent() bool
	// Whole reports whether the entire request has been read from the client.
	Whole() bool
	// Rewind returns to the first byte of the body. It reports whether the replay
	// buffer still holds all bytes that were read and, with whole, the end.
	Rewind(whole bool) bool
	// Continue sends a 100 that the gate generates.
	Continue()
	// Interim forwards a 1xx.
	Interim(res *wire.Response)
	// Respond begins the final response.
	Respond(res *wire.Response)
	// Switch forwards a 101; a tunnel follows it.
	Switch(res *wire.Response)
	// Drop closes the connection, or resets the stream, of a client that has
	// disconnected.
	Drop()
}

// Upstream is the side of the user container, for one exchange.
type Upstream interface {
	Source // the response's body
	Sink   // the request

	// Send begins to send req, from the client at peer; client receives the
	// response. It reports whether the first byte is written at the end of this
	// loop iteration.
	Send(req *wire.Request, peer netip.Addr, response Sink) (soon bool)
	// Receive reads the next head of the response. With HeadFailed, the outcome
	// gives the cause.
	Receive() (HeadState, gate.Outcome)
	// Response returns the last received head. It is valid until the next Receive
	// or Pump.
	Response() *wire.Response
	// Status is the status code of that head.
	Status() int
	// Sent reports whether a byte of the request has been written to the socket.
	Sent() bool
	// ResponseBegan reports whether a byte of a response has been read.
	ResponseBegan() bool
	// Reused reports whether the connection has carried a request before.
	Reused() bool
	// Unprocessed reports that the container has not processed the request, because
	// it said so or speaks another protocol.
	Unprocessed() bool
	// ProtocolMismatch reports that the container may not speak the protocol of this
	// connection, and that the other one may be tried.
	ProtocolMismatch() bool
	// StoppedReading reports that the container will not read the rest of the
	// request.
	StoppedReading() bool
	// ReadAhead reads the rest of the response into the gate's buffer memory while
	// the client takes none of it, as far as the budget allows. It reports whether
	// bytes were read, and whether the whole response has been.
	ReadAhead() (moved, whole bool)
	// Complete ends an exchange whose response has been read completely. With open,
	// the request has not been sent completely.
	Complete(open bool)
	// HangUp tells the container that the client has disconnected. Receive, or
	// Failed after the final head, reports when the container has stopped working
	// on the request.
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
	HeadFinal                     // a final response; its body may be pumped
	HeadSwitched                  // a 101: a tunnel follows
	HeadFailed                    // no head will come
)

// Connector finds connections to the container. It belongs to one loop.
type Connector interface {
	// Connect returns a side for x, which is in StateConnecting. Without one,
	// If o is not Undecided, x ends with it; otherwise Connect is called again with
	// each step of x, at the latest when next has come (0 = no bound). fresh asks
	// for a connection that has not been used.
	Connect(x *Exchange, now int64, fresh bool) (up Upstream, next int64, o gate.Outcome)
	// Cancel takes back what Connect has begun for x.
	Cancel(x *Exchange)
}

// sides are those of one exchange.
type sides struct {
	down Downstream
	up   Upstream // nil = none yet
}

// Downstream returns the side that speaks to the client.
func (s *sides) Downstream() Downstream { return s.down }

// Repeatable reports whether the request may be sent a second time, and could
// be.
func (s *sides) Repeatable() bool { return s.down.Idempotent() && s.down.Whole() }

// Room is how much of the answer the client would take now.
func (s *sides) Capacity() int { return s.down.Capacity() }

// delivered reports whether the client has had its whole answer, and has sent
// its whole request, although not all of that has gone on.
func (s *sides) delivered() bool {
	if !s.up.Ended() || !s.down.Whole() {
		return false
	}
	_, empty := s.down.Flush()
	return empty
}

// tunnelEnded reports whether a tunnel has ended. Each direction's end goes on by
// itself.
func (s *sides) tunnelEnded() bool {
	if s.down.Failed() || s.up.Failed() || s.down.Broken() || s.up.Broken() {
		return true
	}
	_, downEmpty := s.down.Flush()
	_, upEmpty := s.up.Flush()
	return s.down.Ended() && s.up.Ended() && downEmpty && upEmpty
}
