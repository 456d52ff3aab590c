package examples

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// checked runs the gate with --check, and fails if the gate prints a warning.
func checked(t *testing.T, env ...string) {
	t.Helper()
	check := exec.Command(filepath.Join(bin, "queue"), "--check")
	check.Env = env
	var warnings strings.Builder
	check.Stderr = &warnings
	if err := check.Run(); err != nil || warnings.Len() > 0 {
		t.Errorf("%q: %v\n%s", env, err, warnings.String())
	}
}

// The schema of the Compose specification validates the file. --check validates the
// settings of the gate.
func TestTheComposeFileIsValid(t *testing.T) {
	text, err := os.ReadFile("compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  "compose",
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: text}},
	}, func(o *loader.Options) { o.SetProjectName("example", true) })
	if err != nil {
		t.Fatal(err)
	}
	gate := project.Services["gate"]
	var env []string
	for name, value := range gate.Environment {
		env = append(env, name+"="+*value)
	}
	checked(t, env...)
	serveAs(t, env, func(ports []string) *process {
		start(t, nil, "demo", "--port", ports[1])
		return start(t, nil, "queue")
	}, func(p *process, port string) {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			health := exec.Command(filepath.Join(bin, "queue"), gate.HealthCheck.Test[2:]...)
			health.Env = append(env, "QUEUE_SERVING_PORT="+port)
			out, err := health.CombinedOutput()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the health check: %v\n%s", err, out)
			}
		}
	})
	t.Log("its services have run as the file says, without a container engine")
	if test := gate.HealthCheck.Test; !slices.Equal(test, []string{"CMD", "/usr/local/bin/queue", "probe"}) {
		t.Errorf("health check %q", test)
	}
	stages, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range project.Services {
		if !strings.Contains(string(stages), " AS "+service.Build.Target+"\n") {
			t.Errorf("%s: the Dockerfile has no stage %q", name, service.Build.Target)
		}
	}
}

// systemd-analyze verifies the unit if it is installed. --check validates the settings of
// the gate.
func TestTheSystemdUnitIsValid(t *testing.T) {
	unit, err := os.ReadFile("systemd/app.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(unit), "\nEnvironment=")
	if !found {
		t.Fatal("no Environment")
	}
	line, _, _ = strings.Cut(line, "\n")
	env := strings.Fields(line)
	checked(t, env...)
	runAsSystemdDoes(t, string(unit), env)

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit is not verified")
		return
	}
	// The unit refers to programs and targets that this machine lacks, so create stubs.
	root := t.TempDir()
	for _, name := range []string{"/usr/local/bin/queue", "/usr/local/bin/app"} {
		write(t, filepath.Join(root, name), "", 0o755)
	}
	for _, name := range []string{"sysinit", "basic", "shutdown", "network", "network-online", "multi-user"} {
		write(t, filepath.Join(root, "/usr/lib/systemd/system", name+".target"), "[Unit]\nDescription="+name+"\n", 0o644)
	}
	write(t, filepath.Join(root, "/etc/systemd/system/app.service"), string(unit), 0o644)
	verify := exec.Command(analyze, "verify", "--man=no", "--root="+root, "app.service")
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// The settings of the unit are valid, and its reload upgrades the gate.
func TestTheSystemdUnitOfAGateWithoutAnApplicationIsValid(t *testing.T) {
	text, err := os.ReadFile("systemd/gate.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		unit[name] = value
	}
	checked(t, strings.Fields(unit["Environment"])...)
	if want := unit["ExecStart"] + " upgrade --background"; unit["ExecReload"] != want {
		t.Errorf("ExecReload=%s, want %s", unit["ExecReload"], want)
	}
	if unit["Type"] != "notify" || unit["FileDescriptorStoreMax"] == "" {
		t.Error("want Type=notify and FileDescriptorStoreMax")
	}
}

// serveAs tests a program with the settings in env, except that it uses free ports. The
// function begin starts the program, and the function up waits until it listens. Then
// serveAs sends one request and SIGTERM, and expects exit code 0.
func serveAs(t *testing.T, env []string, begin func(ports []string) *process, up func(p *process, port string)) {
	t.Helper()
	ports := freePorts(t, 2)
	for _, pair := range append(env, "QUEUE_SERVING_PORT="+ports[0], "USER_PORT="+ports[1], "SIDE_PORTS=off",
		"DRAIN_QUIET_SECONDS=0", "DRAIN_SOCKET=@queuegate-examples-"+ports[0]) {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	p := begin(ports)
	up(p, ports[0])
	if status, body := get(t, "http://127.0.0.1:"+ports[0]+"/echo"); status != 200 || !strings.Contains(body, "GET /echo") {
		t.Errorf("%d %s", status, body)
	}
	p.end()
}

// runAsSystemdDoes starts the command of a unit and waits for the notification READY=1.
// Then it sends SIGTERM, after which the command must send STOPPING=1 and exit.
func runAsSystemdDoes(t *testing.T, unit string, env []string) {
	t.Helper()
	_, command, _ := strings.Cut(unit, "\nExecStart=")
	command, _, _ = strings.Cut(command, "\n")
	words := strings.Fields(command)
	for i, word := range words {
		words[i] = strings.NewReplacer("/usr/local/bin/queue", "queue", "/usr/local/bin/app", filepath.Join(bin, "demo")).Replace(word)
	}
	address := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told := func(want string) {
		t.Helper()
		_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
		for text := make([]byte, 4096); ; {
			n, err := socket.Read(text)
			if err != nil {
				t.Fatalf("no notification %s: %v", want, err)
			}
			if strings.Contains(string(text[:n]), want) {
				return
			}
		}
	}
	t.Setenv("NOTIFY_SOCKET", address)
	serveAs(t, env, func([]string) *process { return start(t, nil, words[0], words[1:]...) }, func(*process, string) { told("READY=1") })
	told("STOPPING=1")
	t.Log("its command has run as systemd would have run it, without systemd")
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
