package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/probe/check"
)

// Spec is the readiness probe of a container, with all defaults applied.
type Spec struct {
	Container string // unique among the specs of one ParseSpec; safe in a header
	Index     int    // index among the specs of one ParseSpec
	Host      string // host to check; default 127.0.0.1
	Port      int    // 1 to 65535
	Checker   check.Checker

	Period           time.Duration // 0 = adaptive: the gate chooses the intervals
	Timeout          time.Duration // timeout of one check, at least 100 ms
	SuccessThreshold int           // at least 1
	FailureThreshold int           // at least 1; ignored without a Period
}

// String returns the protocol and address of the check, such as "http 127.0.0.1:8080".
func (s Spec) String() string {
	kind := "tcp"
	switch s.Checker.(type) {
	case *check.HTTP:
		kind = "http"
	case *check.GRPC:
		kind = "grpc"
	}
	return kind + " " + net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
}

// Adaptive reports whether the gate chooses the interval between checks.
func (s Spec) Adaptive() bool { return s.Period == 0 }

// SpecOptions are settings of ParseSpec that are not in its JSON.
type SpecOptions struct {
	UserPort       int      // default port
	MultiContainer bool     // ENABLE_MULTI_CONTAINER_PROBES: an empty array is allowed
	ContainerNames []string // CONTAINER_NAMES; used if there is exactly one name per probe
}

const (
	defaultHost      = "127.0.0.1"
	defaultContainer = "user-container"
	defaultTimeout   = time.Second // as in Kubernetes
	minTimeout       = 100 * time.Millisecond
	defaultFailures  = 3
	// maxSpecs limits the number of goroutines.
	maxSpecs = 64
)

const specSetting = "SERVING_READINESS_PROBE"

// ParseSpec parses SERVING_READINESS_PROBE: a probe object, or an array of them, in
// Kubernetes' format (core/v1 Probe). An empty value, null and an array of nulls mean a
// TCP check of the user port. "none" means no checks. Unknown fields are ignored. The
// error lists all problems with their fields.
func ParseSpec(text string, o SpecOptions) ([]Spec, error) {
	const standard = `{"tcpSocket":{}}`
	data := bytes.TrimSpace([]byte(text))
	switch {
	case string(data) == "none":
		return nil, nil
	case len(data) == 0 || isNull(data):
		data = []byte(standard)
	}
	if data[0] != '[' {
		f := readObject(specSetting, data)
		spec := f.spec(o)
		if err := f.err(); err != nil {
			return nil, err
		}
		spec.Container = containerName(0, 1, spec.Port, o.ContainerNames)
		return []Spec{spec}, nil
	}
	var elements []json.RawMessage
	switch err := json.Unmarshal(data, &elements); {
	case err != nil:
		return nil, fmt.Errorf("%s: is not valid JSON", specSetting)
	case len(elements) == 0 && !o.MultiContainer:
		return nil, fmt.Errorf("%s: is an empty array: give a probe, leave it empty, or set ENABLE_MULTI_CONTAINER_PROBES=true", specSetting)
	case len(elements) > maxSpecs:
		return nil, fmt.Errorf("%s: holds %d probes, at most %d are accepted", specSetting, len(elements), maxSpecs)
	}
	specs := make([]Spec, 0, len(elements))
	var problems []error
	for i, element := range elements {
		if isNull(element) {
			continue
		}
		f := readObject(fmt.Sprintf("%s[%d]", specSetting, i), element)
		spec := f.spec(o)
		problems = append(problems, f.err())
		spec.Index = len(specs)
		spec.Container = containerName(i, len(elements), spec.Port, o.ContainerNames)
		specs = append(specs, spec)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if len(specs) == 0 && len(elements) > 0 {
		return ParseSpec(standard, o)
	}
	return specs, nil
}

// containerName returns the name of the container with index i among n containers. If
// names has n distinct elements, the name is element i. Otherwise, if n is 1, the name is
// defaultContainer. Otherwise the name consists of i and port.
func containerName(i, n, port int, names []string) string {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		seen[safeName(name)] = true
	}
	switch {
	case len(names) == n && len(seen) == n:
		return safeName(names[i])
	case n == 1:
		return defaultContainer
	}
	return fmt.Sprintf("container-%d:%d", i, port)
}

// safeName makes name safe for headers and logs.
func safeName(name string) string {
	// In Kubernetes a container name is a DNS label, which has at most 63 bytes.
	const longest = 63
	if len(name) > longest {
		name = name[:longest]
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name)
}

func (f *fields) spec(o SpecOptions) Spec {
	if f.raw == nil {
		return Spec{}
	}
	s := Spec{
		Period:           f.seconds("periodSeconds", 0),
		Timeout:          f.seconds("timeoutSeconds", 0),
		SuccessThreshold: f.integer("successThreshold", 0),
		FailureThreshold: f.integer("failureThreshold", 0),
	}
	f.integer("initialDelaySeconds", 0)
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	s.Timeout = max(s.Timeout, minTimeout)
	s.SuccessThreshold = max(s.SuccessThreshold, 1)
	if s.FailureThreshold == 0 {
		s.FailureThreshold = defaultFailures
	}
	s.Checker, s.Host, s.Port = f.checker("", o.UserPort)
	return s
}

// Handlers are the supported probe handlers, by their names in Kubernetes.
var Handlers = []string{"httpGet", "tcpSocket", "grpc"}

// HandlersText lists Handlers for an error message.
var HandlersText = strings.Join(Handlers[:len(Handlers)-1], ", ") + " or " + Handlers[len(Handlers)-1]

// checker parses the handler in f, for example httpGet. It returns the Checker, and the
// host and port to check. If the parameter host is not empty, it replaces the handler's
// host. If the handler has no port, checker uses userPort, unless userPort is 0.
func (f *fields) checker(host string, userPort int) (p check.Checker, to string, port int) {
	kind := f.handler()
	if kind == "" {
		return nil, "", 0
	}
	g := readObject(f.pathOf(kind), f.raw[kind])
	to = defaultHost
	if kind != "grpc" {
		to = g.host()
	}
	if host != "" {
		to = host
	}
	port = g.port(userPort)
	address := net.JoinHostPort(to, strconv.Itoa(port))
	switch kind {
	case "httpGet":
		p = g.httpGet(address)
	case "tcpSocket":
		p = &check.TCP{Address: address}
	case "grpc":
		p = &check.GRPC{Address: address, Service: g.text("service")}
	}
	f.take(g)
	return p, to, port
}

// handler returns the name of the handler in f. If there is not exactly one, it records
// a problem and returns "".
func (f *fields) handler() string {
	if f.has("exec") {
		f.problem("exec", "exec probes run inside the container, where the gate cannot run them: use "+HandlersText+", or let the kubelet run it by a startupProbe or livenessProbe")
		return ""
	}
	var found []string
	for _, name := range Handlers {
		if f.has(name) {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return found[0]
	case 0:
		f.problem("", "has no handler: exactly one of "+strings.Join(Handlers, ", ")+" is needed")
	default:
		f.problem("", "has more than one handler ("+strings.Join(found, ", ")+"): exactly one is accepted")
	}
	return ""
}

func (f *fields) httpGet(address string) *check.HTTP {
	p := &check.HTTP{Address: address, Path: f.text("path"), Headers: f.headers("httpHeaders")}
	if p.Path == "" {
		p.Path = "/"
	}
	switch scheme := strings.ToLower(f.text("scheme")); scheme {
	case "http", "":
	case "https":
		p.TLS = true
	default:
		f.problem("scheme", fmt.Sprintf("is %q: accepted are HTTP and HTTPS", scheme))
	}
	return p
}
