package e2e

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

func (g *gate) logs(text string) {
	g.t.Helper()
	has := func() bool { return strings.Contains(g.Stderr.String(), text) }
	eventually(g.t, "the log has "+text, func() bool { return has() || !g.Running() })
	if !has() {
		g.t.Fatalf("the gate has ended and not logged %s", text)
	}
}

// freePorts returns n free ports, ascending.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		ports = append(ports, freePort(t))
	}
	slices.Sort(ports)
	return ports
}

func TestAnApplicationOnAnotherPortCausesAWarning(t *testing.T) {
	t.Parallel()
	p := freePorts(t, 4)
	g := startGateWithWrapper(t, "", fmt.Sprintf("USER_PORT=%d", p[0]), listensOn+"=/"+launch.Address(p[1]))
	g.logs(fmt.Sprintf("the application listens on %d, USER_PORT is %d: use --user-port %d", p[1], p[0], p[1]))

	if !regexp.MustCompile(`"warn"[^\n]*the application listens`).MatchString(g.Stderr.String()) {
		t.Error("the message is not a warning")
	}

	g = startGateWithApplication(t, fmt.Sprintf("USER_PORT=%d", p[0]), listensOn+"=/"+launch.Address(p[3])+","+launch.Address(p[2]))
	g.logs(fmt.Sprintf("the application listens on %d and %d, USER_PORT is %d: use --user-port %d", p[2], p[3], p[0], p[2]))
}

func TestAnApplicationThatLoopbackDoesNotReachCausesAWarning(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	g := startGateWithApplication(t, fmt.Sprintf("USER_PORT=%d", port), fmt.Sprintf("%s=/127.0.0.2:%d", listensOn, port))
	g.logs(fmt.Sprintf("the application listens on 127.0.0.2:%d, where 127.0.0.1:%d does not reach it", port, port))

	g = startGateWithApplication(t, "USER_PORT=auto", fmt.Sprintf("%s=/127.0.0.2:%d", listensOn, freePort(t)))
	g.logs("where 127.0.0.1 does not reach it")
}

func TestTheGateDetectsThePortOfTheApplication(t *testing.T) {
	t.Parallel()
	p := freePorts(t, 3)
	for name, c := range map[string]struct {
		listens string
		want    int
	}{
		"one":                    {"/" + launch.Address(p[0]), p[0]},
		"the lower port":         {"/0.0.0.0:" + fmt.Sprint(p[0]) + "," + launch.Address(p[1]), p[0]},
		"the port that responds": {launch.Address(p[0]) + "," + launch.Address(p[1]) + "/" + launch.Address(p[2]), p[2]},
		"the port within reach":  {fmt.Sprintf("/127.0.0.2:%d,%s", p[0], launch.Address(p[1])), p[1]},
		"IPv4 behind a wildcard": {fmt.Sprintf("/:%d", p[0]), p[0]},
	} {
		g := startGateWithApplication(t, "USER_PORT=auto", listensOn+"="+c.listens)
		if got := g.fetch("/"); got != "ok" { // the gate queues the request until the application listens
			t.Errorf("%s: got %q", name, got)
		}
		g.logs(fmt.Sprintf(`"userPort":%d`, c.want))
		g.signal(syscall.SIGTERM)
		g.ends(applicationExit)
	}
}

func TestTheVariablePORTIsTheUserPortIfTheApplicationListensOnIt(t *testing.T) {
	t.Parallel()
	if l, err := net.Listen("tcp", ":8080"); err == nil { // 8080 is now in use, so PORT must differ
		defer l.Close()
	}
	lower := freePort(t)
	g := startGateWithApplication(t, "USER_PORT=auto", listensOn+"=/127.0.0.1:$PORT,"+launch.Address(lower))
	port := g.fetch("/port")
	g.logs(fmt.Sprintf(`"userPort":%s`, port))
	if port == "8080" || port == fmt.Sprint(lower) {
		t.Errorf("PORT is %s", port)
	}
}

func TestTheGateEndsOrderlyWithAnApplicationThatNeverListens(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t, "USER_PORT=auto", listensOn+"=/")
	g.awaitStdout("listening")
	g.signal(syscall.SIGTERM)
	g.ends(applicationExit)
	g.awaitStdout("terminated with 0 open")

	path := shortTempDir(t) + "/app.sh"
	must(t, os.WriteFile(path, []byte("#!/bin/sh\nexit 3\n"), 0o755))
	env := append(baseEnv(t), fmt.Sprintf("QUEUE_SERVING_PORT=%d", freePort(t)))
	if code, _, stderr := runQueue(t, env, "--user-port", "auto", "--", path); code != 3 {
		t.Errorf("code %d, %s", code, stderr)
	}

	g = startGateWithApplication(t, "USER_PORT=auto", listensOn+"=/", ignoresSignals+"=1")
	g.awaitStdout("listening")
	g.signal(syscall.SIGTERM)
	g.logs("sending SIGTERM to the application")
	g.signal(syscall.SIGTERM)
	g.ends(1)
}

func TestAUserPortInUseIsAStartUpError(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	name, err := os.ReadFile("/proc/self/comm")
	must(t, err)
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", ":0"} {
		l, err := net.Listen("tcp", address)
		must(t, err)
		defer l.Close()
		env := append(baseEnv(t), fmt.Sprintf("QUEUE_SERVING_PORT=%d", freePort(t)), applicationMode+"=serve")
		code, stdout, stderr := runQueue(t, env, "--user-port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port), "--", self)
		want := fmt.Sprintf("port %d (USER_PORT) is taken by %s (pid %d)", l.Addr().(*net.TCPAddr).Port, strings.TrimSpace(string(name)), os.Getpid())
		if code != 1 || stdout != "" || !strings.Contains(stderr, want) || strings.Contains(stderr, "serving") {
			t.Errorf("%s: code %d, stdout %q, stderr %s, want %s", address, code, stdout, stderr, want)
		}
	}
}

func TestAUserPortTakenByAnotherProcessLaterCausesAWarning(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	g := startGateWithApplication(t, fmt.Sprintf("USER_PORT=%d", port), listensOn+"=/")
	g.awaitStdout("listening")
	l, err := net.Listen("tcp", launch.Address(port))
	must(t, err)
	defer l.Close()
	g.logs(fmt.Sprintf("another process listens on port %d (USER_PORT) and gets the requests: ", port))
	g.logs(fmt.Sprintf("(pid %d), which the application has not started", os.Getpid()))
}
