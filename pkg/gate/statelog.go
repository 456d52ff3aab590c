package gate

import (
	"fmt"
	"net/netip"
)

// StateLog receives every change of state of exchanges and client connections, for
// debugging. The engines call it on their event loops, and reuse the Record after the
// call.
type StateLog interface {
	// ExchangeState reports that the exchange of r has changed its state.
	ExchangeState(r *Record, from, to fmt.Stringer)
	// ConnState reports that the connection from peer has changed its state. protocol is
	// "tls" until the handshake ends, then "http/1" or "http/2".
	ConnState(peer netip.AddrPort, protocol string, from, to fmt.Stringer)
}
