package http2

import (
	"context"
	"crypto/tls"
	"io"
	"time"
)

// learnPatience bounds how long a container may think about the preface of
// HTTP/2. One that says nothing is taken for one that does not know it.
const learnPatience = 2 * time.Second

// opening is what a client of HTTP/2 says first: the preface and an empty
// SETTINGS frame; farewell a GOAWAY without error (RFC 9113 sections 3.4, 6.8).
const (
	opening  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	farewell = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
)

// learn finds out what the container speaks, on a connection of its own so
// that no request is lost on the wrong guess: it opens as HTTP/2 does, and a
// container that speaks it must begin with a SETTINGS frame. Whatever else it
// says, and an end without a word, means HTTP/1.
func (u *upstream) learn(ctx context.Context) error {
	c, err := u.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if session, ok := c.Conn.(*tls.Conn); ok { // the handshake has said it
		proto := HTTP1
		if session.ConnectionState().NegotiatedProtocol == "h2" {
			proto = H2C
		}
		u.proto.CompareAndSwap(uint32(Auto), uint32(proto))
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(learnPatience))
	if _, err := c.Write([]byte(opening)); err != nil {
		return dialError{err}
	}
	var frame [9]byte
	_, err = io.ReadFull(c, frame[:])
	proto := HTTP1
	if err == nil && isSettings(frame) {
		proto = H2C
		_, _ = c.Write([]byte(farewell))
	}
	u.proto.CompareAndSwap(uint32(Auto), uint32(proto))
	return nil
}

// isSettings reports whether a frame header is one of SETTINGS, without ACK.
func isSettings(h [9]byte) bool {
	return h[0] == 0 && h[3] == 0x4 && h[4] == 0 && h[5]|h[6]|h[7]|h[8] == 0
}
