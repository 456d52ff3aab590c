package http2

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Request trailers are sent in a HEADERS frame. If the container has closed the stream
// before the frame arrives, many servers (for example Go's net/http) treat the frame as a
// connection error (RFC 9113 section 5.1.1), which ends all streams of the connection. The
// gate therefore sends trailers only while no other stream is open on the connection.
// After the trailers it sends a PING, and opens no stream on the connection until the
// container has acknowledged that PING.
//
//   - A request that announces trailers gets a connection without other streams. If
//     maxExclusive connections are in use for this, further requests share connections.
//   - If a client sends trailers that it has not announced, other requests may have such
//     trailers too. For the duration trailersRecent, every request whose body has no
//     length therefore gets a connection without other streams. Only gRPC calls do not,
//     because they have no request trailers.
//   - Trailers on a shared connection wait for the other streams to end, at most for the
//     duration trailersWait. After that they are discarded, which RFC 9110 section 6.5.1
//     allows, and an empty DATA frame ends the request.
//   - If the response is complete before the trailers are sent, they are discarded.

// sharing tells whether other streams may be opened on a connection.
type sharing uint8

const (
	shared sharing = iota
	exclusive
	trailersWaiting
	trailersSent
)

// trailersPing is the payload of the PING that follows trailers.
var trailersPing = [8]byte{'t', 'r', 'a', 'i', 'l', 'e', 'r', 's'}

// needsExclusive reports whether x needs a connection without other streams.
func (p *Pool) needsExclusive(x *exchange.Exchange) bool {
	req, _ := x.Downstream().Request()
	if req.Body == wire.NoBody {
		return false
	}
	return req.AnnouncesTrailers() || p.trailersUntil > p.eng.loop.Now() && req.MayHaveTrailers()
}

// chooseExclusive is like choose, but for a request that needs a connection without other
// streams. It returns such a connection if there is one. Otherwise it asks for a new
// connection by preferNew, if fewer than maxExclusive connections are being opened or not
// available for sharing. At this limit, x shares a connection on which uploads cannot
// block each other. If there is none, but a connection is being opened, wait is true.
func (p *Pool) chooseExclusive(x *exchange.Exchange) (c *upConn, preferNew, wait bool) {
	n := p.dialer.Connecting()
	var fewest *upConn // the exclusive connection with the fewest streams
	for _, o := range p.conns {
		if o.acceptsStreams() && len(o.table.open) == 0 {
			return o, false, false
		}
		if o.sharing == shared {
			continue
		}
		n++
		if o.sharing == exclusive && o.hasStreamSlot() && !o.mayBlock(x) && (fewest == nil || len(o.table.open) < len(fewest.table.open)) {
			fewest = o
		}
	}
	c, _ = p.choose(x)
	switch {
	case n < maxExclusive:
		return c, true, false
	case c != nil && !c.mayBlock(x):
		return c, false, false
	case fewest != nil:
		return fewest, false, false
	case p.dialer.Connecting() > 0:
		return nil, false, true
	}
	return c, true, false
}

// Finish implements exchange.Sink. It does nothing if a tunnel has been requested and is
// not open yet, because END_STREAM would end the tunnel's direction to the container.
func (s *upStream) Finish(trailers []byte) {
	switch {
	case s.tunnel == tunnelRequested || s.tunnel == tunnelOpened:
	case len(trailers) == 0 || s.sendState == sendEnded:
		s.endRequest(nil)
	default:
		s.pendingTrailers = trailers
		trySendTrailers(s)
	}
}

// Flush implements exchange.Sink. Pending trailers count as unsent bytes.
func (s *upStream) Flush() (moved, empty bool) {
	if s.pendingTrailers != nil && !trySendTrailers(s) {
		return false, false
	}
	return s.stream.Flush()
}

// trySendTrailers ends the request with its trailers, or without them if they can no
// longer be sent. It returns false if the trailers must still wait.
func trySendTrailers(s *upStream) bool {
	c := s.conn
	now := c.eng.loop.Now()
	switch {
	case s.endReceived() || s.Broken():
		s.pendingTrailers, s.trailersDeadline = nil, 0
		s.endRequest(nil)
		return true
	case !c.proven: // the container's limit for header lists is not known yet
		return false
	case !wire.TrailersFit(s.pendingTrailers, int(c.settings.MaxHeaderList)):
		s.pendingTrailers, s.trailersDeadline = nil, 0
		if s.msg.ExpectsHead() {
			s.sendReset(h2.Cancel)
			s.fail(gate.HeadTooLarge)
		} else {
			s.endRequest(nil) // the response has begun, so the gate can no longer reply with 431
		}
		return true
	case len(c.table.open) > 1:
		if s.trailersDeadline == 0 {
			s.trailersDeadline = now + trailersWait
			c.pool.trailersUntil = now + trailersRecent
			c.setSharing(trailersWaiting, gate.Earliest(c.sharingDeadline, s.trailersDeadline))
		}
		return false
	}
	if c.sharing == shared {
		c.pool.trailersUntil = now + trailersRecent
	}
	s.endRequest(s.pendingTrailers)
	s.pendingTrailers, s.trailersDeadline = nil, 0
	c.queue(h2.AppendPing(c.outBuffer(), false, trailersPing))
	c.setSharing(trailersSent, now+livenessTimeout)
	return true
}

func wakePendingTrailers(c *upConn) {
	for _, s := range c.table.open {
		if s.pendingTrailers != nil {
			s.x.Wake()
		}
	}
}

// setSharing sets the sharing state and the time at which it ends; 0 = no bound.
func (c *upConn) setSharing(to sharing, deadline int64) {
	c.sharing, c.sharingDeadline = to, deadline
	if deadline != 0 {
		c.handle.Wake()
	}
	if to == shared {
		c.pool.streamQueue.WakeAll()
		c.pool.dialer.WakeFirst()
	}
}

// endSharing is called when a stream ends. It allows other streams on the connection
// again, except in two cases. If a stream has pending trailers, no stream may be opened.
// If that stream is the only open one, endSharing wakes its exchange, which can now send
// the trailers. If trailers were sent, no stream may be opened before the container has
// acknowledged the PING that follows the trailers.
func (c *upConn) endSharing() {
	switch c.sharing {
	case exclusive:
		c.setSharing(shared, 0)
	case trailersWaiting:
		for _, s := range c.table.open {
			if s.pendingTrailers != nil {
				if len(c.table.open) == 1 {
					s.x.Wake()
				}
				return
			}
		}
		c.setSharing(shared, 0)
	}
}

// expireSharing is called when sharingDeadline has passed. It discards pending trailers
// whose deadline has passed. If the PING after trailers was not acknowledged, no more
// streams are opened on the connection.
func expireSharing(c *upConn) {
	if c.sharing == trailersSent {
		c.sharingDeadline, c.draining = 0, true
		c.streamEnded()
		return
	}
	now, next := c.eng.loop.Now(), int64(0)
	for _, s := range c.table.open {
		switch {
		case s.trailersDeadline == 0:
		case now < s.trailersDeadline:
			next = gate.Earliest(next, s.trailersDeadline)
		default:
			s.pendingTrailers, s.trailersDeadline = nil, 0
			s.endRequest(nil)
			s.x.Wake()
		}
	}
	if next != 0 {
		c.setSharing(trailersWaiting, next)
		return
	}
	c.setSharing(shared, 0)
}
