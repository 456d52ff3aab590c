// Package target runs the measured programs: proxies that a YAML file describes, on free
// ports in front of an origin.
package target

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Direct is the target without a proxy: the load generator connects to the origin.
const Direct = "direct"

// Abilities that a scenario may require.
const (
	Limit     = "limit"      // a concurrency limit with a queue
	Bound     = "bound"      // a concurrency limit that queues or rejects excess requests
	AutoLimit = "auto-limit" // an adaptive limit
	Fairness  = "fairness"   // a fair queue, keyed by a header field
	HTTP      = "http"       // HTTP/1, not a TCP relay
	H2C       = "h2c"        // HTTP/2 without TLS
	WebSocket = "websocket"  // upgrades
	// H2CToHTTP1 is HTTP/2 without TLS for clients and HTTP/1 to the container.
	H2CToHTTP1 = "h2c-to-http1"
	Hold       = "hold"   // requests wait until the container listens
	Probe      = "probe"  // the platform's readiness probe (K-Network-Probe)
	Engine     = "engine" // uses the metrics of a model server to admit requests
	Many       = "many"   // several instances on one machine
	Start      = "start"  // the harness starts the program: all targets except Direct and peers
)

var abilities = []string{Limit, Bound, AutoLimit, Fairness, HTTP, H2C, H2CToHTTP1, WebSocket, Hold, Probe, Engine, Many, Start}

// ServePort is the name of the port to which the load generator connects.
const ServePort = "serve"

// readyPort is the name of an additional port that serves HTTP/1. If clients use HTTP/2,
// the port ServePort may support only HTTP/2. The harness then sends the readiness
// request, which uses HTTP/1, to this additional port.
const readyPort = "ready"

// A Target describes how to run a program as a proxy. Command, Env and the files are
// templates (text/template); targets.yaml lists their variables.
type Target struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"`
	// Build is a package of this repository that the harness builds. If Build is empty,
	// the harness uses an installed program. BinaryEnv is the name of an environment
	// variable with the path of this program. If the variable is not set, the program is
	// Binary.
	Build     string `yaml:"build"`
	Binary    string `yaml:"binary"`
	BinaryEnv string `yaml:"binary_env"`
	// Get says how to get the binary.
	Get     string            `yaml:"get"`
	Version []string          `yaml:"version"` // arguments; the version is the first line of output
	Command []string          `yaml:"command"`
	Env     map[string]string `yaml:"env"`
	// Ports are the names of the ports, including ServePort.
	Ports []string `yaml:"ports"`
	// Files are the templates of files, by file name.
	Files map[string]string `yaml:"files"`
	// Ready is a path that responds with 200 when the target is ready.
	Ready string   `yaml:"ready"`
	Does  []string `yaml:"does"`
	// Profile describes the target's pprof pages.
	Profile *Profile `yaml:"profile"`

	templates fs.FS
	path      string         // path of a program that the harness starts
	peer      netip.AddrPort // address of a peer
}

// Profile describes how to get the profiles of a Go program.
type Profile struct {
	Env  map[string]string `yaml:"env"`
	Port string            `yaml:"port"`
}

var nameRE = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// Parse parses the text of a targets file. The argument templates has the template files
// to which Target.Files refers. If targets have several mistakes, the error lists them.
func Parse(text []byte, templates fs.FS) ([]*Target, error) {
	var file struct {
		Targets []*Target `yaml:"targets"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("reading targets: %w", err)
	}
	if len(file.Targets) == 0 {
		return nil, errors.New("reading targets: the file has none")
	}
	var problems []error
	names := map[string]bool{Direct: true}
	for i, t := range file.Targets {
		if t == nil {
			problems = append(problems, fmt.Errorf("target %d is empty", i+1))
			continue
		}
		if names[t.Name] {
			problems = append(problems, fmt.Errorf("target %d: name %q is already used", i+1, t.Name))
		}
		names[t.Name] = true
		t.templates = templates
		for _, err := range t.check() {
			problems = append(problems, fmt.Errorf("target %d (%q): %w", i+1, t.Name, err))
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("reading targets: %w", errors.Join(problems...))
	}
	return append([]*Target{{
		Name:  Direct,
		About: "the origin itself, without a proxy",
		Ports: []string{ServePort},
		Ready: "/",
		Does:  []string{HTTP, H2C, WebSocket},
	}}, file.Targets...), nil
}

func (t *Target) check() (problems []error) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !nameRE.MatchString(t.Name) {
		report("name must be lower-case letters, digits and hyphens")
	}
	if (t.Build == "") == (t.Binary == "" && t.BinaryEnv == "") {
		report("either build, or binary or binary_env, must be given")
	}
	if t.Build == "" && t.Get == "" {
		report("get is empty: a missing binary could not be explained")
	}
	if len(t.Command) == 0 {
		report("command is empty")
	}
	if t.Ready == "" {
		t.Ready = "/"
	}
	if !strings.HasPrefix(t.Ready, "/") {
		report("ready is %q, must begin with a slash", t.Ready)
	}
	if !slices.Contains(t.Ports, ServePort) {
		t.Ports = append([]string{ServePort}, t.Ports...)
	}
	for _, ability := range t.Does {
		if !slices.Contains(abilities, ability) {
			report("does %q is unknown; known are %s", ability, strings.Join(abilities, ", "))
		}
	}
	t.Does = append(t.Does, Start)
	if t.Profile != nil && !slices.Contains(t.Ports, t.Profile.Port) {
		report("profile.port is %q, must be one of ports (%s)", t.Profile.Port, strings.Join(t.Ports, ", "))
	}
	if len(problems) == 0 {
		// Render all templates now, so that mistakes in them are found before the first
		// measurement.
		for _, options := range []Options{{Origin: 1}, {Origin: 1, Limit: 1, QueueCapacity: 1, H2C: true, H2Clients: true, Profile: true}} {
			ports := map[string]int{}
			for i, name := range t.Ports {
				ports[name] = i + 1
			}
			if _, err := t.render("/nowhere", "/nowhere/binary", ports, options); err != nil {
				report("%w", err)
				break
			}
		}
	}
	return problems
}

// Can reports whether the target has all abilities in needs. If it does not, the result
// missing is the first ability that the target lacks.
func (t *Target) Can(needs ...string) (missing string, ok bool) {
	for _, n := range needs {
		if !slices.Contains(t.Does, n) {
			return n, false
		}
	}
	return "", true
}

// ErrMissing reports a binary that is not installed.
var ErrMissing = errors.New("missing")

// Find finds the binary of the target, or builds it in dir from the sources at root.
// The parameter chosen is the path that the user has given for the binary, or "". If no
// path is given and the binary is not installed, the error wraps ErrMissing and says how
// to get the binary.
func (t *Target) Find(ctx context.Context, root, dir, chosen string) (err error) {
	switch {
	case !t.Started():
		return nil
	case chosen != "":
		if t.path, err = exec.LookPath(chosen); err != nil {
			return fmt.Errorf("binary of %s: %w", t.Name, err)
		}
	case t.Build != "":
		t.path = filepath.Join(dir, t.Name)
		tags, _ := os.ReadFile(filepath.Join(root, t.Build, "tags")) // only the gate has build tags
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", strings.TrimSpace(string(tags)), "-ldflags", "-s -w", "-o", t.path, ".")
		build.Dir = filepath.Join(root, t.Build)          // the gate and the harness are different modules
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in the Makefile
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", t.Name, err, out)
		}
	default:
		if t.path, err = exec.LookPath(cmp.Or(os.Getenv(t.BinaryEnv), t.Binary)); err != nil {
			return fmt.Errorf("%s: %w: %w; %s", t.Name, ErrMissing, err, t.Get)
		}
	}
	if t.path, err = filepath.Abs(t.path); err != nil {
		return fmt.Errorf("binary of %s: %w", t.Name, err)
	}
	return nil
}

// BinarySize returns the size of the binary in bytes, or 0 without a binary.
func (t *Target) BinarySize() (int64, error) {
	if t.path == "" {
		return 0, nil
	}
	info, err := os.Stat(t.path)
	if err != nil {
		return 0, fmt.Errorf("binary of %s: %w", t.Name, err)
	}
	return info.Size(), nil
}

// ReadVersion returns the version that the binary prints, or "".
func (t *Target) ReadVersion(ctx context.Context) string {
	if len(t.Version) == 0 || t.path == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, t.path, t.Version...).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
