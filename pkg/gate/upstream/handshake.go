package upstream

import (
	"crypto/tls"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// handshakeTimeout is the maximum time of a TLS handshake with the container.
const handshakeTimeout = int64(10 * time.Second)

// startHandshake starts the TLS handshake of a new connection. When the handshake has
// ended, x is woken. Close cancels the handshake.
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

// handshakeDone reports whether the handshake has ended, and its error.
func (c *Conn) handshakeDone(now int64) (done bool, err error) {
	done, err = c.Sock.HandshakeDone()
	switch {
	case err != nil:
	case done:
		c.Protocol, c.session = c.session.ConnectionState().NegotiatedProtocol, nil
	case now >= c.handshakeDeadline:
		err = syscall.ETIMEDOUT
	}
	return done, err
}
