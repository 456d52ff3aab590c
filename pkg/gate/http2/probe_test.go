package http2

import (
	"net"
	"net/http"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

// connFrom is a connection that seems to come from elsewhere.
type connFrom struct {
	net.Conn
	peer net.Addr
}

func (c connFrom) RemoteAddr() net.Addr { return c.peer }

func TestReasonsOfReadinessStayInThePod(t *testing.T) {
	const reason = "user-container: refused"
	up := startContainer(t, bothProtocols, func(http.ResponseWriter, *http.Request) { t.Error("forwarded") })
	for peer, want := range map[string]string{"192.0.2.1": "not ready", "127.0.0.1": reason, "::1": reason} {
		r := newRig(t, up, func(g *gate.Config, _ *Config) {
			g.Readiness = &readiness{answer: gate.ReadinessResult{Reason: reason}, settled: true}
		})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		accepted := make(chan struct{})
		go func() {
			defer close(accepted)
			if conn, err := ln.Accept(); err == nil {
				r.server.Serve(connFrom{conn, &net.TCPAddr{IP: net.ParseIP(peer), Port: 1000}})
			}
		}()
		r.addr = ln.Addr().String()
		for agent, want := range map[string]string{"curl/8.5.0": want, "kube-probe/1.34": reason} {
			res, _ := r.do("GET", "/", "", "User-Agent", agent, "K-Network-Probe", "queue")
			if got := res.Header.Get("K-Readiness-Reason"); res.StatusCode != 503 || got != want {
				t.Errorf("%s from %s: %d, reason %q, want %q", agent, peer, res.StatusCode, got, want)
			}
		}
		<-accepted
	}
}
