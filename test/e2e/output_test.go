package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// logPipe is a pipe for one of the gate's logs. A full pipe blocks the writer.
type logPipe struct{ read, write *os.File }

func newLogPipe(t *testing.T) logPipe {
	t.Helper()
	var fds [2]int
	must(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	p := logPipe{os.NewFile(uintptr(fds[0]), "read end"), os.NewFile(uintptr(fds[1]), "write end")}
	t.Cleanup(func() { _, _ = p.read.Close(), p.write.Close() })
	return p
}

func newFullPipe(t *testing.T) logPipe {
	t.Helper()
	p := newLogPipe(t)
	fd := int(p.write.Fd())
	must(t, unix.SetNonblock(fd, true))
	for {
		if _, err := unix.Write(fd, make([]byte, 4096)); err != nil {
			if err != unix.EAGAIN {
				t.Fatalf("filling a pipe: %v", err)
			}
			break
		}
	}
	must(t, unix.SetNonblock(fd, false))
	return p
}

// streams returns the streams of a process that writes one of its logs to the pipe p. The
// parameter log is the name of that log: "stdout" or "stderr".
func (p logPipe) streams(log string) streams {
	if log == "stdout" {
		return streams{stdout: p.write}
	}
	return streams{stderr: p.write}
}

// logLabels maps stdout and stderr to the label values of their metrics.
var logLabels = map[string]string{"stdout": "request", "stderr": "gate"}

// startTalkativeGate starts a gate that writes a line per request to both logs. dropped
// returns the number of dropped lines of one log.
func startTalkativeGate(t *testing.T, s streams, k *container) (g *gate, dropped func(log string) float64) {
	t.Helper()
	port := freePort(t)
	g = startGateOn(t, s, k, "SERVING_ENABLE_REQUEST_LOG=true", "SERVING_REQUEST_LOG_TEMPLATE={{.Request.RequestURI}}",
		"SERVING_LOGGING_LEVEL=debug", fmt.Sprintf("METRICS_PORT=%d", port))
	page := fmt.Sprintf("127.0.0.1:%d", port)
	g.awaitPorts(page)
	return g, func(log string) float64 {
		return figures(g, page)[`queuegate_dropped_log_lines_total{log="`+logLabels[log]+`"}`]
	}
}

// exchanges sends n requests and two probes. The targets are longer than 16 KiB, so that
// each request makes a long line in the log.
func exchanges(t *testing.T, k *container, g *gate, n int) {
	t.Helper()
	c := dial(t, g)
	defer c.close()
	var p *peer
	for i := range n {
		c.send(request("GET", fmt.Sprintf("/%d/%s", i, strings.Repeat("x", 16<<10))))
		if p == nil {
			p = k.accept()
		}
		p.head()
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		c.response("GET").is(200, "ok")
	}
	p.close()
	c.get("/", "K-Network-Probe: probe", "K-Network-Hash: h").is(200, "")
	c.get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
}

func TestTheGateContinuesWhenTheReaderOfItsLogCloses(t *testing.T) {
	t.Parallel()
	for log := range logLabels {
		t.Run(log, func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			pipe := newLogPipe(t)
			g, dropped := startTalkativeGate(t, pipe.streams(log), k)
			c, p := inFlight(t, k, g, "/before")
			must(t, pipe.read.Close())
			exchanges(t, k, g, 3)
			eventually(t, "lines are counted as dropped", func() bool { return dropped(log) >= 3 })
			finish(c, p)
			g.signal(syscall.SIGTERM)
			g.ends(0)
		})
	}
}

func TestALogThatIsNotReadDelaysNothing(t *testing.T) {
	t.Parallel()
	for log := range logLabels {
		t.Run(log, func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			g, dropped := startTalkativeGate(t, newFullPipe(t).streams(log), k)
			exchanges(t, k, g, 400) // 6.4 MB of log lines
			if dropped(log) == 0 {
				t.Error("no line is counted as dropped")
			}
			c, p := inFlight(t, k, g, "/")
			g.signal(syscall.SIGTERM)
			g.awaitDraining()
			finish(c, p)
			start := time.Now()
			g.ends(0)
			t.Logf("ended %v after the last request", time.Since(start))
		})
	}
}

func TestASecondSignalEndsTheProcessWhileItsLogsAreNotRead(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _ := startTalkativeGate(t, streams{newFullPipe(t).write, newFullPipe(t).write}, k)
	exchanges(t, k, g, 3)
	c, p := inFlight(t, k, g, "/")
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	start := time.Now()
	g.signal(syscall.SIGTERM)
	g.ends(1)
	t.Logf("exited %v after the second signal", time.Since(start))
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("exited %v after the second signal, want 1 s at most", took)
	}
	c.readAll()
	p.awaitClose()
}

func TestAFailedStartEndsAlthoughStderrIsBlocked(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", ":0")
	must(t, err)
	defer listener.Close()
	for setting, code := range map[string]int{
		"USER_PORT=x": 2,
		`SERVING_LOGGING_CONFIG={"outputPaths":["/none/x"]}`:                      2,
		fmt.Sprintf("QUEUE_SERVING_PORT=%d", listener.Addr().(*net.TCPAddr).Port): 1,
	} {
		closed := newLogPipe(t)
		must(t, closed.read.Close())
		for state, pipe := range map[string]logPipe{"closed": closed, "full": newFullPipe(t)} {
			p := startProcessOn(t, pipe.streams("stderr"), append(baseEnv(t), setting), queueBinary)
			if got := p.exitCode(); got != code {
				t.Errorf("stderr %s, %s: code %d, want %d", state, setting, got, code)
			}
		}
	}
}

func TestAFailedStartReportsEveryProblem(t *testing.T) {
	t.Parallel()
	pipe := newLogPipe(t)
	var flags []string
	for i := range 2000 {
		flags = append(flags, fmt.Sprintf("--%d-%s", i, strings.Repeat("x", 100)))
	}
	p := startProcessOn(t, pipe.streams("stderr"), baseEnv(t), queueBinary, flags...)
	must(t, pipe.write.Close())
	text, err := io.ReadAll(pipe.read)
	must(t, err)
	if code := p.exitCode(); code != 2 || strings.Count(string(text), "unknown flag") != len(flags) {
		t.Errorf("code %d, %d of %d problems reported", code, strings.Count(string(text), "unknown flag"), len(flags))
	}
}
