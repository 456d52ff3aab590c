package http1

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// handshakeTimeout is how long the container may take for its part of a TLS
// handshake.
const handshakeTimeout = int64(10 * time.Second)

var errGivenUp = errors.New("the client left or a clock ran out")

// handshake makes a session of TLS on a connection just opened. Only its
// waiting is off the loop: the arithmetic, well below a millisecond, is done
// once for each connection of the pool.
type handshake struct {
	x         *gate.Exchange // who waits for it; nil = no exchange any more
	u         *upstream
	task      *loop.Task
	done      bool
	err       error
	cancelled bool
}

func (p *pool) beginHandshake(x *gate.Exchange, u *upstream) {
	u.handshake = &handshake{x: x, u: u}
	p.eng.loop.Start(u.handshake)
}

// Run is loop.Runner.
func (h *handshake) Run(t *loop.Task) {
	h.task = t
	h.u.sock.Handle(t)
	layer := loop.NewLayer(nil)
	session := tls.Client(layer, h.u.pool.eng.cfg.UpstreamTLS)
	layer.SetCodec(session)
	h.u.sock.Wrap(layer)
	h.end(layer.Shake(t, loop.Nanotime()+handshakeTimeout, session.Handshake, h.inVain))
}

// Recovered is loop.Runner.
func (h *handshake) Recovered(_ *loop.Task, v any) {
	h.end(fmt.Errorf("TLS handshake: %v", v))
}

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
	if h.cancelled || h.u.pool.eng.loop.Closing() {
		return errGivenUp
	}
	return nil
}
