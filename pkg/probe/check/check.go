package check

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Checker runs one attempt at a time against one container. The context carries
// the deadline of the attempt. A Prober may remember what it learned of the
// container; it is called from one goroutine.
type Checker interface {
	Check(ctx context.Context) Result
}

// Result is the outcome of one attempt.
type Result struct {
	Cause   Cause // zero = success
	Reached bool  // a connection was accepted, so the application paid for it
}

// Keep-alive and happy eyeballs are off: a connection lives for one exchange,
// and localhost that resolves to two families is tried in order.
var dialer = net.Dialer{KeepAlive: -1, FallbackDelay: -1}

// dial opens a fresh connection, as the kubelet does: a reused one would hide
// that the application no longer accepts. The caller closes it. The context's
// deadline and cancellation govern the connection too until stop is called.
func dial(ctx context.Context, address string) (conn *net.TCPConn, stop func() bool, cause Cause) {
	conn, err := connect(ctx, address)
	if err != nil {
		return nil, nil, dialCause(err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	// A deadline alone is in the socket; only cancellation needs the callback.
	stop = context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	return conn, stop, Cause{}
}

// dialCause is the cause of a connection that did not come about.
func dialCause(err error) Cause {
	cause := causeOf(err)
	if cause.Kind == CauseMalformed {
		cause = Cause{Kind: CauseUnreachable}
	}
	return cause
}

// loopback is the address and port that address stands for, if they are of the
// loopback.
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

// peerCloseTimeout bounds the wait for the other side's end of the connection.
// Over loopback it comes within 0.1 ms from a server that honours
// "Connection: close".
const peerCloseTimeout = 2 * time.Millisecond

// closeOrderly closes conn after a whole exchange so that no socket stays behind on
// either side: it lets the server close first and then drops the connection at
// once (SO_LINGER 0), which ends the server's TIME_WAIT too. A server that does
// not close first gets an ordinary close, never a reset that it would log.
func closeOrderly(conn *net.TCPConn) {
	conn.SetReadDeadline(time.Now().Add(peerCloseTimeout))
	var b [1]byte
	if n, err := conn.Read(b[:]); n == 0 && causeOf(err).Kind == CauseClosed {
		conn.SetLinger(0)
	}
	conn.Close()
}
