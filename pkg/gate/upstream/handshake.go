package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// handshakeTimeout is how long the container may take for its part of a TLS
// handshake.
const handshakeTimeout = int64(10 * time.Second)

var errGivenUp = errors.New("the client left or a clock ran out")

// handshake makes a session of TLS on a connection just opened. Only its
// waiting is off the loop: the arithmetic, well below a millisecond, is done
// once for each connection of a pool.
type handshake struct {
	x         *exchange.Exchange // waits for the handshake, unless cancelled
	c         *Conn
	protocols []string
	task      *loop.Task
	done      bool
	err       error
	cancelled bool
}

func (c *Conn) beginHandshake(x *exchange.Exchange, protocols []string) {
	c.handshake = &handshake{x: x, c: c, protocols: protocols}
	c.dialer.loop.Start(c.handshake)
}

// Run is loop.Runner.
func (h *handshake) Run(t *loop.Task) {
	h.task = t
	config := h.c.dialer.cfg.TLS
	if len(h.protocols) > 0 {
		config = config.Clone()
		config.NextProtos = h.protocols
	}
	h.c.Sock.Handle(t)
	layer := loop.NewLayer(nil)
	session := tls.Client(layer, config)
	layer.SetCodec(session)
	h.c.Sock.Wrap(layer)
	err := layer.Shake(t, t.Loop().Nanotime()+handshakeTimeout, session.Handshake, h.inVain)
	if err == nil {
		h.c.Protocol = session.ConnectionState().NegotiatedProtocol
	}
	h.end(err)
}

// Recovered is loop.Runner.
func (h *handshake) Recovered(_ *loop.Task, v any) { h.end(fmt.Errorf("TLS handshake: %v", v)) }

func (h *handshake) end(err error) {
	h.done, h.err = true, err
	if !h.cancelled {
		h.x.Wake()
	}
}

// cancel ends a handshake that no exchange waits for any more.
func (h *handshake) cancel() {
	if !h.done {
		h.cancelled = true
		h.task.Wake()
	}
}

// inVain tells when no exchange waits for the session any longer.
func (h *handshake) inVain() error {
	if h.cancelled || h.c.dialer.loop.Closing() {
		return errGivenUp
	}
	return nil
}
