package exchange

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// The sides of an exchange. A side reads or writes the messages of one request at a time,
// with one peer in one protocol. No method blocks; the engine runs another step on the
// next event of the peer. All methods are called on one loop.

// Source is the side from which a body is read.
type Source interface {
	// Pump moves a bounded amount of payload to dst, and calls dst.Finish at the end. It
	// reports whether any payload was moved.
	Pump(dst Sink) (moved bool)
	// Consumed returns the number of payload bytes that dst has accepted.
	Consumed() int64
	// Ended reports whether dst has accepted the whole body including its end.
	Ended() bool
	// Failed reports whether the body was truncated.
	Failed() bool
	// Malformed reports whether the body violates the protocol.
	Malformed() bool
}

// Sink is the side to which a message is written. Heads are sent before the payload.
type Sink interface {
	// Write accepts the first bytes of p and returns their number. If that is less than
	// len(p), the sink is full, and the exchange is stepped when it has capacity again.
	Write(p []byte) int
	// Capacity estimates how many bytes Write would accept now. A source normally reads
	// at most that many bytes. If the capacity is very small or 0, the source may read a
	// few more, because they may be the end of the body.
	Capacity() int
	// Finish ends the body. The parameter trailers has field lines, each with its CRLF.
	Finish(trailers []byte)
	// Flush writes buffered bytes. The result moved reports whether any bytes were written.
	// The result empty reports whether no bytes are left.
	Flush() (moved, empty bool)
	// Broken reports whether the peer accepts no more bytes.
	Broken() bool
}

// Downstream is the side towards the client.
type Downstream interface {
	Source // the request's body
	Sink   // the response

	// Request returns the request and the client's address. Both are valid until the end
	// of the exchange.
	Request() (req *wire.Request, peer netip.Addr)
	// Disconnected reports whether the client counts as disconnected.
	Disconnected() bool
	// CheckDisconnected is like Disconnected, but also polls for events that the loop has
	// not delivered yet.
	CheckDisconnected() bool
	// Closing reports whether the loop is shutting down.
	Closing() bool
	// ExpectsContinue reports whether the client waits for a 100 before it sends
	// the body (RFC 9110 section 10.1.1).
	ExpectsContinue() bool
	// Upgrades reports whether the client offered the protocol to which res switches.
	Upgrades(res *wire.Response) bool
	// Idempotent reports whether the request method is idempotent (RFC 9110 section
	// 9.2.2).
	Idempotent() bool
	// FullyRead reports whether the entire request has been read.
	FullyRead() bool
	// Received reports whether the client has sent the entire request, even if not all of
	// it has been read.
	Received() bool
	// Rewind moves back to the first byte of the request body, so that it can be sent
	// again. It returns false if bytes that were already read are no longer in the replay
	// buffer. If complete is true, it also returns false if the replay buffer does not hold
	// the whole body.
	Rewind(complete bool) bool
	// Continue sends a 100.
	Continue()
	// Interim forwards a 1xx response.
	Interim(res *wire.Response)
	// Respond begins the final response with the head res.
	Respond(res *wire.Response)
	// Promise is like Respond, but the gate has made the head, and the container has not
	// responded yet. The request can still be sent or retried after Promise.
	Promise(res *wire.Response)
	// Switch forwards a 101 response. The exchange becomes a tunnel.
	Switch(res *wire.Response)
	// Drop closes the connection, or resets the stream, of a client that has
	// disconnected.
	Drop()
}

// Upstream is the side towards the user container, for one exchange.
type Upstream interface {
	Source // the response's body
	Sink   // the request

	// Send begins to send the request req of the client at the address peer. The response
	// will be written to the sink response. The result writesSoon reports whether the
	// first byte of the request is written at the end of this loop iteration.
	Send(req *wire.Request, peer netip.Addr, response Sink) (writesSoon bool)
	// Receive reads the next response head. If the state is HeadFailed, the outcome is
	// the cause.
	Receive() (HeadState, gate.Outcome)
	// Response returns the last head received. It is valid until the next call of Receive
	// or Pump.
	Response() *wire.Response
	// Status returns the status code of the last head.
	Status() int
	// Sent reports whether a byte of the request has been written to the socket.
	Sent() bool
	// ResponseBegan reports whether a byte of a response has been read.
	ResponseBegan() bool
	// Reused reports whether the connection has carried a request before.
	Reused() bool
	// Unprocessed reports whether the container has certainly not processed the request.
	// Either the container has said so, or it does not support the protocol of this
	// connection.
	Unprocessed() bool
	// ProtocolMismatch reports whether the container may not support the protocol of this
	// connection.
	ProtocolMismatch() bool
	// StoppedReading reports whether the container will not read the rest of the request.
	StoppedReading() bool
	// ReadAhead reads the rest of the response into buffers while the client reads
	// nothing. The result moved reports whether bytes were read. The result complete reports
	// whether the entire response has been read.
	ReadAhead() (moved, complete bool)
	// Complete ends the exchange after its response has been read. The parameter open is
	// true if the request has not been sent completely. Then an HTTP/1 connection is
	// closed, and an HTTP/2 stream is reset.
	Complete(open bool)
	// HangUp tells the container that the client has disconnected, so that the container
	// can stop. Over HTTP/2, HangUp does nothing if the whole request has been sent and
	// cancel is false. Afterwards the caller reads and discards the response. Receive,
	// Failed or Ended reports when the container has finished.
	HangUp(cancel bool)
	// Abort ends the exchange immediately.
	Abort()
}

// HeadState is the result of Receive.
type HeadState uint8

// The states of a head.
const (
	HeadAwaited  HeadState = iota // no new head has arrived
	HeadPartial                   // only part of a head has arrived
	HeadInterim                   // a 1xx response
	HeadFinal                     // a final response; its body can be read with Pump
	HeadSwitched                  // a 101 response; a tunnel follows
	HeadFailed                    // no head will arrive
)

// Connector provides connections to the container. It belongs to one loop.
type Connector interface {
	// Connect returns a connection for x, or nil. If it returns nil with the outcome
	// Undecided, x still waits for a connection, and the caller must call Connect again in
	// each step of x. The result next is a deadline for the next step; 0 = no deadline. If
	// Connect returns nil with any other outcome, x ends with that outcome. The parameter
	// isRetry is true for a retry. An HTTP/1 pool then prefers a new connection.
	Connect(x *Exchange, now int64, isRetry bool) (up Upstream, next int64, o gate.Outcome)
	// Cancel ends the attempt to connect x, if Connect has not returned a connection yet.
	Cancel(x *Exchange)
}

type sides struct {
	down Downstream
	up   Upstream // nil = not connected
}

// Downstream returns the side towards the client.
func (s *sides) Downstream() Downstream { return s.down }

// Repeatable reports whether the request is idempotent and has been read completely.
func (s *sides) Repeatable() bool { return s.down.Idempotent() && s.down.FullyRead() }

// Capacity estimates how many response bytes the client would accept now.
func (s *sides) Capacity() int { return s.down.Capacity() }

// delivered reports whether the client has received the whole response and sent the whole
// request.
func (s *sides) delivered() bool {
	if !s.up.Ended() || !s.down.FullyRead() {
		return false
	}
	_, empty := s.down.Flush()
	return empty
}

// tunnelEnded reports whether a tunnel has failed or has been closed in both directions.
func (s *sides) tunnelEnded() bool {
	if s.down.Failed() || s.up.Failed() || s.down.Broken() || s.up.Broken() {
		return true
	}
	_, downEmpty := s.down.Flush()
	_, upEmpty := s.up.Flush()
	return s.down.Ended() && s.up.Ended() && downEmpty && upEmpty
}
