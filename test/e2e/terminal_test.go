package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// onTerminal is a gate with an application in the foreground of a terminal.
type onTerminal struct {
	*gate
	keys *os.File
	text *launch.Output // output
}

// startOnTerminal starts a gate as a session leader, with settings NAME=value and a
// command line, and waits until the application listens.
func startOnTerminal(t *testing.T, env []string, command string) *onTerminal {
	t.Helper()
	o := launchOnTerminal(t, env, command)
	o.shows("listening")
	return o
}

// launchOnTerminal is startOnTerminal, but does not wait.
func launchOnTerminal(t *testing.T, env []string, command string) *onTerminal {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	master, slave := openTerminal(t)
	port := freePort(t)
	g := &gate{addr: launch.Address(port)}
	g.env = append(baseEnv(t), append([]string{applicationMode + "=session", fmt.Sprintf("QUEUE_SERVING_PORT=%d", port),
		fmt.Sprintf("USER_PORT=%d", freePort(t)), "DRAIN_SOCKET=" + shortTempDir(t) + "/d.sock", "DRAIN_QUIET_SECONDS=0"}, env...)...)
	cmd := exec.Command(self, queueBinary, "--", command)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.env, slave, slave, slave
	p, err := launch.Start(cmd)
	must(t, err)
	t.Cleanup(p.Kill)
	g.process = &process{p, t}
	terminal := &onTerminal{g, master, new(launch.Output)}
	go func() {
		for b := make([]byte, 1<<10); ; {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			_, _ = terminal.text.Write(b[:n])
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", terminal.text.String())
		}
	})
	return terminal
}

func (o *onTerminal) shows(text string) {
	o.t.Helper()
	eventually(o.t, "the terminal shows "+text, func() bool { return strings.Contains(o.text.String(), text) })
}

func (o *onTerminal) press(keys string) {
	o.t.Helper()
	_, err := o.keys.WriteString(keys)
	must(o.t, err)
}

func TestCtrlCStartsADrainBeforeTheApplicationIsSignalled(t *testing.T) {
	t.Parallel()
	o := startOnTerminal(t, nil, strings.TrimPrefix(wrapper(t, "trap : INT"), "arguments -- "))
	blocked := dial(t, o.gate)
	blocked.send(request("GET", "/hold"))
	blocked.head()
	o.press(ctrlC)
	o.awaitDraining()
	if strings.Contains(o.text.String(), "interrupt with") {
		t.Error("the application got its signal while a request was under way")
	}
	o.fetch("/release")
	blocked.chunked()
	blocked.close()
	o.ends(applicationExit)
	o.shows("interrupt with 0 open")
}

func TestAnApplicationThatReadsTheTerminalGetsTheForeground(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	for _, command := range []string{self, strings.TrimPrefix(wrapper(t, "trap : INT"), "arguments -- ")} {
		o := startOnTerminal(t, []string{readsStdin + "=1"}, command)
		o.press("first\n")
		o.shows(`read "first"`)
		o.press(ctrlZ)
		eventually(t, "the gate is stopped", func() bool { return o.state() == "T" })
		o.signal(syscall.SIGCONT)
		o.press("second\n")
		o.shows(`read "second"`)
		o.fetch("/")
		o.press(ctrlC)
		o.shows("interrupt with 0 open")
		o.ends(applicationExit)
	}
}

func TestAnApplicationInterruptedAtTheTerminalIsNotAnError(t *testing.T) {
	t.Parallel()
	path := shortTempDir(t) + "/app.sh"
	must(t, os.WriteFile(path, []byte("#!/bin/sh\necho listening\nread first\necho \"read $first\"\nread second\n"), 0o755))
	o := startOnTerminal(t, nil, path)
	o.press("line\n")
	o.shows("read line")
	o.press(ctrlC)
	o.ends(128 + int(syscall.SIGINT))
	o.shows("interrupted at the terminal")
	if strings.Contains(o.text.String(), "ERROR") {
		t.Error("Ctrl-C is logged as an error")
	}
}

func TestATerminalShowsAddressesAndALineForEachRequest(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	for _, c := range []struct {
		settings []string
		line     string // log line of the request; "" = none
	}{
		{nil, `  \x1b\[34mINFO\x1b\[0m  GET /pid \x1b\[32m200\x1b\[0m [0-9.]+[mµ]?s\r\n`},
		{[]string{"NO_COLOR=1"}, `  INFO  GET /pid 200 [0-9.]+[mµ]?s\r\n`},
		{[]string{"TERM=dumb", "SERVING_ENABLE_REQUEST_LOG=true"}, `  INFO  GET /pid 200 [0-9.]+[mµ]?s\r\n`},
		{[]string{"SERVING_ENABLE_REQUEST_LOG=false"}, ""},
		{[]string{"SERVING_ENABLE_REQUEST_LOG=true", "SERVING_REQUEST_LOG_TEMPLATE=got {{.Request.RequestURI}}"}, `got /pid\r\n`},
	} {
		status := freePort(t)
		o := startOnTerminal(t, append([]string{fmt.Sprintf("STATUS_PORT=%d", status), "CERT_DIR="}, c.settings...), self)
		o.fetch("/pid")
		o.signal(syscall.SIGTERM)
		o.ends(applicationExit)
		o.shows(fmt.Sprintf("exitCode\": %d}\r\n", applicationExit))
		text := o.text.String()
		for _, want := range []string{
			fmt.Sprintf("serving on http://%s/ for the application on port ", strings.Replace(o.addr, "127.0.0.1", "localhost", 1)),
			fmt.Sprintf("status page: http://127.0.0.1:%d/\r\n", status),
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q: the terminal lacks %q", c.settings, want)
			}
		}
		want := 1
		if c.line == "" {
			want = 0
		}
		if n := strings.Count(text, "/pid"); n != want || !regexp.MustCompile(c.line).MatchString(text) {
			t.Errorf("%q: %d lines about the request, want %d like %s", c.settings, n, want, c.line)
		}
		if unexpected := regexp.MustCompile(`"pod"|"severity"|httpRequest|/var/lib/knative`).FindString(text); unexpected != "" {
			t.Errorf("%q: the terminal shows %s", c.settings, unexpected)
		}
		if strings.HasPrefix(strings.Join(c.settings, " "), "NO_COLOR") && strings.Contains(text, "\x1b") {
			t.Error("NO_COLOR: the terminal shows colors")
		}
	}
}

func TestARestartedApplicationDoesNotInheritIgnoredSignals(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	o := launchOnTerminal(t, []string{"IDLE_STOP=10ms"}, self)
	o.shows("the application is asleep")
	// The request starts the application again.
	text := regexp.MustCompile(`(?m)^SigIgn:\s*(\w+)`).FindStringSubmatch(o.fetch("/status"))[1]
	ignored, err := strconv.ParseUint(text, 16, 64)
	must(t, err)
	if ignored&(1<<(syscall.SIGTTOU-1)) != 0 {
		t.Errorf("SigIgn (proc(5)) of the application is %s, with SIGTTOU", text)
	}
}

// state returns the process state, a letter (proc(5)).
func (p *process) state() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	must(p.t, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}
