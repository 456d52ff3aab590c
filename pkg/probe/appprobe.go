package probe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// AppProbeOptions are settings of ParseAppProbes that are not in its JSON.
type AppProbeOptions struct {
	Host     string // APP_PROBE_HOST; "" = 127.0.0.1
	OnChange func(AppChange)
}

// AppProbes runs application probes that were rewritten to point at the gate, in the
// format of Istio's ISTIO_KUBE_APP_PROBERS. All methods may be called concurrently.
type AppProbes struct {
	probes   map[string]*appProbe
	onChange func(AppChange)
}

type appProbe struct {
	path      string
	container string
	kind      string // livez, readyz, startupz, prestopz, poststartz
	timeout   time.Duration
	checker   check.Checker

	mu   sync.Mutex
	last check.Cause
}

// AppReply is the reply to an application probe. Its body is plain text, unless the
// application's response has another content type.
type AppReply struct {
	Status      int
	ContentType string
	Reason      string // value of K-Probe-Reason; empty if the application responded
	Body        []byte // at most 10 KiB
}

// AppChange is a change of the outcome of the probe with the given path.
type AppChange struct {
	Path      string
	Container string
	Kind      string
	From, To  check.Cause // zero = success
}

// String returns the change as a sentence.
func (c AppChange) String() string {
	return fmt.Sprintf("%s probe of %s: %s", c.Kind, c.Container, c.To)
}

func splitAppPath(path string) (container, kind string, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 4 || parts[0] != "" || parts[2] == "" {
		return "", "", false
	}
	switch parts[1] + "/" + parts[3] {
	case "app-health/livez", "app-health/readyz", "app-health/startupz",
		"app-lifecycle/prestopz", "app-lifecycle/poststartz":
		return parts[2], parts[3], true
	}
	return "", "", false
}

// ParseAppProbes parses a JSON object with a probe for each path. An empty string means
// no probes. Unknown fields are ignored. The error lists all problems with their
// fields.
func ParseAppProbes(text string, o AppProbeOptions) (*AppProbes, error) {
	a := &AppProbes{probes: make(map[string]*appProbe), onChange: o.OnChange}
	data := bytes.TrimSpace([]byte(text))
	if len(data) == 0 {
		return a, nil
	}
	const setting = "KUBE_APP_PROBERS"
	host := o.Host
	if host == "" {
		host = defaultHost
	}
	all := readObject(setting, data)
	for _, path := range slices.Sorted(maps.Keys(all.raw)) {
		f := readObject(fmt.Sprintf("%s[%q]", setting, path), all.raw[path])
		a.probes[path] = f.appProbe(path, host)
		all.take(f)
	}
	if err := all.err(); err != nil {
		return nil, err
	}
	return a, nil
}

func (f *fields) appProbe(path, host string) *appProbe {
	p := &appProbe{path: path, last: check.Cause{Kind: check.CauseUnknown}}
	container, kind, ok := splitAppPath(path)
	if !ok {
		f.problem("", "is no path of a probe: accepted are /app-health/<container>/<livez|readyz|startupz> and /app-lifecycle/<container>/<prestopz|poststartz>")
	} else {
		p.container, p.kind = safeName(container), kind
	}
	if f.raw == nil {
		return p
	}
	p.timeout = f.seconds("timeoutSeconds", 1)
	if p.timeout == 0 {
		p.timeout = defaultTimeout
	}
	p.checker, _, _ = f.checker(host, 0)
	return p
}

// Paths returns the configured paths, sorted.
func (a *AppProbes) Paths() []string { return slices.Sorted(maps.Keys(a.probes)) }

// Do runs the probe of path and returns the reply within timeoutSeconds. header is the
// prober's header.
func (a *AppProbes) Do(ctx context.Context, path string, header http.Header) AppReply {
	p, ok := a.probes[path]
	if !ok {
		return plainReply(http.StatusNotFound, "", "no such probe; configured are: "+strings.Join(a.Paths(), ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	reply, cause := p.do(ctx, header)
	// A check that ended because the prober disconnected is not an outcome.
	if cause.Kind != check.CauseStopped && context.Cause(ctx) != context.Canceled {
		a.noteOutcome(p, cause)
	}
	return reply
}

// noteOutcome calls OnChange if the outcome has changed, or if the first outcome is a
// failure.
func (a *AppProbes) noteOutcome(p *appProbe, cause check.Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.last
	p.last = cause
	if from == cause || from.Kind == check.CauseUnknown && cause.Kind == check.CauseNone || a.onChange == nil {
		return
	}
	a.onChange(AppChange{Path: p.path, Container: p.container, Kind: p.kind, From: from, To: cause})
}

func (p *appProbe) do(ctx context.Context, header http.Header) (AppReply, check.Cause) {
	var cause check.Cause
	if get, ok := p.checker.(*check.HTTP); ok {
		var response check.Response
		if response, cause = get.Get(ctx, forwarded(header)); cause.Kind == check.CauseNone {
			return passThrough(response), check.CauseOfStatus(response.Status)
		}
	} else if cause = p.checker.Check(ctx).Cause; cause.Kind == check.CauseNone {
		return AppReply{Status: http.StatusOK}, cause
	}
	body := p.kind + " probe of " + p.container + ": " + cause.String()
	return plainReply(statusOf(cause), cause.Token(), body), cause
}

// passThrough returns the application's response as a reply. A redirect to another host
// becomes a success, as for the kubelet.
func passThrough(response check.Response) AppReply {
	a := AppReply{Status: response.Status, ContentType: response.ContentType, Body: response.Body}
	if a.Status >= 300 && a.Status < 400 {
		a.Status = http.StatusOK
	}
	if a.ContentType == "" && len(a.Body) > 0 {
		a.ContentType = plainText
	}
	return a
}

const plainText = "text/plain; charset=utf-8"

func plainReply(status int, reason, body string) AppReply {
	return AppReply{Status: status, ContentType: plainText, Reason: reason, Body: []byte(body + "\n")}
}

// statusOf returns the reply's status if the application has not responded. Each kind
// of failure has its own status, because a kubelet's event shows only the status.
func statusOf(cause check.Cause) int {
	switch cause.Kind {
	case check.CauseTimeout:
		return http.StatusGatewayTimeout
	case check.CauseNotServing, check.CauseUnimplemented:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

// forwarded returns the prober's header fields in a stable order, without Host and
// invalid fields.
func forwarded(header http.Header) []check.Header {
	var headers []check.Header
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if !gate.IsName(name) || strings.EqualFold(name, "Host") {
			continue
		}
		for _, value := range header[name] {
			if check.ValidValue(value) {
				headers = append(headers, check.Header{Name: name, Value: value})
			}
		}
	}
	return headers
}
