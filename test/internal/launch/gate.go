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
	Env    []string
	Ports  map[string]int // of the settings that were "free"; QUEUE_SERVING_PORT in any case
	Socket string         // of queue drain, unless a setting says another
	dir    string
}

// Options are how a gate is started.
type Options struct {
	Binary   string
	UserPort int
	// Settings are NAME=value. NAME=free is a port that nothing else has, and
	// that the gate is to listen on (for TLS, once it has a certificate). "ulimit -n 64" and "cgroup PATH" are limits
	// of the process, "arguments a b" its arguments.
	Settings []string
	// Stdout and Stderr are where it writes to; nil collects it in the Process.
	Stdout, Stderr *os.File
	Timeout        time.Duration // for it to listen
}

// StartGate runs the gate and returns when it listens. Without settings it has
// no side port, no quiet period in a drain, and its container counts as ready.
func StartGate(o Options) (g *Gate, err error) {
	for range 5 {
		if g, err = launchGate(o); err != nil {
			return nil, err
		}
		if g.Listens(o.Timeout) {
			return g, nil
		}
		g.End()
		// A port picked free may be taken by the time it is bound; nothing
		// else may end the gate.
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

// BaseEnv turns everything off that a test does not ask for; there is no
// certificate in dir.
func BaseEnv(dir string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"CERT_DIR=" + filepath.Join(dir, "none"),
		"QUEUE_SERVING_TLS_PORT=0", "ADMIN_PORT=0", "AUTOSCALER_METRICS_PORT=0", "METRICS_PORT=0", "PROFILING_PORT=0", "STATUS_PORT=0",
		"SERVING_READINESS_PROBE=none", // its connections would be among those that a test counts
	}
}

// ShortDir makes a directory whose path leaves room for the name of a Unix
// socket, which that of a test with a long name does not.
func ShortDir() (string, error) { return os.MkdirTemp("", "q") }

// Listens waits until the gate accepts on all its ports; false means that it
// has ended, or does not within the timeout.
func (g *Gate) Listens(timeout time.Duration) bool {
	for setting, port := range g.Ports {
		if setting == "QUEUE_SERVING_TLS_PORT" {
			continue
		}
		for deadline := time.Now().Add(timeout); !Accepts(At(port)); time.Sleep(2 * time.Millisecond) {
			if !g.Running() || time.Now().After(deadline) {
				return false
			}
		}
	}
	return g.Running()
}

// Addr is where the gate listens for that setting.
func (g *Gate) Addr(setting string) string { return At(g.Ports[setting]) }

// End kills the gate and removes what belongs to it.
func (g *Gate) End() {
	g.Kill()
	_ = os.RemoveAll(g.dir)
}
