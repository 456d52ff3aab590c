package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Gate is a running gate.
type Gate struct {
	*Process
	Env []string
	// Ports contains the port of QUEUE_SERVING_PORT, and of each setting that was given
	// as NAME=free. The key is the name of the setting.
	Ports  map[string]int
	Socket string // path of the drain socket, unless Options.Settings sets DRAIN_SOCKET
	dir    string
}

// Options configure the start of a gate.
type Options struct {
	Binary   string
	UserPort int
	// Settings contains environment variables of the gate, as NAME=value. NAME=free
	// sets an unused port. StartGate waits until the gate listens on it, except on the
	// TLS port, which the gate opens only with a certificate. Three forms are not
	// variables: "ulimit -n 64" limits the process, "cgroup PATH" puts the process into
	// a control group, and "arguments a b" sets its command-line arguments.
	Settings []string
	// Stdout and Stderr are the outputs; nil = collect the output in Process.
	Stdout, Stderr *os.File
	Timeout        time.Duration // maximum time until the gate listens
}

// StartGate starts the gate and waits until it listens. By default the gate has no side
// ports and no quiet period, and is always ready.
func StartGate(o Options) (g *Gate, err error) {
	for range 5 {
		if g, err = launchGate(o); err != nil {
			return nil, err
		}
		if g.Listens(o.Timeout) {
			return g, nil
		}
		g.End()
		// If another process has taken the port, StartGate tries again with another
		// port. If the gate does not listen for any other reason, that is an error.
		if !strings.Contains(g.Stderr.String(), "in use") {
			break
		}
	}
	return nil, fmt.Errorf("the gate does not listen: %v\n%s", g.Cmd.ProcessState, g.Stderr.String())
}

func launchGate(o Options) (*Gate, error) {
	dir, err := ShortDir()
	if err != nil {
		return nil, err
	}
	g := &Gate{Ports: map[string]int{}, Env: BaseEnv(dir), Socket: filepath.Join(dir, "drain.sock"), dir: dir}
	before, args := "", []string(nil)
	settings := slices.Concat([]string{
		"QUEUE_SERVING_PORT=free", "USER_PORT=" + strconv.Itoa(o.UserPort), "DRAIN_SOCKET=" + g.Socket, "DRAIN_QUIET_SECONDS=0",
	}, o.Settings)
	for _, s := range settings {
		if limit, ok := strings.CutPrefix(s, "ulimit "); ok {
			before += "ulimit " + limit + " && "
		} else if group, ok := strings.CutPrefix(s, "cgroup "); ok {
			before += "echo $$ >" + group + "/cgroup.procs && "
		} else if text, ok := strings.CutPrefix(s, "arguments "); ok {
			args = append(args, strings.Fields(text)...)
		} else if name, ok := strings.CutSuffix(s, "=free"); ok {
			g.Ports[name] = Port()
			g.Env = append(g.Env, fmt.Sprintf("%s=%d", name, g.Ports[name]))
		} else {
			if name, value, _ := strings.Cut(s, "="); g.Ports[name] != 0 {
				if g.Ports[name], err = strconv.Atoi(value); err != nil {
					return nil, fmt.Errorf("%s: %w", s, err)
				}
			}
			g.Env = append(g.Env, s)
		}
	}
	cmd := exec.Command(o.Binary, args...)
	if before != "" {
		cmd = exec.Command("/bin/sh", append([]string{"-c", before + `exec "$0" "$@"`, o.Binary}, args...)...)
	}
	cmd.Env = g.Env
	if o.Stdout != nil {
		cmd.Stdout = o.Stdout
	}
	if o.Stderr != nil {
		cmd.Stderr = o.Stderr
	}
	g.Process, err = Start(cmd)
	return g, err
}

// BaseEnv turns off all optional features. CERT_DIR is a path in dir that does not exist.
func BaseEnv(dir string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GODEBUG=" + os.Getenv("GODEBUG"),
		"CERT_DIR=" + filepath.Join(dir, "none"),
		"QUEUE_SERVING_TLS_PORT=0", "ADMIN_PORT=0", "AUTOSCALER_METRICS_PORT=0", "METRICS_PORT=0", "PROFILING_PORT=0", "STATUS_PORT=0",
		"SERVING_READINESS_PROBE=none", // connections of probes would disturb tests
	}
}

// ShortDir creates a directory whose path is short enough for a Unix socket. T.TempDir
// has the name of the test, which may be long.
func ShortDir() (string, error) { return os.MkdirTemp("", "q") }

// Listens waits until the gate listens on all its ports. It returns false if the gate
// ends, or after the timeout.
func (g *Gate) Listens(timeout time.Duration) bool {
	for setting, port := range g.Ports {
		if setting == "QUEUE_SERVING_TLS_PORT" {
			continue
		}
		for deadline := time.Now().Add(timeout); !Accepts(Address(port)); time.Sleep(2 * time.Millisecond) {
			if !g.Running() || time.Now().After(deadline) {
				return false
			}
		}
	}
	return g.Running()
}

// Addr returns the address of a setting's port.
func (g *Gate) Addr(setting string) string { return Address(g.Ports[setting]) }

// End kills the gate and removes its files.
func (g *Gate) End() {
	g.Kill()
	_ = os.RemoveAll(g.dir)
}
