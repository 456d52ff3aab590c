package upstream

import (
	"crypto/tls"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// handshakeTimeout is how long the container may take for its part of a TLS
// handshake.
const handshakeTimeout = int64(10 * time.Second)

// startHandshake begins the TLS handshake of a connection just opened, and wakes x at its
// end. Close cancels it.
func (c *Conn) startHandshake(x *exchange.Exchange, protocols []string) {
	config := c.dialer.cfg.TLS
	if len(protocols) > 0 {
		config = config.Clone()
		config.NextProtos = protocols
	}
	layer := &loop.Layer{}
	c.session, c.handshakeDeadline = tls.Client(layer, config), c.dialer.loop.Nanotime()+handshakeTimeout
	c.Sock.StartHandshake(layer, c.session, c.dialer.handshakeSlots, x)
}

// handshakeDone reports whether the handshake is over, and why it has failed.
func (c *Conn) handshakeDone(now int64) (over bool, err error) {
	over, err = c.Sock.HandshakeDone()
	switch {
	case err != nil:
	case over:
		c.Protocol, c.session = c.session.ConnectionState().NegotiatedProtocol, nil
	case now >= c.handshakeDeadline:
		err = syscall.ETIMEDOUT
	}
	return over, err
}
