package probe

import "context"

// tcpProber succeeds when a connection is accepted.
type tcpProber struct{ address string }

// Probe closes with an ordinary FIN, as the kubelet does: a reset would show in
// the logs of many applications. One TIME_WAIT per probe is left for 60 s.
func (p *tcpProber) Probe(ctx context.Context) Result {
	if to, ok := loopback(p.address); ok {
		if known, err := touchLoopback(to); err != nil {
			return Result{Cause: dialCause(err)}
		} else if known {
			return Result{Reached: true}
		}
	}
	conn, stop, cause := dial(ctx, p.address)
	if conn == nil {
		return Result{Cause: cause}
	}
	stop()
	conn.Close()
	return Result{Reached: true}
}
