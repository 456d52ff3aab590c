package http1

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// handshakePatience is how long the container may take for its part of a TLS
// handshake.
const handshakePatience = int64(10 * time.Second)

var errGivenUp = errors.New("the client left or a clock ran out")

// secure makes a session of TLS on a connection just opened. Only its waiting
// is off the loop: the arithmetic, well below a millisecond, is done once for
// each connection of the pool.
func (w *worker) secure(u *upstream) gate.Outcome {
	layer := loop.NewLayer(nil)
	session := tls.Client(layer, w.srv.cfg.UpstreamTLS)
	layer.SetCodec(session)
	u.sock.Wrap(layer)
	deadline := loop.Nanotime() + handshakePatience
	err := layer.Shake(w.task, gate.Earliest(deadline, w.clocks.Next()), session.Handshake, w.handshakeInVain)
	switch {
	case err == nil:
		return gate.Served
	case w.conn.gone() || w.eng.loop.Closing():
		return gate.ClientGone
	}
	if o := w.clocks.Expired(w.now()); o != gate.Served {
		return o
	}
	if told := w.srv.cfg.UpstreamTLSFailed; told != nil {
		told(err)
	}
	return gate.UpstreamTLSFailed
}

// handshakeInVain tells when nobody waits for the session any longer.
func (w *worker) handshakeInVain() error {
	if w.conn.gone() || w.eng.loop.Closing() || w.clocks.Expired(w.now()) != gate.Served {
		return errGivenUp
	}
	return nil
}
