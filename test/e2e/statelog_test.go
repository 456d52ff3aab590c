package e2e

import "testing"

func TestDebugLevelLogsEveryStateChange(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "SERVING_LOGGING_LEVEL=debug")
	c, p := inFlight(t, k, g, "/logged")
	finish(c, p)
	c.close()
	for _, line := range []string{
		"http/1 connection: idle to reading", "http/1 connection: reading to exchanging", "http/1 connection: reading to closed",
		"exchange: arrived to connecting", "exchange: connecting to awaiting", "exchange: awaiting to responding", `"request":1,`, `"target":"/logged","outcome":"served"`,
	} {
		g.logs(line)
	}
	(<-h2Start(t, h2Client(t, nil), "http://"+g.addr+"/", "K-Network-Probe: probe", "K-Network-Hash: h")).is(t, 200, "")
	g.logs("http/2 connection: awaiting preface to open")
}
