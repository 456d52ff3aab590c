package upstream

import "github.com/queuegate/queuegate/pkg/gate"

// Router is the gate.Connector that chooses between the pools of the
// protocols.
type Router struct {
	Choice *Choice
	HTTP1  gate.Connector
	HTTP2  gate.Connector
}

// Connect is gate.Connector. An attempt that is under way goes on where it was
// begun.
func (r *Router) Connect(x *gate.Exchange, now int64, fresh bool) (up gate.UpstreamSide, next int64, o gate.Outcome, failed bool) {
	d := &x.Dial
	via := d.Via
	if d.Attempt == nil || via == nil {
		via = r.HTTP1
		if r.Choice.For(x.Protocol == "HTTP/2.0") == H2C {
			via = r.HTTP2
		}
		d.Via = via
	}
	up, next, o, failed = via.Connect(x, now, fresh)
	if failed && o == gate.MethodNotAllowed && r.Choice.MaySpeakHTTP1() {
		// Over HTTP/2 the container does not offer WebSocket.
		d.Via = r.HTTP1
		return r.HTTP1.Connect(x, now, fresh)
	}
	return up, next, o, failed
}

// Cancel is gate.Connector.
func (r *Router) Cancel(x *gate.Exchange) {
	if via := x.Dial.Via; via != nil {
		via.Cancel(x)
	}
}
