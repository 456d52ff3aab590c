package e2e

import (
	"testing"
)

func TestConnectionsWithoutAHandshakeDelayNoOthers(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	must(t, k.RespondAll([]byte(okBody)))
	g := startTLSGate(t, k)
	openMany(t, g.secure, 5000, "")
	for range 20 {
		c := dialTLS(t, g, nil)
		c.get("/").is(200, "ok")
		c.close()
	}
}

func TestIncompleteHandshakesAreReclaimed(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	must(t, k.RespondAll([]byte(okBody)))
	g := startTLSGate(t, k)
	openMany(t, g.secure, 2000, "\x16\x03\x01\x02")
	for range 20 {
		c := dialTLS(t, g, nil)
		c.get("/").is(200, "ok")
		c.close()
	}
}

func TestBothPortsServeRequestsWhileSilentConnectionsUseAllDescriptors(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"silent": "", "an unfinished handshake": "\x16\x03\x01\x02"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			must(t, k.RespondAll([]byte(okBody)))
			g := startTLSGate(t, k, "ulimit -n 64")
			for _, addr := range []string{g.secure, g.addr} {
				openMany(t, addr, 200, text)
				for range 10 {
					c := dialTLS(t, g, nil)
					c.get("/").is(200, "ok")
					c.close()
					plain := dial(t, g.gate)
					plain.get("/").is(200, "ok")
					plain.close()
				}
			}
		})
	}
}
