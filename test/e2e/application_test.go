package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"
)

// applicationMode makes the test binary an application that a gate starts.
const applicationMode = "E2E_APPLICATION"

// applicationExit is the application's exit code after a termination signal.
const applicationExit = 7

const (
	readsStdin     = "E2E_READS_STDIN"
	endsAfter      = "E2E_ENDS_AFTER" // path; after a termination signal the application exits when this file exists
	ignoresSignals = "E2E_IGNORES_SIGNALS"
	listensOn      = "E2E_LISTENS_ON"
	ledgerFile     = "E2E_LEDGER" // file that gets a line for each start and request
)

// beApplication serves on PORT until a termination signal. The path determines the
// behavior. Requests and signals are printed to stdout.
func beApplication(mode string) int {
	switch mode {
	case "session": // executes the gate as a session leader with stdin as its terminal
		if _, err := syscall.Setsid(); err != nil {
			panic(err)
		}
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			panic(err)
		}
		_ = os.Setenv(applicationMode, "serve")
		panic(syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
	case "sleep":
		time.Sleep(testTimeout)
		return 0
	}
	if os.Getenv(readsStdin) != "" {
		go func() {
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				fmt.Printf("read %q\n", lines.Text())
			}
		}()
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	var open atomic.Int64
	release, tunnels := make(chan struct{}), make(chan net.Conn, 1)
	paths := map[string]func(http.ResponseWriter){
		"/":        func(w http.ResponseWriter) { fmt.Fprint(w, "ok") },
		"/hold":    func(w http.ResponseWriter) { w.(http.Flusher).Flush(); <-release },
		"/release": func(http.ResponseWriter) { close(release) },
		"/exit":    func(http.ResponseWriter) { os.Exit(3) },
		"/crash":   func(http.ResponseWriter) { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) },
		"/port":    func(w http.ResponseWriter) { fmt.Fprint(w, os.Getenv("PORT")) },
		"/pid":     func(w http.ResponseWriter) { fmt.Fprint(w, os.Getpid()) },
		"/status": func(w http.ResponseWriter) {
			text, _ := os.ReadFile("/proc/self/status")
			_, _ = w.Write(text)
		},
		"/env": func(w http.ResponseWriter) {
			fmt.Fprintf(w, "PORT=%s NOTIFY_SOCKET=%s", os.Getenv("PORT"), os.Getenv("NOTIFY_SOCKET"))
		},
		"/manager": func(w http.ResponseWriter) {
			for _, pair := range os.Environ() {
				if strings.HasPrefix(pair, "LISTEN_") || strings.HasPrefix(pair, "FDSTORE") || strings.HasPrefix(pair, "NOTIFY_") {
					fmt.Fprintln(w, pair)
				}
			}
		},
		"/tunnel": func(w http.ResponseWriter) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			tunnels <- c
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello")
		},
		"/children": func(w http.ResponseWriter) { // one child in the application's process group, and one in a new session
			_ = os.Setenv(applicationMode, "sleep")
			for _, attr := range []*syscall.SysProcAttr{nil, {Setsid: true}} {
				cmd := exec.Command(os.Args[0])
				cmd.SysProcAttr = attr
				if err := cmd.Start(); err != nil {
					panic(err)
				}
				fmt.Fprintln(w, cmd.Process.Pid)
			}
		},
		"/orphan": func(w http.ResponseWriter) {
			pid, _ := exec.Command("/bin/sh", "-c", "sleep 0.1 >/dev/null & echo $!").Output()
			_, _ = w.Write(pid)
		},
	}
	ledger, _ := os.OpenFile(os.Getenv(ledgerFile), os.O_APPEND|os.O_WRONLY, 0)
	silent, serving, isSet := strings.Cut(os.ExpandEnv(os.Getenv(listensOn)), "/")
	if !isSet {
		serving = "127.0.0.1:" + os.Getenv("PORT")
	}
	listen := func(address string) net.Listener {
		l, err := net.Listen("tcp", address)
		if err != nil {
			panic(err)
		}
		return l
	}
	for address := range strings.FieldsFuncSeq(silent, isComma) {
		defer listen(address).Close()
	}
	for address := range strings.FieldsFuncSeq(serving, isComma) {
		go http.Serve(listen(address), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			open.Inc()
			defer open.Dec()
			if ledger != nil {
				fmt.Fprintln(ledger, "request", r.URL.RawQuery)
			}
			paths[r.URL.Path](w)
		}))
	}
	fmt.Println("listening")
	if ledger != nil {
		fmt.Fprintln(ledger, "start", os.Getpid())
	}
	for s := range signals {
		fmt.Printf("%v with %d open\n", s, open.Load())
		if os.Getenv(ignoresSignals) == "" && (s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT) {
			select {
			case c := <-tunnels:
				fmt.Fprint(c, "bye")
				_ = c.Close()
			default:
			}
			for path := os.Getenv(endsAfter); path != ""; time.Sleep(time.Millisecond) {
				if _, err := os.Stat(path); err == nil {
					fmt.Println("in order")
					break
				}
			}
			return applicationExit
		}
	}
	return 0
}

func isComma(r rune) bool { return r == ',' }

func startGateWithApplication(t *testing.T, settings ...string) *gate {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return startGate(t, &container{port: freePort(t)}, append([]string{applicationMode + "=serve", "arguments -- " + self}, settings...)...)
}

// awaitStdout waits until stdout contains text. The gate and the
// application write to the same stdout.
func (g *gate) awaitStdout(text string) {
	g.t.Helper()
	eventually(g.t, "stdout says "+text, func() bool { return strings.Contains(g.Stdout.String(), text) })
}

func (g *gate) fetch(path string) string {
	g.t.Helper()
	c := dial(g.t, g)
	defer c.close()
	a := c.get(path)
	a.is(200, a.body)
	return a.body
}

func TestAnApplicationIsStartedBehindTheGateWithItsPort(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t, "PORT=1", "SERVING_READINESS_PROBE=") // the gate replaces PORT for the application
	userPort := ""
	for _, pair := range g.env {
		if port, ok := strings.CutPrefix(pair, "USER_PORT="); ok {
			userPort = port
		}
	}
	if got, want := g.fetch("/env"), "PORT="+userPort+" NOTIFY_SOCKET="; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	g.becomesReady(kubelet)
}

func TestTheApplicationIsSignalledAfterTheDrain(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		g := startGateWithApplication(t)
		blocked := dial(t, g)
		blocked.send(request("GET", "/hold"))
		blocked.head()
		g.signal(s)
		g.awaitDraining()
		if out := g.Stdout.String(); strings.Contains(out, "open") {
			t.Errorf("the application got its signal while a request was under way: %s", out)
		}
		g.fetch("/release")
		blocked.chunked() // wait for the end of the response, which also ends the request
		blocked.close()
		g.ends(applicationExit)
		if want := fmt.Sprintf("%v with 0 open", s); !strings.Contains(g.Stdout.String(), want) {
			t.Errorf("stdout lacks %q: %q", want, g.Stdout.String())
		}
	}
}

func TestAnApplicationClosesItsTunnelsWhenItIsSignalled(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t)
	c := dial(t, g)
	c.send(request("GET", "/tunnel", "Connection: Upgrade", "Upgrade: x"))
	c.head()
	c.expect("hello")
	g.signal(syscall.SIGTERM)
	c.expect("bye")
	c.closed()
	g.ends(applicationExit)
}

func TestQueueDrainEndsTheApplicationToo(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t)
	g.fetch("/")
	if code, _, stderr := runQueue(t, g.env, "drain"); code != 0 {
		t.Errorf("queue drain: code %d, %s", code, stderr)
	}
	g.ends(applicationExit)
	g.awaitStdout("terminated with 0 open")
}

func TestASecondSignalEndsTheApplicationToo(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t)
	pid, err := strconv.Atoi(g.fetch("/pid"))
	must(t, err)
	blocked := dial(t, g)
	blocked.send(request("GET", "/hold"))
	blocked.head()
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	g.signal(syscall.SIGTERM)
	g.ends(1)
	eventually(t, "the application is gone", func() bool { return syscall.Kill(pid, 0) != nil })
}

func TestTheDefaultDrainQuietPeriodIsZeroOutsideKubernetes(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t, "DRAIN_QUIET_SECONDS=")
	g.awaitStdout("listening")
	g.signal(syscall.SIGTERM)
	g.ends(applicationExit)
	g.awaitStdout("terminated with 0 open")
	if !strings.Contains(g.Stderr.String(), `"quietPeriod":"0s"}`) {
		t.Error("the quiet period is not 0")
	}

	g = startGateWithApplication(t, "DRAIN_QUIET_SECONDS=", "KUBERNETES_SERVICE_HOST=10.96.0.1")
	g.awaitStdout("listening")
	g.signal(syscall.SIGTERM)
	eventually(t, "the drain begins", func() bool { return strings.Contains(g.Stderr.String(), `"quietPeriod":"30s"}`) })
	g.signal(syscall.SIGTERM)
	g.ends(1)
}

func TestAnApplicationThatDoesNotEndIsKilledAfterTheStopTimeout(t *testing.T) {
	t.Parallel()
	g := startGateWithWrapper(t, "trap : INT TERM", ignoresSignals+"=1", "STOP_TIMEOUT=6s")
	pid, err := strconv.Atoi(g.fetch("/pid"))
	must(t, err)
	tunnel := dial(t, g)
	tunnel.send(request("GET", "/tunnel", "Connection: Upgrade", "Upgrade: x"))
	tunnel.head()
	tunnel.expect("hello")
	blocked := dial(t, g)
	blocked.send(request("GET", "/hold"))
	blocked.head()
	g.signal(syscall.SIGINT)
	g.awaitDraining()
	g.logs("draining: completing open requests") // with the number of requests at this time
	g.fetch("/release")
	blocked.chunked()
	blocked.close()
	tunnel.closed()
	tunnel.close()
	g.ends(128 + int(syscall.SIGKILL))
	if syscall.Kill(pid, 0) != syscall.ESRCH {
		t.Error("the application still runs")
	}
	g.awaitStdout("interrupt with 0 open") // the tunnel does not count as open
	rest := g.Stderr.String()
	for _, stage := range []string{
		`"draining: [^"]*",.*"requests":1,"tunnels":1,"quietPeriod":"0s"}`,
		`"sending SIGINT to the application",.*"waited":"[0-9.]+m?s","requests":0,"tunnels":1,"stopTimeout":"6s"}`,
		`"the application is still running",.*"waited":"[0-9.]+m?s","requests":0,"tunnels":1}`,
		`"the application is still running after the stop timeout [^"]*",.*"waited":"[0-9.]+m?s","requests":0,"tunnels":1}`,
		`"the application has ended: killed .signal 9.",.*"exitCode":137,"waited":"[0-9.]+m?s"}`,
	} {
		at := regexp.MustCompile(stage).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("the log lacks %s, or has it too early", stage)
		}
		rest = rest[at[1]:]
	}
}

func TestSignalsThatTheGateDoesNotHandleReachTheApplication(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t)
	g.awaitStdout("listening")
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGWINCH} {
		g.signal(s)
		g.awaitStdout(s.String() + " with 0 open")
	}
	g.fetch("/")
}

func TestTheGateExitsWithTheExitCodeOfTheApplication(t *testing.T) {
	t.Parallel()
	for path, c := range map[string]struct {
		code        int
		description string
	}{"/exit": {3, "exit code 3"}, "/crash": {128 + int(syscall.SIGKILL), "killed (signal 9)"}} {
		g := startGateWithApplication(t, "DRAIN_QUIET_SECONDS=300")
		g.fetch("/")
		client := dial(t, g)
		// The application exits without a response, so the status is 502. If the gate
		// retries the request and the application no longer listens, the status is 503.
		if a := client.get(path); a.status != 502 && a.status != 503 {
			t.Errorf("%s: status %d", path, a.status)
		}
		g.ends(c.code)
		log := g.Stderr.String()
		first := regexp.MustCompile(`"severity":"error"[^\n]*"the application has ended by itself: ` + regexp.QuoteMeta(c.description) + `"`).FindStringIndex(log)
		if drain := strings.Index(log, "draining"); first == nil || drain < first[0] {
			t.Errorf("%s: the log does not lead with %q", path, c.description)
		}
	}
}

func TestQueuedRequestsAreRejectedImmediatelyWhenTheApplicationHasEnded(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t, "CONTAINER_CONCURRENCY=1", "UPSTREAM_RESTART_WAIT=1h")
	pid, err := strconv.Atoi(g.fetch("/pid"))
	must(t, err)
	queued(t, g, "/hold") // takes the slot
	var waiting []*client
	for range 3 {
		waiting = append(waiting, queued(t, g, "/"))
	}
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	// The gate rejects queued requests with 503 when the application has ended. Until
	// then the gate may still get a connection for one of them, which then gets 502.
	for _, c := range waiting {
		if a := c.response("GET"); a.status != 502 && a.status != 503 {
			t.Errorf("status %d", a.status)
		}
	}
	g.ends(128 + int(syscall.SIGKILL))
}

func TestAMissingDoubleDashBeforeTheCommandIsSuggested(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runQueue(t, baseEnv(t), "--port", "80", "node", "app.js", "--inspect")
	if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, ": queue --port 80 -- node app.js --inspect\n") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestTheGateExitsIfTheApplicationCannotBeStarted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		code    int
	}{{"no-such-command", 127}, {"/no/such/file", 127}, {"/etc/passwd", 126}, {"/", 126}} {
		env := append(baseEnv(t), fmt.Sprintf("QUEUE_SERVING_PORT=%d", freePort(t)), fmt.Sprintf("USER_PORT=%d", freePort(t)),
			"DRAIN_SOCKET="+shortTempDir(t)+"/d.sock")
		code, _, stderr := runQueue(t, env, "--", c.command)
		if code != c.code || !strings.Contains(stderr, "the application cannot start") || !strings.Contains(stderr, c.command) {
			t.Errorf("%s: code %d, stderr %q", c.command, code, stderr)
		}
	}
}

func TestOrphanedDescendantsAreReaped(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t)
	pid, err := strconv.Atoi(strings.TrimSpace(g.fetch("/orphan")))
	must(t, err)
	eventually(t, "the orphan is reaped", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	g.signal(syscall.SIGTERM)
	g.ends(applicationExit)
}

func TestNoDescendantOutlivesTheGate(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t)
	children := strings.Fields(g.fetch("/children"))
	g.signal(syscall.SIGINT)
	g.ends(applicationExit)
	if len(children) != 2 {
		t.Fatalf("children: %q", children)
	}
	for _, child := range children {
		pid, err := strconv.Atoi(child)
		must(t, err)
		eventually(t, "the descendant has ended", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	}
}

// wrapper writes a shell script that runs the application as its child, and returns the
// setting for the gate to start the script.
func wrapper(t *testing.T, prefix string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	path := shortTempDir(t) + "/run.sh"
	// A child forked during the write would have the file open for writing until it
	// executes its program. Until then the script could not be executed (ETXTBSY).
	syscall.ForkLock.RLock()
	err = os.WriteFile(path, []byte("#!/bin/sh\n"+prefix+"\n'"+self+"'\nexit $?\n"), 0o755)
	syscall.ForkLock.RUnlock()
	must(t, err)
	return "arguments -- " + path
}

// startGateWithWrapper starts a gate whose application is the child of a shell script.
func startGateWithWrapper(t *testing.T, prefix string, settings ...string) *gate {
	t.Helper()
	g := startGate(t, &container{port: freePort(t)}, append([]string{applicationMode + "=serve", wrapper(t, prefix)}, settings...)...)
	t.Cleanup(func() { // a killed gate leaves the wrapper's child behind
		for g.mayEnd = true; g.Running(); {
			_ = g.Cmd.Process.Signal(syscall.SIGTERM)
			g.EndsIn(time.Second)
		}
	})
	return g
}

func TestAnApplicationStartedByAWrapperIsSignalled(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		g := startGateWithWrapper(t, "trap : INT TERM QUIT") // the wrapper waits for the application, as npm does
		g.fetch("/")
		g.signal(s)
		g.ends(applicationExit)
		g.awaitStdout(s.String() + " with 0 open")
	}
}

func TestAnApplicationMayEndAfterItsWrapper(t *testing.T) {
	t.Parallel()
	file := shortTempDir(t) + "/file"
	g := startGateWithWrapper(t, "echo $$ >"+file+".pid", endsAfter+"="+file)
	g.fetch("/")
	text, err := os.ReadFile(file + ".pid")
	must(t, err)
	wrapper, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	g.signal(syscall.SIGTERM)
	eventually(t, "the wrapper has ended", func() bool { return syscall.Kill(wrapper, 0) == syscall.ESRCH })
	g.awaitStdout("terminated with 0 open")
	if !g.Running() {
		t.Error("the gate did not wait for the application")
	}
	must(t, os.WriteFile(file, nil, 0o600))
	g.ends(128 + int(syscall.SIGTERM))
	g.awaitStdout("in order")
}

func TestTheApplicationEndsWhenTheGateIsKilled(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t)
	pid, err := strconv.Atoi(g.fetch("/pid"))
	must(t, err)
	g.mayEnd = true
	g.signal(syscall.SIGKILL)
	eventually(t, "the application is gone", func() bool { return syscall.Kill(pid, 0) != nil })
}

func TestSystemdIsNotifiedOfTheStartAndOfTheDrain(t *testing.T) {
	t.Parallel()
	path := shortTempDir(t) + "/notify"
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer l.Close()
	g := startGateWithApplication(t, "NOTIFY_SOCKET="+path)
	nextNotification := func() string {
		t.Helper()
		must(t, l.SetReadDeadline(deadline()))
		b := make([]byte, 64)
		n, err := l.Read(b)
		must(t, err)
		return string(b[:n])
	}
	if got := nextNotification(); got != "READY=1" {
		t.Errorf("got %q", got)
	}
	if got := g.fetch("/env"); !strings.HasSuffix(got, "NOTIFY_SOCKET=") {
		t.Errorf("the application has the socket: %q", got)
	}
	g.signal(syscall.SIGTERM)
	if got := nextNotification(); got != "STOPPING=1" {
		t.Errorf("got %q", got)
	}
	g.ends(applicationExit)
}
