package check

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Checker runs the readiness checks of one container. The context has the deadline of
// the check. Calls are not concurrent, so a Checker may keep state.
type Checker interface {
	Check(ctx context.Context) Result
}

// Result is the result of one check.
type Result struct {
	Cause   Cause // zero = success
	Reached bool  // a connection was accepted
}

// dialer disables TCP keep-alive, because each connection carries one exchange. It
// disables happy eyeballs, so it tries the addresses of localhost in sequence.
var dialer = net.Dialer{KeepAlive: -1, FallbackDelay: -1}

// dial opens a new connection, because a reused connection would hide that the
// application no longer accepts connections. The caller closes conn. Until the caller
// calls stop, the deadline and the cancellation of ctx apply to conn.
func dial(ctx context.Context, address string) (conn *net.TCPConn, stop func() bool, cause Cause) {
	conn, err := connect(ctx, address)
	if err != nil {
		return nil, nil, dialCause(err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	// The socket already has the deadline of ctx. After a cancellation, this callback
	// sets a deadline in the past, so that a read or write in progress ends at once.
	stop = context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	return conn, stop, Cause{}
}

func dialCause(err error) Cause {
	cause := causeOf(err)
	if cause.Kind == CauseMalformed {
		cause = Cause{Kind: CauseUnreachable}
	}
	return cause
}

// loopback parses address if it is a loopback address with a port.
func loopback(address string) (to netip.AddrPort, ok bool) {
	to, err := netip.ParseAddrPort(address)
	return to, err == nil && to.Addr().IsLoopback() && to.Addr().Zone() == ""
}

func connect(ctx context.Context, address string) (*net.TCPConn, error) {
	if to, ok := loopback(address); ok {
		if conn, known, err := connectLoopback(to); known {
			return conn, err
		}
	}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// peerCloseTimeout is the maximum wait for the server to close the connection. Over
// loopback, a server that honors "Connection: close" closes it within 0.1 ms.
const peerCloseTimeout = 2 * time.Millisecond

// closeOrderly closes conn after a complete exchange. If the server closes first, it
// resets the connection (SO_LINGER 0), so that no socket remains in TIME_WAIT.
// Otherwise it sends a FIN, because the server might log a reset.
func closeOrderly(conn *net.TCPConn) {
	conn.SetReadDeadline(time.Now().Add(peerCloseTimeout))
	var b [1]byte
	if n, err := conn.Read(b[:]); n == 0 && causeOf(err).Kind == CauseClosed {
		conn.SetLinger(0)
	}
	conn.Close()
}
