package upstream

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Router is the exchange.Connector that chooses the protocol.
type Router struct {
	Choice *Choice
	HTTP1  exchange.Connector
	HTTP2  exchange.Connector
}

// Values of exchange.Dial.Via.
const (
	viaHTTP1 = 1 + iota
	viaHTTP2
)

func (r *Router) pool(via uint8) exchange.Connector {
	if via == viaHTTP2 {
		return r.HTTP2
	}
	return r.HTTP1
}

// Connect implements exchange.Connector. An attempt in progress continues over the
// protocol with which it began.
func (r *Router) Connect(x *exchange.Exchange, now int64, isRetry bool) (up exchange.Upstream, next int64, o gate.Outcome) {
	d := &x.Dial
	if d.Attempt == nil || d.Via == 0 {
		via := uint8(viaHTTP1)
		switch {
		case d.First != 0:
			if via = r.retry(d, now); via == 0 {
				return nil, 0, d.LastFailure
			}
		case r.Choice.For(x, now) == H2C:
			via = viaHTTP2
		}
		d.Via = via
	}
	up, next, o = r.pool(d.Via).Connect(x, now, isRetry)
	if o == gate.MethodNotAllowed && r.Choice.MaySpeakHTTP1() {
		// The container does not support WebSocket over HTTP/2.
		d.Via = viaHTTP1
		return r.HTTP1.Connect(x, now, isRetry)
	}
	return up, next, o
}

// retry returns the protocol for a retry: the same as before, or the other one if the
// container did not understand the first. 0 means that the container understands neither.
func (r *Router) retry(d *exchange.Dial, now int64) (via uint8) {
	if d.First == viaHTTP2 && !d.Switched && !r.Choice.MaySpeakHTTP2(now) {
		d.Switched = true
	}
	switch {
	case !d.Switched:
		return d.First
	case d.First == viaHTTP1 && r.Choice.MaySpeakHTTP2(now):
		return viaHTTP2
	case d.First == viaHTTP2 && r.Choice.MaySpeakHTTP1():
		return viaHTTP1
	}
	return 0
}

// Cancel implements exchange.Connector.
func (r *Router) Cancel(x *exchange.Exchange) {
	if via := x.Dial.Via; via != 0 {
		r.pool(via).Cancel(x)
	}
}
