package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// testTimeout is the timeout for a test that hangs.
const testTimeout = 2 * time.Minute

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startGate starts a gate in front of a container that responds when hold is closed. It
// returns the gate's ports.
func startGate(t *testing.T, unblock chan struct{}) (serving, metrics int) {
	t.Helper()
	container := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-unblock }))
	t.Cleanup(container.Close)
	_, port, _ := net.SplitHostPort(container.Listener.Addr().String())
	for range 5 {
		serving, metrics = freePort(t), freePort(t)
		var complaints bytes.Buffer
		gate := exec.Command(queue, "--port", strconv.Itoa(serving), "--user-port", port, "--side-ports", "off", "--metrics-port", strconv.Itoa(metrics),
			"--concurrency", "2", "--queue-capacity", "5", "--container-names", "web")
		gate.Env = []string{}
		gate.Stderr = &complaints
		if err := gate.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { _ = gate.Wait(); close(done) }()
		t.Cleanup(func() { _ = gate.Process.Kill(); <-done })
		for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", serving)); err == nil {
				_ = c.Close()
				return serving, metrics
			}
			select {
			case <-done:
				deadline = time.Now() // retry with other ports
			default:
			}
		}
		t.Log(complaints.String())
	}
	t.Fatal("the gate does not listen")
	return 0, 0
}

// terminal collects the output on a terminal.
type terminal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *terminal) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *terminal) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *terminal) shows(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !strings.Contains(s.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not shown:\n%q", text, s.String())
		}
	}
}

// startTop runs queuectl top in a pseudo-terminal, until quit is called.
func startTop(t *testing.T, args ...string) (screen *terminal, quit func()) {
	t.Helper()
	return startTopIn(t, 120, args...)
}

// startTopIn is startTop for a terminal with this number of columns.
func startTopIn(t *testing.T, columns uint16, args ...string) (screen *terminal, quit func()) {
	t.Helper()
	top := exec.Command(queuectl, append([]string{"top", "--interval", "100ms"}, args...)...)
	top.Env = append(os.Environ(), "TERM=xterm-256color")
	tty, err := pty.StartWithSize(top, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	screen, done := &terminal{}, make(chan error, 1)
	go io.Copy(screen, tty)
	go func() { done <- top.Wait() }()
	t.Cleanup(func() {
		_ = top.Process.Kill()
		_ = tty.Close()
	})
	return screen, func() {
		t.Helper()
		if _, err := tty.Write([]byte("q")); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("exited with %v", err)
			}
		case <-time.After(testTimeout):
			t.Error("q does not stop it")
		}
	}
}

func TestTopShowsAGateInATerminal(t *testing.T) {
	unblock := make(chan struct{})
	serving, metrics := startGate(t, unblock)
	screen, quit := startTop(t, "--port", strconv.Itoa(metrics))
	screen.shows(t, "IN FLIGHT")
	screen.shows(t, "0/2")
	screen.shows(t, "readiness    ready")

	var clients sync.WaitGroup
	for range 9 { // two in flight, five queued, two rejected
		clients.Go(func() {
			if response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", serving)); err == nil {
				response.Body.Close()
			}
		})
	}
	screen.shows(t, "2/2")
	screen.shows(t, "5/5")
	screen.shows(t, "queue-full")
	close(unblock)
	clients.Wait()
	screen.shows(t, "served")
	quit()
}

// gatePage serves the metrics of a gate with this number of requests in flight.
func gatePage(t *testing.T, inFlight int) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "queuegate_in_flight_requests %d\nqueuegate_concurrency_limit 9\nprocess_start_time_seconds %d\n", inFlight, 1000+inFlight)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestTopShowsTheCauseIn80Columns(t *testing.T) {
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "queuegate_in_flight_requests 3\nqueuegate_concurrency_limit 4\nqueuegate_queue_capacity 100\n"+
			"queuegate_container_state{container=\"web\",state=\"down\"} 1\n"+
			"queuegate_container_transitions_total{cause=\"refused\",container=\"web\",state=\"down\"} 1\n")
	}))
	defer gate.Close()
	screen, quit := startTopIn(t, 80, "127.0.0.1:1", gate.Listener.Addr().String())
	screen.shows(t, "\n\x1b[1;31m  web down (refused)\x1b[0m\x1b[K\r\n")
	quit()
}

func TestTopDrawsItsFirstFrameWithoutQueriesToTheTerminal(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts no connections
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	screen, quit := startTop(t, silent.Addr().String())
	screen.shows(t, "IN FLIGHT")
	shown := screen.String()
	quit()
	for query, name := range map[string]string{"\x1b]10;?": "foreground color", "\x1b]11;?": "background color", "\x1b[6n": "cursor position", "\x1b[c": "device attributes", "$p": "mode"} {
		if strings.Contains(shown, query) {
			t.Errorf("the terminal is asked for its %s: %q", name, shown)
		}
	}
}

func TestTopShowsThatAPodDisappearsAndReturns(t *testing.T) {
	first, second := gatePage(t, 1), gatePage(t, 2)
	addressFile := filepath.Join(t.TempDir(), "where")
	forwardTo := func(s *httptest.Server) {
		if err := os.WriteFile(addressFile, []byte(s.Listener.Addr().String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	forwardTo(first)
	fakeKubectl(t, fmt.Sprintf("echo \"Forwarding from $(cat %s) -> 9091\"\nexec sleep 60\n", addressFile))
	screen, quit := startTop(t, "pod/web-0")
	screen.shows(t, "1/9")
	first.CloseClientConnections()
	first.Close()
	screen.shows(t, "no response since")
	forwardTo(second)
	screen.shows(t, "2/9")
	quit()
}

func TestTopWithoutATerminalPrintsOneTable(t *testing.T) {
	unblock := make(chan struct{})
	close(unblock)
	_, metrics := startGate(t, unblock)
	address := fmt.Sprintf("127.0.0.1:%d", metrics)
	code, out, stderr := ctl(t, "", "top", address, "--interval", "100ms")
	// Until the gate has checked the container, the container is not ready.
	for deadline := time.Now().Add(testTimeout); code == 0 && !strings.Contains(out, " yes ") && time.Now().Before(deadline); {
		code, out, stderr = ctl(t, "", "top", address, "--interval", "100ms")
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], "GATE") || !strings.Contains(lines[1], "0/2") || !strings.Contains(lines[1], " yes ") {
		t.Errorf("code %d, %q, %q", code, out, stderr)
	}
	for args, want := range map[string]string{"top 127.0.0.1:1": "refused", "top -l a=b web": "or a selector", "top --interval 1ms": "100ms or more"} {
		if code, _, stderr := ctl(t, "", strings.Fields(args)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q", args, code, stderr)
		}
	}
}

func TestTopShowsAllPodsOfASelector(t *testing.T) {
	unblock := make(chan struct{})
	close(unblock)
	_, metrics := startGate(t, unblock)
	fakeKubectl(t, fmt.Sprintf(`case "$*" in
"get pods -l app=web -o json") echo '{"items":[
 {"metadata":{"name":"web-1"},"status":{"phase":"Running"},"spec":{"initContainers":[{"ports":[{"name":"queue-metrics","containerPort":9999}]}]}},
 {"metadata":{"name":"web-2"},"status":{"phase":"Running"},"spec":{}},
 {"metadata":{"name":"web-3"},"status":{"phase":"Pending"},"spec":{}}]}' ;;
"get pods -l app=none -o json") echo '{"items":[]}' ;;
"port-forward pod/web-1 :9999 --address 127.0.0.1" | "port-forward pod/web-2 :9091 --address 127.0.0.1")
	echo "Forwarding from 127.0.0.1:%d -> 1"; exec sleep 60 ;;
*) echo "no $*" >&2; exit 1 ;;
esac
`, metrics))
	code, out, stderr := ctl(t, "", "top", "-l", "app=web", "--interval", "100ms")
	if code != 0 || !strings.Contains(out, "\nweb-1 ") || !strings.Contains(out, "\nweb-2 ") || strings.Contains(out, "web-3") {
		t.Errorf("code %d, %q, %q", code, out, stderr)
	}
	if code, _, stderr := ctl(t, "", "top", "-l", "app=none"); code != 1 || !strings.Contains(stderr, "no pod with app=none is running") {
		t.Errorf("code %d, %q", code, stderr)
	}
}
