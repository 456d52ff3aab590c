package loop

import (
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Codec encodes and decodes the bytes of a Sock, as *tls.Conn does. It reads and writes
// encoded bytes by the methods of its Layer. If Layer.Read returns ErrAgain, no bytes are
// available now. The codec must then return ErrAgain too, and must continue to read at
// the next call. ErrAgain is a temporary net.Error, after which a *tls.Conn can be read
// again.
type Codec interface {
	Read(b []byte) (int, error)
	Write(b []byte) (int, error)
	// CloseWrite sends the end of data (TLS: close_notify).
	CloseWrite() error
}

const (
	// maxEncode is the maximum number of bytes encoded at once.
	maxEncode = 32 << 10
	// maxPending limits the encoded bytes that a layer buffers while the kernel accepts
	// none. It suffices for the encoded form of maxEncode bytes, and for messages that
	// the codec sends in reply to messages of the peer.
	maxPending = 64 << 10
	// layerBytes is the approximate memory of a layer and its codec.
	layerBytes = 16 << 10
)

var errPeerNotReading = errors.New("the peer sends requests and does not read the replies")

// Layer lies between a Sock and its user. It is the net.Conn of its codec; the user calls
// the methods of the Sock. The zero value is ready for StartHandshake.
type Layer struct {
	noConn

	codec     Codec
	sock      *Sock
	handshake *handshake // in progress; nil = none

	pending    []byte // encoded bytes that the kernel has not accepted
	unreported int    // payload bytes that are encoded but not yet reported as written

	canRead, canWrite bool // the kernel may have encoded bytes to read, or may accept some
	corked            bool // Write appends to the loop's cork buffer
	truncated         bool // EOF came without the codec's end of data
	finPending        bool // shut down the socket for writing once pending is sent
	hasNext           bool // next holds a decoded byte
	next              [1]byte
}

// Wrap puts the layer l, whose handshake has ended, between s and its user. The user must
// not have called s.Read or s.Write before.
func (s *Sock) Wrap(l *Layer) {
	l.sock, s.layer = s, l
	l.canRead, l.canWrite, s.readable = true, s.writable, true
	l.readAhead() // the codec may hold bytes read during the handshake
}

// Layered reports whether s has a Layer.
func (s *Sock) Layered() bool { return s.layer != nil }

// HasUnreported reports whether encoded bytes may have been sent although Write has not
// reported them as written. It is false without a layer.
func (s *Sock) HasUnreported() bool { return s.layer != nil && s.layer.unreported > 0 }

// Read reads encoded bytes for the codec.
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

// Disconnected reports whether the peer has sent FIN or RST, even if there are unread
// bytes before it. It makes one system call. Only the codec's Handshake may call it.
func (l *Layer) Disconnected() bool { return l.handshake.disconnected() }

// Write writes encoded bytes for the codec. It accepts all of b, or fails.
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

// send sends the pending bytes and b, and buffers what the kernel does not accept.
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

// noteWriteError records that nothing more can be written.
func (l *Layer) noteWriteError(err error) error {
	l.pending = nil
	l.sock.failed, l.sock.readable = true, true
	return err
}

// note handles an event of the socket.
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
		l.readAhead() // update Readable, which the handler of the event will call
	}
}

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

// readAhead decodes one byte in advance, for two reasons. Encoded bytes may contain no
// user data, and then Readable must be false. The end of data must be noticed even while
// the user does not read.
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

// noteError updates the state after an error of the codec's Read, and returns the error
// for the user.
func (l *Layer) noteError(err error) error {
	s := l.sock
	switch {
	case err == ErrAgain:
	case err == io.EOF && l.truncated, err == io.ErrUnexpectedEOF:
		s.hangup = true
		return io.ErrUnexpectedEOF // EOF without the codec's end of data
	case err == io.EOF:
		s.hangup = true
	default:
		s.failed = true
	}
	return err
}

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
		return n, nil // the codec repeats the error at the next read
	}
	return 0, err
}

// write implements Sock.Write. If the kernel does not accept encoded bytes, they stay in
// pending, because the codec cannot undo the encoding. The user's bytes that they encode
// are not reported as written yet. The next write must begin with the same bytes; it
// reports them as written and does not encode them again.
func (l *Layer) write(b []byte) (int, error) {
	s := l.sock
	if !s.writable {
		return 0, ErrAgain
	}
	if l.unreported > len(b) {
		panic("BUG: a write does not begin with the bytes that the previous one did not write")
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

// encode passes b to the codec and sends all resulting records together.
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

// quiet implements Sock.Quiet. It returns true if no user data, EOF or error is pending.
// It reads from the socket, because the loop may not have delivered the latest event yet.
func (l *Layer) quiet() bool {
	s := l.sock
	if s.failed || s.hangup || l.hasNext {
		return false
	}
	l.canRead = true
	l.readAhead()
	return !s.readable && !s.hangup && !s.failed
}

func (l *Layer) atEOF() bool {
	if l.hasNext {
		return false
	}
	l.canRead = true
	l.readAhead()
	return !l.hasNext && (l.sock.hangup || l.sock.failed)
}

// finish sends the codec's end of data. It reports whether the kernel has accepted
// everything.
func (l *Layer) finish() bool {
	_ = l.codec.CloseWrite()
	return len(l.pending) == 0
}

func (l *Layer) closeWrite() {
	if l.finish() {
		l.sock.shutdown()
	} else {
		l.finPending = true
	}
}

// noConn implements the methods of net.Conn that a codec does not need.
type noConn struct{}

func (noConn) Close() error                     { return nil }
func (noConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (noConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (noConn) SetDeadline(time.Time) error      { return nil }
func (noConn) SetReadDeadline(time.Time) error  { return nil }
func (noConn) SetWriteDeadline(time.Time) error { return nil }
