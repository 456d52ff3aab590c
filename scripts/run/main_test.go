package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes this test binary act as one of three programs: scripts/run, the gate, or
// the demo container. STAND_IN and the arguments select the program.
func TestMain(m *testing.M) {
	switch standIn := os.Getenv("STAND_IN"); {
	case standIn == "":
		os.Exit(m.Run())
	case len(os.Args) > 1 && os.Args[1] == "--port":
		serve("demo", os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	case len(os.Args) > 1 && os.Args[1] == "--user-port":
		if standIn == "gate fails" {
			fmt.Fprintln(os.Stderr, "bad setting")
			os.Exit(2)
		}
		container, _ := url.Parse("http://127.0.0.1:" + os.Args[2])
		serve("gate", os.Getenv("QUEUE_SERVING_PORT"), httputil.NewSingleHostReverseProxy(container))
	default:
		main()
		os.Exit(0)
	}
}

// serve prints to stderr before the first response and when it stops.
func serve(name, port string, handler http.Handler) {
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM)
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "%s pid %d quiet %s\n", name, os.Getpid(), os.Getenv("DRAIN_QUIET_SECONDS"))
	go http.Serve(listener, handler)
	<-stopped
	fmt.Fprintln(os.Stderr, name, "stopped")
	os.Exit(0)
}

// testTimeout only ends a test that hangs.
const testTimeout = 2 * time.Minute

// startRun starts this test binary in the role of scripts/run, with empty standard input.
// It returns a reader of the process's standard output and standard error together.
func startRun(t *testing.T, standIn, port string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, "--gate", self, "--demo", self, "--port", port, "--user-port", freePort(t))
	// By default the race detector sleeps for a second at each exit.
	cmd.Env = append(os.Environ(), "STAND_IN="+standIn, "GORACE=atexit_sleep_ms=0")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	return cmd, bufio.NewReader(read)
}

// readThrough reads up to and including a line that contains mark.
func readThrough(t *testing.T, reader *bufio.Reader, mark string) string {
	t.Helper()
	var all strings.Builder
	for {
		line, err := reader.ReadString('\n')
		all.WriteString(line)
		if err != nil {
			t.Fatalf("%v before %q:\n%s", err, mark, &all)
		}
		if strings.Contains(line, mark) {
			return all.String()
		}
	}
}

var returnedPorts = map[string]bool{}

// freePort returns a free port from 11000 to 14999. The kernel uses higher ports for
// outgoing connections, and test/internal/launch uses ports from 15000. So neither
// of them takes the port before the test uses it. No port is returned twice.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(11000 + rand.IntN(4000))
		if !returnedPorts[port] && free("", "", port) == nil {
			returnedPorts[port] = true
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// EOF on the pipe proves that no process remains.
func TestASignalStopsTheGateThenTheContainerAndLeavesNoOrphan(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		port := freePort(t)
		cmd, out := startRun(t, "both", port)
		started := readThrough(t, out, "Ctrl-C stops both")
		for _, want := range []string{
			"curl -i 'http://127.0.0.1:" + port + "/echo'",
			"curl -N 'http://127.0.0.1:" + port + "/stream?n=10&ms=300'",
			"curl -i -H 'K-Network-Probe: queue' 'http://127.0.0.1:" + port + "/'",
			"quiet 0\n",
		} {
			if !strings.Contains(started, want) {
				t.Errorf("the output lacks %q:\n%s", want, started)
			}
		}
		cmd.Process.Signal(sig)
		rest, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		gate, demo := strings.Index(string(rest), "gate stopped"), strings.Index(string(rest), "demo stopped")
		if gate < 0 || demo < gate {
			t.Errorf("%v: want the gate to stop, then the container:\n%s", sig, rest)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: run ended with %v, want success", sig, err)
		}
	}
}

func TestAKilledRunLeavesNoOrphan(t *testing.T) {
	cmd, out := startRun(t, "both", freePort(t))
	readThrough(t, out, "Ctrl-C stops both")
	cmd.Process.Kill()
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("run exited with %v before it was killed", err)
	}
}

func TestAGateThatFailsIsReportedAndTheContainerStopped(t *testing.T) {
	cmd, out := startRun(t, "gate fails", freePort(t))
	all, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bad setting\n", "run: the gate ended: exit status 2\n"} {
		if !strings.Contains(string(all), want) {
			t.Errorf("the output lacks %q:\n%s", want, all)
		}
	}
	if err := cmd.Wait(); err == nil || err.Error() != "exit status 1" {
		t.Errorf("run exited with %v, want exit status 1", err)
	}
}

func TestAPortInUseOrInvalidIsReportedBeforeAnythingStarts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, usedPort, _ := net.SplitHostPort(listener.Addr().String())
	none := settings{gate: "/nonexistent", demo: "/nonexistent"}
	for _, c := range []struct{ port, userPort, want string }{
		{usedPort, "", "PORT=" + usedPort + ": the port is in use: stop the process that listens there, or choose another: make run PORT=<port>"},
		{freePort(t), usedPort, "USER_PORT=" + usedPort + ": the port is in use: stop the process that listens there, or choose another: make run USER_PORT=<port>"},
		{"http", "", `PORT="http": want a port from 1 to 65535`},
		{freePort(t), "0", `USER_PORT="0": want a port from 1 to 65535`},
	} {
		cfg := none
		cfg.port, cfg.userPort = c.port, c.userPort
		if err := run(t.Context(), cfg, io.Discard, io.Discard); err == nil || err.Error() != c.want {
			t.Errorf("ports %s and %q: %v, want %s", c.port, c.userPort, err, c.want)
		}
	}
}

func TestTheGatesPortIsNeverUsedForTheContainer(t *testing.T) {
	cfg := settings{port: preferredPort}
	if err := pickUserPort(&cfg); err != nil || cfg.userPort == preferredPort {
		t.Errorf("picked %s, %v", cfg.userPort, err)
	}
}
