package http1

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// neverReady is a gate.Readiness that is never ready. The reason that it gives contains
// the name of a container.
type neverReady struct{}

const notReadyReason = "user-container: refused"

func (neverReady) Try(gate.Prober) (gate.ReadinessResult, bool) {
	return gate.ReadinessResult{Reason: notReadyReason}, true
}

func (r neverReady) Await(c gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	result, _ := r.Try(c)
	notify(result)
	return func() {}
}

func TestTheNotReadyReasonIsSentOnlyToThePlatformAndThePod(t *testing.T) {
	r := newRig(t, exchange.Config{Readiness: neverReady{}}, options{}, func(*containerRequest) bool {
		t.Error("forwarded")
		return false
	})
	for peer, want := range map[string]string{"192.0.2.1:1000": "not ready", "127.0.0.1:1000": notReadyReason, "[::1]:1000": notReadyReason} {
		c := r.clientFrom(netip.MustParseAddrPort(peer))
		c.send("GET / HTTP/1.1\r\nHost: h\r\nK-Network-Probe: queue\r\n\r\n")
		wantSame(t, "the reason for "+peer, c.wantReply(gate.NotReady).header.Get("K-Readiness-Reason"), want)
		c.send("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: kube-probe/1.34\r\nK-Network-Probe: queue\r\n\r\n")
		wantSame(t, "the reason for a kubelet", c.wantReply(gate.NotReady).header.Get("K-Readiness-Reason"), notReadyReason)
	}
}

// clientFrom returns a connected client. The engine takes the given peer address for the
// client's address.
func (r *rig) clientFrom(peer netip.AddrPort) *testClient {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	defer ln.Close()
	c := (&rig{t: r.t, addr: ln.Addr().String()}).client()
	accepted, err := ln.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	defer accepted.Close()
	file, err := accepted.(*net.TCPConn).File()
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.engines[0].loop.Post(func() { r.engines[0].Adopt(fd, peer, nil, nil) })
	return c
}
