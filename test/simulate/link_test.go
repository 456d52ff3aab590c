package simulate

import (
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// peer is what stands at the other end of a connection of the gate's.
type peer interface {
	connected()
	received(b []byte) // valid during the call
	ended()            // the gate's FIN, behind all that it sent
	cut()              // RST, or the connection was refused
}

type linkState uint8

const (
	waiting linkState = iota // in a backlog
	connecting
	established
	refused
)

// linkSettings are what a seed says of connections.
type linkSettings struct {
	delay   int64 // longest time that bytes take
	segment int   // most bytes that arrive at once; 0 = no bound
	receive int   // most bytes that wait for the gate to read them
	send    int   // most bytes that the gate may send ahead
	stingy  bool  // writes are short for no reason
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

	file     *file // nil: the gate has closed it, or does not have it yet
	in       []byte
	inAt     int
	end      bool // the peer's FIN is behind in
	reset    bool // RST has come
	told     bool // of the reset
	out      []byte
	outAt    int
	noRoom   bool // the gate waits for room
	shut     bool // the gate's FIN is behind out
	endSaid  bool
	deaf     bool // the gate has closed it: what comes is answered with RST
	rejected bool // the reset has been sent to the peer

	moveUp    func() // deliverUp, and
	moveDown  func() // deliverDown: made once
	up        []byte // on the way to the gate
	lent      bool   // up is the peer's
	own       []byte // else it is made of this
	upAt      int
	upEnd     bool
	upGoing   bool
	downGoing bool
	paused    bool // the peer does not read
	left      bool // the peer has closed it
	lost      bool // some of what it sent does not reach the gate
	dead      bool // nothing goes either way any more

	reachedAt   int64 // when bytes reached the gate last
	firstAt     int64 // and first
	cameAt      int64 // when bytes reached the peer last
	closedAt    int64 // when the gate closed it
	shutAt      int64 // when the gate half-closed the link; 0 = not yet
	unmoved     int64 // how long nothing had come to the peer then
	goneAt      int64 // when the peer's end or RST reached the gate
	connectedAt int64
	acceptedAt  int64
	tap         *tap
	fullAt      int64 // when the gate had more to write than there was room for
}

func (k *kernel) newLink(kind string) *link {
	k.links++
	c := k.scratch.link()
	c.kernel, c.id, c.kind, c.linkSettings = k, k.links, kind, k.settings
	c.address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(c.id >> 8), byte(c.id)}), uint16(1024+c.id%60000))
	if c.receive > 0 {
		c.receive = int(k.between(int64(c.receive/4+1), int64(c.receive)))
		c.send = int(k.between(int64(c.send/4+1), int64(c.send)))
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

// Calls of the gate, at its end of the link.

func (c *link) mask() (m uint32) {
	switch c.state {
	case connecting:
		return 0
	case refused:
		return unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	}
	if c.reset {
		m = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLHUP
		if !c.told {
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

// unread is how much waits for the gate to read it.
func (c *link) unread() int { return len(c.in) - c.inAt }

// reachedBefore reports whether everything that the peer has sent, its end included,
// reached the gate before an instant.
func (c *link) reachedBefore(at int64) bool {
	return c.reachedAt < at && c.goneAt < at && (!c.left || c.goneAt != 0)
}

// inTransit returns the number of bytes that the peer has sent and the gate has not read.
func (c *link) inTransit() int { return c.unread() + len(c.up) - c.upAt }

func (c *link) room() int { return max(0, c.send-(len(c.out)-c.outAt)) }

func (c *link) read(b []byte) (int, syscall.Errno) {
	switch {
	case c.state == refused:
		if c.told {
			return 0, 0
		}
		c.told = true
		return 0, unix.ECONNREFUSED
	case c.unread() > 0:
		n := copy(b, c.in[c.inAt:])
		if c.inAt += n; c.inAt == len(c.in) {
			c.in, c.inAt = c.in[:0], 0
		}
		c.goUp()
		return n, 0
	case c.end: // Linux remembers a FIN that came before RST
		return 0, 0
	case c.reset && !c.told:
		c.told = true
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
	case c.reset && !c.told:
		return 0, unix.ECONNRESET
	case c.reset:
		return 0, 0
	}
	return 0, unix.EAGAIN
}

func (c *link) write(b []byte) (int, syscall.Errno) {
	switch {
	case c.reset && !c.told && !c.end:
		c.told = true
		return 0, unix.ECONNRESET
	case c.reset || c.shut || c.state == refused:
		return 0, unix.EPIPE
	case c.state == connecting:
		c.noRoom = true
		return 0, unix.EAGAIN
	}
	n := min(len(b), c.room())
	if c.stingy && n > 1 && c.rng.IntN(4) == 0 {
		n = 1 + c.rng.IntN(n)
	}
	if n < len(b) {
		c.noRoom, c.fullAt = true, c.now
	}
	if n == 0 {
		return 0, unix.EAGAIN
	}
	if c.kind == "up" {
		c.sentUp(c, b[:n])
	}
	if c.left {
		c.inVain(b[:n])
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
		c.news(c.file)
	}
	c.goDown()
}

// closeByGate is close(2). With unread data, or told so, it sends RST, which
// overtakes nothing that has arrived and all that has not.
func (c *link) closeByGate(hard bool) {
	c.file = nil
	c.closedAt, c.unmoved = c.now, c.now-max(c.cameAt, c.connectedAt)
	if c.state != established || c.reset {
		c.deaf = true
		if c.state == connecting {
			c.state = refused
			c.reject()
		}
		return
	}
	c.deaf = true
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
	if c.rejected || c.left {
		c.dead = true
		return
	}
	c.rejected = true
	c.after(c.lag(), func() {
		c.dead = true
		if c.left { // the peer has closed the link, and may already use its next connection
			return
		}
		c.note("peer   %s is reset", c)
		c.mix(10, uint64(c.id))
		c.peer.cut()
	})
}

// refusedByGate ends a connection that no one has accepted.
func (c *link) refusedByGate() {
	c.deaf = true
	c.state = established
	c.reject()
}

// The peer's end.

// sendUp hands bytes to the peer's kernel, which do not change any more.
func (c *link) sendUp(b []byte) {
	if c.left || c.dead || c.upEnd {
		return
	}
	switch {
	case c.upAt == len(c.up):
		c.up, c.upAt, c.lent = b, 0, true // most go out before more follow
	case c.lent:
		c.up, c.upAt, c.lent = append(c.own[:0], c.up[c.upAt:]...), 0, false
		fallthrough
	default:
		c.up = append(c.up, b...)
		c.own = c.up
	}
	c.goUp()
}

// finish is a half-close by the peer.
func (c *link) finish() {
	if !c.upEnd && !c.left && !c.dead {
		c.upEnd = true
		c.note("peer   %s half-closes", c)
		c.goUp()
	}
}

// leave is close(2) by the peer: what the gate still sends is answered with RST.
func (c *link) leave() {
	if c.left || c.dead {
		return
	}
	c.note("peer   %s closes", c)
	c.upEnd, c.left = true, true
	c.goUp()
	if lost := c.out[c.outAt:]; len(lost) > 0 {
		c.inVain(lost)
		c.out, c.outAt = c.out[:0], 0
	}
	c.goDown()
}

// inVain is what becomes of bytes for a peer that has closed the connection.
func (c *link) inVain(lost []byte) {
	c.missed(lost)
	c.after(c.lag(), func() {
		if !c.dead {
			c.arriveAll()
			c.hit()
		}
	})
}

// abort is close(2) by the peer with RST.
func (c *link) abort() {
	if c.left || c.dead {
		return
	}
	c.note("peer   %s resets", c)
	c.left = true
	if c.chance(0.5) {
		c.lost = !c.upReached()
		c.up, c.upAt = nil, 0
	}
	if lost := c.out[c.outAt:]; len(lost) > 0 {
		c.missed(lost)
		c.out, c.outAt = c.out[:0], 0
	}
	c.after(c.lag(), c.hit)
}

// hit delivers RST to the gate.
func (c *link) hit() {
	if c.reset || c.state == refused {
		return
	}
	c.dead = true
	c.mix(11, uint64(c.id))
	if c.file == nil && c.state == established {
		c.deaf = true
	}
	c.reset, c.goneAt = true, c.now
	c.out, c.outAt = c.out[:0], 0
	c.news(c.file)
}

// missed tells the peer what has not reached it.
func (c *link) missed(lost []byte) {
	if p, ok := c.peer.(interface{ missed(b []byte) }); ok {
		p.missed(lost)
	}
}

// pause stops the peer from reading; resume goes on.
func (c *link) pause() { c.paused = true }

func (c *link) resume() {
	if c.paused {
		c.paused = false
		c.goDown()
	}
}

// upReached reports that all that the peer has sent has reached the gate.
func (c *link) upReached() bool { return c.upAt == len(c.up) && !c.lost }

// taken reports that the gate has read all that the peer has sent.
func (c *link) taken() bool { return c.upReached() && c.unread() == 0 }

// downReached reports that all that the gate has sent has reached the peer.
func (c *link) downReached() bool { return c.outAt == len(c.out) }

// takes reports that bytes of the gate's are on the way to the peer, or have
// come within that time.
func (c *link) takes(within int64) bool { return !c.downReached() || c.now-c.cameAt <= within }

func (c *link) goUp() {
	if c.upGoing || c.dead || c.state == refused {
		return
	}
	if c.upAt == len(c.up) && (!c.upEnd || c.end) || c.unread() >= c.receive && c.upAt < len(c.up) {
		return
	}
	c.upGoing = true
	c.after(c.lag(), c.moveUp)
}

func (c *link) deliverUp() {
	c.upGoing = false
	if c.dead {
		return
	}
	rest := len(c.up) - c.upAt
	if c.deaf {
		if rest > 0 {
			c.up, c.upAt = nil, 0
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
		c.news(c.file)
	}
	if c.upAt == len(c.up) && c.upEnd && !c.end && (rest == 0 || c.delay == 0 || c.rng.IntN(2) == 0) {
		c.end, c.goneAt = true, c.now
		c.mix(13, uint64(c.id))
		c.news(c.file)
	}
	c.goUp()
}

// arrived moves n bytes to where the gate reads them.
func (c *link) arrived(n int) {
	if c.inAt > 0 && len(c.in)+n > cap(c.in) {
		c.in, c.inAt = c.in[:copy(c.in, c.in[c.inAt:])], 0
	}
	c.in = append(c.in, c.up[c.upAt:c.upAt+n]...)
	c.upAt += n
}

// arriveAll delivers what is on the way to the gate, as far as it has room: RST
// does not overtake it.
func (c *link) arriveAll() {
	if c.deaf {
		return
	}
	n := max(0, min(len(c.up)-c.upAt, c.receive-c.unread()))
	if c.arrived(n); c.upAt == len(c.up) && c.upEnd {
		c.end = true
	}
}

func (c *link) goDown() {
	if c.downGoing || c.dead || c.rejected || c.state == connecting {
		return
	}
	if c.paused && !c.left || c.outAt == len(c.out) && (!c.shut || c.endSaid) {
		return
	}
	c.downGoing = true
	c.after(c.lag(), c.moveDown)
}

func (c *link) deliverDown() {
	c.downGoing = false
	if c.dead || c.rejected || c.paused && !c.left {
		return
	}
	if c.outAt < len(c.out) {
		n := c.segmentOf(len(c.out) - c.outAt)
		part := c.out[c.outAt : c.outAt+n]
		c.outAt += n
		c.cameAt = c.now
		c.mix(14, uint64(c.id), uint64(n))
		c.peer.received(part)
		if c.noRoom && !c.dead && !c.rejected && c.room()*3 >= c.send {
			c.noRoom = false
			c.news(c.file)
		}
	}
	if c.outAt == len(c.out) && c.shut && !c.endSaid && !c.rejected && !c.dead {
		c.endSaid = true
		c.mix(15, uint64(c.id))
		if !c.left {
			c.peer.ended()
		}
	}
	c.goDown()
}

// abandonable reports whether the gate has closed the connection when its peer had
// taken nothing for so long that a shutdown does not wait for it any more.
func (c *link) abandonable() bool { return c.closedAt > 0 && c.unmoved >= 1500*millisecond-c.held }
