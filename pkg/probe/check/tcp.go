package check

import "context"

// TCP checks by connecting. It succeeds if the connection is accepted.
type TCP struct {
	Address string // host:port
}

// Check implements Checker. It closes the connection with a FIN, because many
// applications log resets. Each check leaves one socket in TIME_WAIT.
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
