package simulate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// peer is the other end of a connection of the gate.
type peer interface {
	connected()
	received(b []byte) // the peer must not keep b
	peerClosed()       // the gate's FIN, after all bytes
	cut()              // RST, or a refused connection
}

type linkState uint8

const (
	waiting linkState = iota // in the backlog of a listener
	connecting
	established
	connRefused
)

// linkSettings are the properties of links.
type linkSettings struct {
	delay   int64 // maximum delay of the network
	segment int   // maximum number of bytes delivered at once; 0 = unlimited
	receive int   // gate's receive buffer
	send    int   // gate's send buffer
	stingy  bool  // some writes are short
}

// link is a TCP connection between the gate and a peer.
type link struct {
	*kernel
	id      int
	kind    string
	peer    peer
	address netip.AddrPort
	state   linkState
	linkSettings

	file          *file // nil before the accept and after the gate's close
	toRead        []byte
	inAt          int
	end           bool // the peer's FIN has arrived; it follows the bytes of in
	reset         bool // the peer's RST has arrived
	resetReported bool // the gate has got ECONNRESET
	out           []byte
	outAt         int
	noRoom        bool // the gate waits for space in the send buffer
	shut          bool // the gate's FIN follows the bytes of out
	finReported   bool
	closedByGate  bool // further bytes from the peer cause RST
	rejected      bool // RST was sent to the peer

	moveUp       func() // deliverUp as a value, allocated once
	moveDown     func() // deliverDown as a value, allocated once
	toGate       []byte // bytes in transit to the gate
	lent         bool   // the peer owns up
	ownBuffer    []byte // buffer for up if the peer does not own up
	upAt         int
	upEnd        bool
	upGoing      bool
	downGoing    bool
	paused       bool // the peer does not read
	closedByPeer bool
	lost         bool // some bytes of the peer never reach the gate
	closed       bool // nothing is delivered any more

	reachedAt   int64 // last time at which bytes reached the gate
	firstAt     int64 // first time at which bytes reached the gate
	cameAt      int64 // last time at which bytes reached the peer
	closedAt    int64 // time of the gate's close
	shutAt      int64 // time of the gate's half-close; 0 = none
	peerIdleFor int64 // time without bytes for the peer before the gate's close
	peerEndedAt int64 // time at which the peer's FIN or RST reached the gate
	connectedAt int64
	acceptedAt  int64
	tap         *tap
	fullAt      int64 // last time at which the gate filled the send buffer

	// Positions: the number of bytes so far.
	sent      int       // bytes that the peer has sent
	arrivals  int       // bytes of the peer that have reached the gate
	wrote     int       // bytes that the gate has written
	delivered int       // bytes of the gate that have reached the peer
	log       []written // writes of the gate, if kernel.logging is set
}

// written is a write of the gate.
type written struct {
	time    int64
	end     int   // position of the end
	arrived int   // bytes of the peer that had reached the gate
	fullAt  int64 // value of link.fullAt just before this write
}

// writeOf returns the write of the byte before a position.
func (c *link) writeOf(position int) written {
	i, _ := slices.BinarySearchFunc(c.log, position, func(w written, at int) int { return cmp.Compare(w.end, at) })
	if i == len(c.log) {
		return written{}
	}
	return c.log[i]
}

// lastWrite returns the write of the last byte that has reached the peer.
func (c *link) lastWrite() written { return c.writeOf(c.delivered) }

func (k *kernel) newLink(kind string) *link {
	k.links++
	c := k.scratch.link()
	c.kernel, c.id, c.kind, c.linkSettings = k, k.links, kind, k.settings
	c.address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(c.id >> 8), byte(c.id)}), uint16(1024+c.id%60000))
	if c.receive > 0 {
		c.receive = int(k.randomIn(int64(c.receive/4+1), int64(c.receive)))
		c.send = int(k.randomIn(int64(c.send/4+1), int64(c.send)))
	}
	return c
}

func (c *link) String() string { return fmt.Sprintf("%s#%d", c.kind, c.id) }

func (c *link) lag() int64 {
	if c.delay == 0 {
		return 0
	}
	return c.rng.Int64N(c.delay) / (10 * microsecond) * (10 * microsecond)
}

func (c *link) segmentOf(n int) int {
	if c.segment > 0 && n > c.segment {
		n = c.segment
	}
	if c.segment > 0 && n > 1 {
		n = 1 + c.rng.IntN(n)
	}
	return n
}

// The gate's system calls.

func (c *link) mask() (m uint32) {
	switch c.state {
	case connecting:
		return 0
	case connRefused:
		return unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	}
	if c.reset {
		m = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLHUP
		if !c.resetReported {
			m |= unix.EPOLLERR
		}
		return m
	}
	if c.unread() > 0 || c.end {
		m |= unix.EPOLLIN
	}
	if c.end {
		m |= unix.EPOLLRDHUP
		if c.shut {
			m |= unix.EPOLLHUP
		}
	}
	if c.room()*3 >= c.send || c.shut {
		m |= unix.EPOLLOUT
	}
	return m
}

// unread returns the number of bytes in the gate's receive buffer.
func (c *link) unread() int { return len(c.toRead) - c.inAt }

// reachedBefore reports whether all bytes of the peer, and its FIN or RST, had reached
// the gate at that time.
func (c *link) reachedBefore(at int64) bool {
	return c.reachedAt < at && c.peerEndedAt < at && (!c.closedByPeer || c.peerEndedAt != 0)
}

// inTransit returns the number of bytes that the peer has sent and the gate has not read.
func (c *link) inTransit() int { return c.unread() + len(c.toGate) - c.upAt }

func (c *link) room() int { return max(0, c.send-(len(c.out)-c.outAt)) }

func (c *link) read(b []byte) (int, syscall.Errno) {
	switch {
	case c.state == connRefused:
		if c.resetReported {
			return 0, 0
		}
		c.resetReported = true
		return 0, unix.ECONNREFUSED
	case c.unread() > 0:
		n := copy(b, c.toRead[c.inAt:])
		if c.inAt += n; c.inAt == len(c.toRead) {
			c.toRead, c.inAt = c.toRead[:0], 0
		}
		c.goUp()
		return n, 0
	case c.end: // Linux reports a FIN that arrived before the RST
		return 0, 0
	case c.reset && !c.resetReported:
		c.resetReported = true
		return 0, unix.ECONNRESET
	case c.reset:
		return 0, 0
	}
	return 0, unix.EAGAIN
}

func (c *link) peek() (int, syscall.Errno) {
	switch {
	case c.unread() > 0:
		return 1, 0
	case c.end:
		return 0, 0
	case c.reset && !c.resetReported:
		return 0, unix.ECONNRESET
	case c.reset:
		return 0, 0
	}
	return 0, unix.EAGAIN
}

func (c *link) write(b []byte) (int, syscall.Errno) {
	switch {
	case c.reset && !c.resetReported && !c.end:
		c.resetReported = true
		return 0, unix.ECONNRESET
	case c.reset || c.shut || c.state == connRefused:
		return 0, unix.EPIPE
	case c.state == connecting:
		c.noRoom = true
		return 0, unix.EAGAIN
	}
	n, before := min(len(b), c.room()), c.fullAt
	if c.stingy && n > 1 && c.rng.IntN(4) == 0 {
		n = 1 + c.rng.IntN(n)
	}
	if n < len(b) {
		c.noRoom, c.fullAt = true, c.now
	}
	if n == 0 {
		return 0, unix.EAGAIN
	}
	if c.wrote += n; c.kind == "up" {
		c.sentUp(c, b[:n])
	} else if c.logging {
		c.log = append(c.log, written{c.now, c.wrote, c.arrivals, before})
	}
	if c.closedByPeer {
		c.discard(b[:n])
		return n, 0
	}
	if c.outAt > 0 && c.outAt == len(c.out) {
		c.out, c.outAt = c.out[:0], 0
	}
	if c.outAt > 0 && len(c.out)+n > cap(c.out) {
		c.out, c.outAt = c.out[:copy(c.out, c.out[c.outAt:])], 0
	}
	c.out = append(c.out, b[:n]...)
	c.goDown()
	return n, 0
}

func (c *link) shutdownWrite() {
	if c.reset || c.state != established {
		return
	}
	c.shut, c.shutAt = true, c.now
	if c.end && c.file != nil {
		c.readinessChanged(c.file)
	}
	c.goDown()
}

// closeByGate is the gate's close(2). With unread data, or if hard is set, it sends RST,
// which discards bytes in transit.
func (c *link) closeByGate(hard bool) {
	c.file = nil
	c.closedAt, c.peerIdleFor = c.now, c.now-max(c.cameAt, c.connectedAt)
	if c.state != established || c.reset {
		c.closedByGate = true
		if c.state == connecting {
			c.state = connRefused
			c.reject()
		}
		return
	}
	c.closedByGate = true
	if hard || c.unread() > 0 {
		c.note("gate   %s closed with RST", c)
		c.reject()
		return
	}
	c.note("gate   %s closed", c)
	c.shut = true
	c.goDown()
}

// reject sends RST to the peer.
func (c *link) reject() {
	c.out, c.outAt = c.out[:0], 0
	if c.rejected || c.closedByPeer {
		c.closed = true
		return
	}
	c.rejected = true
	c.schedule(c.lag(), func() {
		c.closed = true
		if c.closedByPeer { // the peer may already use a new link
			return
		}
		c.note("peer   %s is reset", c)
		c.mix(10, uint64(c.id))
		c.peer.cut()
	})
}

// rejectedByGate resets a connection before the accept.
func (c *link) rejectedByGate() {
	c.closedByGate = true
	c.state = established
	c.reject()
}

// The peer's system calls.

// sendUp sends b to the gate. b must not change afterwards.
func (c *link) sendUp(b []byte) {
	if c.closedByPeer || c.closed || c.upEnd {
		return
	}
	c.sent += len(b)
	switch {
	case c.upAt == len(c.toGate):
		c.toGate, c.upAt, c.lent = b, 0, true // usually all of up is delivered before the next write, so b is not copied
	case c.lent:
		c.toGate, c.upAt, c.lent = append(c.ownBuffer[:0], c.toGate[c.upAt:]...), 0, false
		fallthrough
	default:
		c.toGate = append(c.toGate, b...)
		c.ownBuffer = c.toGate
	}
	c.goUp()
}

// halfClose is the peer's shutdown(2).
func (c *link) halfClose() {
	if !c.upEnd && !c.closedByPeer && !c.closed {
		c.upEnd = true
		c.note("peer   %s half-closes", c)
		c.goUp()
	}
}

// closeByPeer is the peer's close(2). Further bytes from the gate cause RST.
func (c *link) closeByPeer() {
	if c.closedByPeer || c.closed {
		return
	}
	c.note("peer   %s closes", c)
	c.upEnd, c.closedByPeer = true, true
	c.goUp()
	if lost := c.out[c.outAt:]; len(lost) > 0 {
		c.discard(lost)
		c.out, c.outAt = c.out[:0], 0
	}
	c.goDown()
}

// discard handles bytes that arrive after the peer's close.
func (c *link) discard(lost []byte) {
	c.missed(lost)
	c.schedule(c.lag(), func() {
		if !c.closed {
			c.arriveAll()
			c.deliverReset()
		}
	})
}

// abort is the peer's close(2) with RST.
func (c *link) abort() {
	if c.closedByPeer || c.closed {
		return
	}
	c.note("peer   %s resets", c)
	c.closedByPeer = true
	if c.chance(0.5) {
		c.lost = !c.upReached()
		c.toGate, c.upAt = nil, 0
	}
	if lost := c.out[c.outAt:]; len(lost) > 0 {
		c.missed(lost)
		c.out, c.outAt = c.out[:0], 0
	}
	c.schedule(c.lag(), c.deliverReset)
}

func (c *link) deliverReset() {
	if c.reset || c.state == connRefused {
		return
	}
	c.closed = true
	c.mix(11, uint64(c.id))
	if c.file == nil && c.state == established {
		c.closedByGate = true
	}
	c.reset, c.peerEndedAt = true, c.now
	c.out, c.outAt = c.out[:0], 0
	c.readinessChanged(c.file)
}

// missed reports lost bytes to the peer.
func (c *link) missed(lost []byte) {
	if p, ok := c.peer.(interface{ missed(b []byte) }); ok {
		p.missed(lost)
	}
}

// pause stops reading by the peer until resume.
func (c *link) pause() { c.paused = true }

func (c *link) resume() {
	if c.paused {
		c.paused = false
		c.goDown()
	}
}

// upReached reports whether all bytes of the peer have reached the gate.
func (c *link) upReached() bool { return c.upAt == len(c.toGate) && !c.lost }

// isAllRead reports whether the gate has read all bytes of the peer.
func (c *link) isAllRead() bool { return c.upReached() && c.unread() == 0 }

// downReached reports whether all bytes of the gate have reached the peer.
func (c *link) downReached() bool { return c.outAt == len(c.out) }

// receives reports whether bytes are in transit to the peer, or reached it within this
// time.
func (c *link) receives(within int64) bool { return !c.downReached() || c.now-c.cameAt <= within }

func (c *link) goUp() {
	if c.upGoing || c.closed || c.state == connRefused {
		return
	}
	if c.upAt == len(c.toGate) && (!c.upEnd || c.end) || c.unread() >= c.receive && c.upAt < len(c.toGate) {
		return
	}
	c.upGoing = true
	c.schedule(c.lag(), c.moveUp)
}

func (c *link) deliverUp() {
	c.upGoing = false
	if c.closed {
		return
	}
	rest := len(c.toGate) - c.upAt
	if c.closedByGate {
		if rest > 0 {
			c.toGate, c.upAt = nil, 0
			c.reject()
		}
		return
	}
	if n := min(rest, c.receive-c.unread()); n > 0 {
		n = c.segmentOf(n)
		c.arrived(n)
		if c.reachedAt = c.now; c.firstAt == 0 {
			c.firstAt = c.now
		}
		c.mix(12, uint64(c.id), uint64(n))
		c.readinessChanged(c.file)
	}
	if c.upAt == len(c.toGate) && c.upEnd && !c.end && (rest == 0 || c.delay == 0 || c.rng.IntN(2) == 0) {
		c.end, c.peerEndedAt = true, c.now
		c.mix(13, uint64(c.id))
		c.readinessChanged(c.file)
	}
	c.goUp()
}

// arrived moves n bytes to the gate's receive buffer.
func (c *link) arrived(n int) {
	if c.inAt > 0 && len(c.toRead)+n > cap(c.toRead) {
		c.toRead, c.inAt = c.toRead[:copy(c.toRead, c.toRead[c.inAt:])], 0
	}
	c.toRead = append(c.toRead, c.toGate[c.upAt:c.upAt+n]...)
	c.upAt += n
	c.arrivals += n
}

// arriveAll delivers bytes before an RST of the peer, as far as they fit into the receive
// buffer.
func (c *link) arriveAll() {
	if c.closedByGate {
		return
	}
	n := max(0, min(len(c.toGate)-c.upAt, c.receive-c.unread()))
	if c.arrived(n); c.upAt == len(c.toGate) && c.upEnd {
		c.end = true
	}
}

func (c *link) goDown() {
	if c.downGoing || c.closed || c.rejected || c.state == connecting {
		return
	}
	if c.paused && !c.closedByPeer || c.outAt == len(c.out) && (!c.shut || c.finReported) {
		return
	}
	c.downGoing = true
	c.schedule(c.lag(), c.moveDown)
}

func (c *link) deliverDown() {
	c.downGoing = false
	if c.closed || c.rejected || c.paused && !c.closedByPeer {
		return
	}
	if c.outAt < len(c.out) {
		n := c.segmentOf(len(c.out) - c.outAt)
		part := c.out[c.outAt : c.outAt+n]
		c.outAt += n
		c.cameAt = c.now
		c.delivered += n
		c.mix(14, uint64(c.id), uint64(n))
		c.peer.received(part)
		if c.noRoom && !c.closed && !c.rejected && c.room()*3 >= c.send {
			c.noRoom = false
			c.readinessChanged(c.file)
		}
	}
	if c.outAt == len(c.out) && c.shut && !c.finReported && !c.rejected && !c.closed {
		c.finReported = true
		c.mix(15, uint64(c.id))
		if !c.closedByPeer {
			c.peer.peerClosed()
		}
	}
	c.goDown()
}

// abandonable reports whether the peer had read nothing for so long that a shutdown may
// stop waiting for it.
func (c *link) abandonable() bool {
	return c.closedAt > 0 && c.peerIdleFor >= 1500*millisecond-c.maxDelay
}
