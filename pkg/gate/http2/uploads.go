package http2

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// uploads counts the streams of a connection that send DATA and so use its flow-control
// window. An upload that the container does not read can exhaust that window and block
// all other uploads of the connection (RFC 9113 section 5.2). Uploads in progress
// therefore share a connection only with request bodies of the same client connection.
// Bodies that the gate has received completely may share a connection with each other.
type uploads struct {
	client     netip.AddrPort // address of the client connection that sends all bodies; ignored if mixed is set
	bodies     uint16         // number of open streams with a body
	inProgress uint16         // number of open streams with a body that the client has not sent completely
	mixed      bool           // the open streams with a body may be from several client connections
}

// uploadState is the state of the request body of an upStream.
//
//	noBody → completeBody           the body was complete before the stream was opened
//	noBody → bodyInProgress         the body was not complete
//	bodyInProgress → completeBody   END_STREAM is written
type uploadState uint8

const (
	noBody uploadState = iota
	completeBody
	bodyInProgress
)

// admits reports whether a stream for x, which has a body, would neither block an upload
// of another client nor be blocked by one.
func (u *uploads) admits(x *exchange.Exchange) bool {
	switch {
	case u.bodies == 0, !u.mixed && u.client == x.Peer:
		return true
	}
	return u.inProgress == 0 && isFullyRead(x)
}

// isFullyRead reports whether the request body has arrived completely. A tunnel counts as
// incomplete.
func isFullyRead(x *exchange.Exchange) bool { return !x.Upgrade && x.Downstream().FullyRead() }

// add counts a stream that has a body.
func (u *uploads) add(s *upStream) {
	if u.bodies == 0 {
		u.client, u.mixed = s.x.Peer, false
	} else if u.client != s.x.Peer {
		u.mixed = true
	}
	u.bodies++
	if s.upload = completeBody; !isFullyRead(s.x) {
		s.upload = bodyInProgress
		u.inProgress++
	}
}

// end is called when the END_STREAM of the request has been written.
func (u *uploads) end(s *upStream) {
	if s.upload == bodyInProgress {
		s.upload = completeBody
		u.inProgress--
	}
}

// remove is called when s ends.
func (u *uploads) remove(s *upStream) {
	u.end(s)
	if s.upload == completeBody {
		u.bodies--
	}
}

// endRequest writes the end of the request.
func (s *upStream) endRequest(trailers []byte) {
	s.stream.Finish(trailers)
	s.conn.uploads.end(s)
}
