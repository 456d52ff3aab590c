package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// checked runs the gate's own check over an environment, and wants no warning.
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

// The schema of the Compose specification, and what the gate says of its part.
func TestTheComposeFileIsRight(t *testing.T) {
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

// systemd's own opinion, where it is installed, and that of the gate.
func TestTheUnitOfSystemdIsRight(t *testing.T) {
	unit, err := os.ReadFile("systemd/app.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(unit), "\nEnvironment=")
	if !found {
		t.Fatal("no Environment")
	}
	line, _, _ = strings.Cut(line, "\n")
	checked(t, strings.Fields(line)...)

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit is not verified")
		return
	}
	// The unit names programs that only a host of its own has.
	root := t.TempDir()
	for _, name := range []string{"/usr/local/bin/queue", "/usr/local/bin/app", "/bin/kill"} {
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

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
