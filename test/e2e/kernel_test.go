package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/sockdiag"
	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/test/internal/launch"
)

// socket is the state of a TCP socket in the kernel.
type socket struct {
	unread         int // received bytes that the process has not read
	timer          int // 2 = keep-alive
	timerRemaining time.Duration
}

// gateSocket finds the gate's end of a client's connection. Tests call it in a loop, so it
// asks sock_diag first. Only if that fails, it reads the tables in /proc, which takes
// milliseconds.
func (c *client) gateSocket() (socket, bool) {
	c.t.Helper()
	local, remote := c.net.RemoteAddr().(*net.TCPAddr).AddrPort(), c.net.LocalAddr().(*net.TCPAddr).AddrPort()
	if s, err := sockdiag.Connection(local, remote); err == nil {
		return socket{s.NumUnread, s.Timer, s.TimerRemaining}, true
	}
	localEnd, remoteEnd := hexAddr(local.String()), hexAddr(remote.String())
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		must(c.t, err)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 5 && strings.HasSuffix(f[1], localEnd) && strings.HasSuffix(f[2], remoteEnd) {
				return parseSocket(c.t, f), true
			}
		}
	}
	return socket{}, false
}

// hexAddr formats an address of 127.0.0.1 as the kernel's table of TCP sockets over IPv4
// does. In the table for IPv6 the IPv4-mapped form of this address ends with the same
// text, so a comparison of suffixes works for both tables.
func hexAddr(addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	n, _ := strconv.Atoi(port)
	return fmt.Sprintf("0100007F:%04X", n)
}

func parseSocket(t *testing.T, f []string) socket {
	t.Helper()
	_, rx, _ := strings.Cut(f[4], ":")
	kind, expiry, _ := strings.Cut(f[5], ":")
	return socket{
		unread:         hexInt(t, rx),
		timer:          hexInt(t, kind),
		timerRemaining: time.Duration(hexInt(t, expiry)) * time.Second / 100,
	}
}

func hexInt(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.ParseInt(s, 16, 64)
	must(t, err)
	return int(n)
}

// awaitRead waits until the gate has read all bytes of the client, and has then responded
// to a network probe on another connection.
func (g *gate) awaitRead(c *client) {
	g.t.Helper()
	eventually(g.t, "the gate reads a request", func() bool {
		s, ok := c.gateSocket()
		return ok && s.unread == 0
	})
	p := dial(g.t, g)
	p.get("/", "K-Network-Probe: probe", "K-Network-Hash: taken").is(200, "")
	p.close()
}

// pid returns the gate's process id. The gate may be a child of overh2 or overtls.
func (g *gate) pid() int {
	g.t.Helper()
	pid := g.Cmd.Process.Pid
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(g.t, err)
	for _, list := range lists {
		if text, err := os.ReadFile(list); err == nil && len(text) > 0 {
			_, err := fmt.Sscan(string(text), &pid)
			must(g.t, err)
		}
	}
	return pid
}

// memory returns VmRSS or VmHWM of the gate in bytes.
func (g *gate) memory(field string) int64 {
	g.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.pid()))
	must(g.t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			must(g.t, err)
			return n << 10
		}
	}
	g.t.Fatalf("no %s in the status of the gate", field)
	return 0
}

// peakMemory returns a function that returns the growth of the gate's peak memory since
// this call.
func (g *gate) peakMemory() func() int64 {
	g.t.Helper()
	before := g.memory("VmRSS")
	must(g.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", g.pid()), []byte("5"), 0))
	return func() int64 {
		g.t.Helper()
		return g.memory("VmHWM") - before
	}
}

// growsLess logs the growth of memory. It fails above the limit, except in race builds.
func growsLess(t *testing.T, description string, got, limit int64) {
	t.Helper()
	t.Logf("%s: memory grew by %d KiB", description, got>>10)
	if !launch.RaceBuild && got >= limit {
		t.Errorf("%s: memory grew by %d KiB, want less than %d", description, got>>10, limit>>10)
	}
}

func eventually(t *testing.T, description string, condition func() bool) {
	t.Helper()
	testkit.Until(t, description, condition)
}
