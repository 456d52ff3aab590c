package loop

import (
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Codec is a protocol between a Sock's user and its wire: TLS. A *tls.Conn is
// one. It works on the Layer that it was made with, and takes an error whose
// Temporary is true, as that of ErrAgain, for one that passes.
type Codec interface {
	Read(b []byte) (int, error)
	Write(b []byte) (int, error)
	// CloseWrite writes what tells the peer that nothing more will come.
	CloseWrite() error
}

const (
	// maxEncode is the most that one write encodes before it is sent.
	maxEncode = 32 << 10
	// maxPending bounds what a layer keeps because the kernel has no room: a
	// round, its framing, and answers of the codec's own to a peer that asks
	// and never reads.
	maxPending = 64 << 10
	// layerBytes is about what a layer with its codec has, the buffers of a
	// *tls.Conn first of all.
	layerBytes = 16 << 10
)

var errPeerNotReading = errors.New("the peer asks for more than it reads")

// Layer lies between a Sock and its user. It is the net.Conn of its codec; the
// user keeps to the methods of the Sock. The zero value is ready for Shake.
type Layer struct {
	noConn

	codec     Codec
	sock      *Sock
	handshake *handshake // under way; nil = none

	pending    []byte // encoded, and not taken by the kernel yet
	unreported int    // bytes of the user that stand in pending and count as not written yet

	canRead, canWrite bool // what the socket itself may do
	corked            bool // writes collect in the loop's buffer
	truncated         bool // the wire has ended without the codec's own end
	finPending        bool // FIN follows pending
	hasNext           bool // one has been decoded already
	next              [1]byte
}

// Wrap puts l, whose handshake is over, between s, just registered, and its
// user.
func (s *Sock) Wrap(l *Layer) {
	l.sock, s.layer = s, l
	l.canRead, l.canWrite, s.readable = true, s.writable, true
	l.readAhead() // the codec may hold bytes that have been read already
}

// Layered reports whether something lies between s and the wire.
func (s *Sock) Layered() bool { return s.layer != nil }

// HasUnreported reports that some of the bytes that did not count as written may have
// gone out all the same, encoded. Without a layer none have.
func (s *Sock) HasUnreported() bool { return s.layer != nil && s.layer.unreported > 0 }

// Read is for the codec: bytes of the wire.
func (l *Layer) Read(b []byte) (int, error) {
	if l.handshake != nil {
		return l.handshake.read(b)
	}
	s := l.sock
	if !s.open {
		return 0, net.ErrClosed
	}
	if !l.canRead {
		return 0, ErrAgain
	}
	n, e := s.sysRead(b)
	switch {
	case e == unix.EAGAIN:
		l.canRead = false
		return 0, ErrAgain
	case e != 0:
		s.failed = true
		return 0, e
	case n == 0:
		l.truncated = true
		return 0, io.EOF
	}
	if n < len(b) && !s.hangup && !s.failed {
		l.canRead = false
	}
	return n, nil
}

// Write is for the codec: it takes everything.
func (l *Layer) Write(b []byte) (int, error) {
	if l.handshake != nil {
		return l.handshake.write(b)
	}
	if l.corked {
		l.sock.loop.cork = append(l.sock.loop.cork, b...)
		return len(b), nil
	}
	if err := l.send(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// send gives b to the kernel, behind what is pending, and keeps the rest.
func (l *Layer) send(b []byte) error {
	s := l.sock
	if !s.open {
		return net.ErrClosed
	}
	if len(l.pending) == 0 && l.canWrite {
		n, e := s.sysSend(b)
		if e != 0 && e != unix.EAGAIN {
			return l.noteWriteError(e)
		}
		if b = b[n:]; len(b) > 0 {
			l.canWrite = false
		}
	}
	if len(b) == 0 {
		return nil
	}
	if len(l.pending)+len(b) > maxPending {
		return l.noteWriteError(errPeerNotReading)
	}
	l.pending = append(l.pending, b...)
	s.writable = false
	return nil
}

// noteWriteError notes that nothing more can be written.
func (l *Layer) noteWriteError(err error) error {
	l.pending = nil
	l.sock.failed, l.sock.readable = true, true
	return err
}

// note takes what the socket's events say of it.
func (l *Layer) note(readable, writable bool) {
	if l.handshake != nil {
		l.handshake.noteEvent()
		return
	}
	if writable {
		l.canWrite = true
		l.drain()
	}
	l.canRead = l.canRead || readable
	if l.canRead || l.sock.readable {
		l.readAhead() // the handler of the event asks Readable
	}
}

// drain writes what is pending.
func (l *Layer) drain() {
	s := l.sock
	if len(l.pending) > 0 {
		n, e := s.sysSend(l.pending)
		if e != 0 && e != unix.EAGAIN {
			_ = l.noteWriteError(e)
			return
		}
		if l.pending = l.pending[n:]; len(l.pending) > 0 {
			l.canWrite = false
			return
		}
		l.pending = nil
		if l.finPending {
			s.shutdown()
		}
	}
	s.writable = true
}

// readAhead decodes one byte ahead, so that Readable is true of what the user can
// read and not of bytes on the wire or of the last read, and so that the
// codec's end is noticed although the user does not read.
func (l *Layer) readAhead() {
	if l.hasNext {
		return
	}
	n, err := l.codec.Read(l.next[:])
	l.hasNext = n > 0
	l.sock.readable = l.hasNext || err != ErrAgain
	if err != nil {
		_ = l.noteError(err)
	}
}

// noteError notes what an error of the codec's Read means and returns what the
// user gets. The codec repeats errors other than ErrAgain.
func (l *Layer) noteError(err error) error {
	s := l.sock
	switch {
	case err == ErrAgain:
	case err == io.EOF && l.truncated, err == io.ErrUnexpectedEOF:
		s.hangup = true
		return io.ErrUnexpectedEOF // cut off: only the codec's own end is one
	case err == io.EOF:
		s.hangup = true
	default:
		s.failed = true
	}
	return err
}

// read is Sock.Read.
func (l *Layer) read(b []byte) (int, error) {
	s := l.sock
	if !s.readable {
		return 0, ErrAgain
	}
	n := 0
	if l.hasNext {
		b[0], n, l.hasNext = l.next[0], 1, false
		if len(b) == 1 {
			return 1, nil
		}
	}
	m, err := l.codec.Read(b[n:])
	n += m
	if err == ErrAgain {
		s.readable = false
	}
	if err != nil {
		err = l.noteError(err)
	}
	if n > 0 {
		return n, nil // the error comes again
	}
	return 0, err
}

// write is Sock.Write. What has been encoded cannot be taken back: bytes that
// the kernel does not take at once count as not written until it does, and the
// next write must begin with them.
func (l *Layer) write(b []byte) (int, error) {
	s := l.sock
	if !s.writable {
		return 0, ErrAgain
	}
	if l.unreported > len(b) {
		panic("BUG: a write does not repeat what the last one began with")
	}
	done := l.unreported
	l.unreported = 0
	for done < len(b) {
		part := b[done:min(done+maxEncode, len(b))]
		if err := l.encode(part); err != nil {
			s.failed, s.readable = true, true
			return done, err
		}
		if len(l.pending) > 0 {
			l.unreported = len(part)
			break
		}
		done += len(part)
	}
	if done == 0 {
		return 0, ErrAgain
	}
	return done, nil
}

// encode sends b, the codec's records in one piece.
func (l *Layer) encode(b []byte) error {
	loop := l.sock.loop
	l.corked, loop.cork = true, loop.cork[:0]
	_, err := l.codec.Write(b)
	l.corked = false
	if err != nil {
		return err
	}
	return l.send(loop.cork)
}

// quiet is Sock.Quiet: the event that tells may be on its way.
func (l *Layer) quiet() bool {
	s := l.sock
	if s.failed || s.hangup || l.hasNext {
		return false
	}
	l.canRead = true
	l.readAhead()
	return !s.readable && !s.hangup && !s.failed
}

// ended is Sock.Ended.
func (l *Layer) ended() bool {
	if l.hasNext {
		return false
	}
	l.canRead = true
	l.readAhead()
	return !l.hasNext && (l.sock.hangup || l.sock.failed)
}

// finish writes the codec's end and reports whether the kernel has all.
func (l *Layer) finish() bool {
	_ = l.codec.CloseWrite()
	return len(l.pending) == 0
}

// closeWrite is Sock.CloseWrite.
func (l *Layer) closeWrite() {
	if l.finish() {
		l.sock.shutdown()
	} else {
		l.finPending = true
	}
}

// noConn has the methods of a net.Conn that a codec does not need: the owner of
// the socket closes it and keeps the time.
type noConn struct{}

func (noConn) Close() error                     { return nil }
func (noConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (noConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (noConn) SetDeadline(time.Time) error      { return nil }
func (noConn) SetReadDeadline(time.Time) error  { return nil }
func (noConn) SetWriteDeadline(time.Time) error { return nil }
