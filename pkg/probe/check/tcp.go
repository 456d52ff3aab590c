package check

import "context"

// TCP succeeds when a connection is accepted.
type TCP struct {
	Address string // host:port
}

// Check closes with an ordinary FIN, as the kubelet does: a reset would show in
// the logs of many applications. One TIME_WAIT per probe is left for 60 s.
func (p *TCP) Check(ctx context.Context) Result {
	if to, ok := loopback(p.Address); ok {
		if known, err := canConnectLoopback(to); err != nil {
			return Result{Cause: dialCause(err)}
		} else if known {
			return Result{Reached: true}
		}
	}
	conn, stop, cause := dial(ctx, p.Address)
	if conn == nil {
		return Result{Cause: cause}
	}
	stop()
	conn.Close()
	return Result{Reached: true}
}
