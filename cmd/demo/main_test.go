package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// testTimeout only ends a test that hangs.
const testTimeout = 2 * time.Minute

// start runs the container on a free port until the test ends, and returns its address.
// At the end it checks that the container stops without an error.
func start(t *testing.T) string {
	t.Helper()
	address, stop := startStoppable(t)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return address
}

func startStoppable(t *testing.T) (address string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	lines, out := make(lineWriter, 16), make(chan error, 1)
	go func() { out <- run(ctx, settings{address: "127.0.0.1", port: "0"}, lines) }()
	var line string
	select {
	case line = <-lines:
	case err := <-out:
		t.Fatalf("run ended: %v", err)
	}
	_, address, ok := strings.Cut(strings.TrimSpace(line), "http://")
	if !ok {
		t.Fatalf("first line is %q, want the address", line)
	}
	return address, func() error {
		cancel()
		return <-out
	}
}

// lineWriter is a channel that receives the text of each Write call. The function run
// writes one whole line per call, so each received text is a line.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	return conn
}

func TestAFlagOverridesThePortVariableWhichOverridesTheDefault(t *testing.T) {
	environment := func(port string) func(string) string {
		return func(name string) string {
			if name != "PORT" {
				t.Errorf("looked up %s", name)
			}
			return port
		}
	}
	for _, c := range []struct {
		args []string
		env  string
		want string
	}{
		{nil, "", "8080"},
		{nil, "9000", "9000"},
		{[]string{"--port", "9001"}, "9000", "9001"},
		{[]string{"--port=0"}, "", "0"},
	} {
		cfg, err := parseSettings(c.args, environment(c.env), io.Discard)
		if err != nil || cfg.port != c.want || cfg.address != "127.0.0.1" {
			t.Errorf("args %q, PORT=%q: %+v, %v; want port %s on 127.0.0.1", c.args, c.env, cfg, err, c.want)
		}
	}
}

func TestBadSettingsAreNamedTogetherWithTheirValues(t *testing.T) {
	args := []string{"--address", "localhost", "--start-delay", "-1s"}
	_, err := parseSettings(args, func(string) string { return "80a" }, io.Discard)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`PORT="80a"`, `--address="localhost"`, "--start-delay=-1s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if _, err := parseSettings([]string{"--port=65536"}, func(string) string { return "" }, io.Discard); err == nil {
		t.Error("port 65536 accepted")
	}
	if _, err := parseSettings([]string{"extra"}, func(string) string { return "" }, io.Discard); err == nil {
		t.Error("stray argument accepted")
	}
}

func TestHelpListsEveryFlag(t *testing.T) {
	var help bytes.Buffer
	if _, err := parseSettings([]string{"--help"}, func(string) string { return "" }, &help); err != flag.ErrHelp {
		t.Fatalf("error is %v, want flag.ErrHelp", err)
	}
	for _, name := range []string{"-address", "-port", "-start-delay"} {
		if !strings.Contains(help.String(), name) {
			t.Errorf("help lacks %s:\n%s", name, &help)
		}
	}
}

func TestAPortInUseIsReportedWithTheSettingToChange(t *testing.T) {
	_, port, _ := net.SplitHostPort(start(t))
	err := run(t.Context(), settings{address: "127.0.0.1", port: port}, io.Discard)
	if err == nil || err.Error() != "port "+port+" is taken: choose another with --port or PORT" {
		t.Errorf("error is %v", err)
	}
}

func TestThePortStaysClosedDuringTheStartDelay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lines, ended := make(lineWriter, 16), make(chan error, 1)
	go func() {
		ended <- run(ctx, settings{address: "127.0.0.1", port: "0", startDelay: time.Hour}, lines)
	}()
	if line := <-lines; line != "demo: listening in 1h0m0s\n" {
		t.Errorf("first line is %q", line)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("a stop during the delay gives %v", err)
	}
	if len(lines) != 0 {
		t.Errorf("it continued with %q", <-lines)
	}
}
