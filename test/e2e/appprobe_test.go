package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// appGate is a gate that serves application probes on two ports.
type appGate struct {
	*gate
	ports []string
}

// startAppGate starts a gate with these application probes in JSON.
func startAppGate(t *testing.T, a *app, probes string, settings ...string) *appGate {
	t.Helper()
	ownPort := freePort(t)
	settings = append(settings, "ADMIN_PORT=free", fmt.Sprintf("APP_PROBE_PORT=%d", ownPort), "KUBE_APP_PROBERS="+probes)
	g := startGate(t, &container{port: a.port}, settings...)
	ports := []string{g.admin, fmt.Sprintf("127.0.0.1:%d", ownPort)}
	g.awaitPorts(ports...)
	return &appGate{g, ports}
}

// awaitPorts waits until these addresses accept connections.
func (g *gate) awaitPorts(addrs ...string) {
	g.t.Helper()
	for _, addr := range addrs {
		eventually(g.t, "the gate listens on "+addr, func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
	}
}

// probe sends an application probe to addr.
func (g *appGate) probe(addr, path string, fields ...string) response {
	g.t.Helper()
	c := dialAddr(g.t, addr)
	defer c.close()
	return c.get(path, fields...)
}

func TestApplicationProbesGetAStatusForEveryCauseOfFailure(t *testing.T) {
	t.Parallel()
	all := faults(t)
	var probes []string
	apps := make([]*app, len(all))
	for i, f := range all {
		apps[i] = newApp(t)
		if f.serve != nil {
			apps[i].listen(f.serve)
		}
		timeout := 60
		if f.cause == "timeout" {
			timeout = 1
		}
		probes = append(probes, fmt.Sprintf(`"/app-health/c%d/readyz":{%s,"timeoutSeconds":%d}`, i, f.handlerFor(apps[i].port), timeout))
	}
	g := startAppGate(t, apps[0], "{"+strings.Join(probes, ",")+"}")
	for i, f := range all {
		path := fmt.Sprintf("/app-health/c%d/readyz", i)
		var clients []*client
		for _, port := range g.ports {
			c := dialAddr(t, port)
			c.send(request("GET", path, kubelet...))
			clients = append(clients, c)
		}
		for _, c := range clients {
			a := c.response("GET")
			if f.status == 0 {
				a.is(map[string]int{"status 500": 500, "status 404": 404}[f.cause], "why?")
				a.lacks("K-Probe-Reason")
				continue
			}
			begin := fmt.Sprintf("readyz probe of c%d: %s", i, f.detail)
			if a.status != f.status || !strings.HasPrefix(a.body, begin) || !strings.HasSuffix(a.body, "\n") {
				t.Errorf("%s: got %d %q, want %d %q", f.name, a.status, a.body, f.status, begin)
			}
			if got := a.all("K-Probe-Reason"); len(got) != 1 || got[0] != f.cause {
				t.Errorf("%s: K-Probe-Reason %q, want %q", f.name, got, f.cause)
			}
			a.field("Content-Type", "text/plain; charset=utf-8")
		}
		// Both ports share the result of the probe. The log has therefore only one change of
		// this result, although the test has asked both ports.
		lines := g.changesOf(path, 1)
		if len(lines) != 1 || lines[0].From != "unknown" || lines[0].To != f.cause ||
			!strings.HasPrefix(lines[0].Message, fmt.Sprintf("readyz probe of c%d: %s", i, f.detail)) {
			t.Errorf("%s: the log has %+v, want one change from unknown to %s", f.name, lines, f.cause)
		}
	}
}

// changesOf waits until the log has enough changes of the application probe with this
// path, and returns them. The parameter least is the minimum number of changes.
func (g *appGate) changesOf(path string, least int) (found []change) {
	g.t.Helper()
	eventually(g.t, fmt.Sprintf("the log has %d changes of %s", least, path), func() bool {
		found = nil
		for _, c := range g.changes() {
			if c.Path == path {
				found = append(found, c)
			}
		}
		return len(found) >= least
	})
	return found
}

func TestApplicationProbesThatSucceedGet200(t *testing.T) {
	t.Parallel()
	web, plain, secure, grpc := listeningApp(t), newApp(t), newApp(t), newApp(t)
	plain.listen(http1(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/local":
			w.Header().Set("Location", "/end")
			w.WriteHeader(307)
		case "/away":
			w.Header().Set("Location", "https://elsewhere.invalid/x")
			w.WriteHeader(308)
		case "/big":
			w.Header().Set("Content-Type", "application/x-big")
			_, _ = io.WriteString(w, strings.Repeat("b", 12<<10))
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(201)
			_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI())
		}
	}))
	secure.listen(https(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "safe") }))
	grpc.listen(health(0, serving, nil))
	g := startAppGate(t, web, fmt.Sprintf(`{
		"/app-health/web/livez": {"httpGet": {"port": %[1]d, "path": "/live?x=1"}, "timeoutSeconds": 60},
		"/app-health/web/readyz": {"httpGet": {"port": "%[1]d", "path": "/local"}, "timeoutSeconds": 60, "periodSeconds": 7, "unknown": {}},
		"/app-health/web/startupz": {"httpGet": {"port": %[1]d, "path": "/away"}, "timeoutSeconds": 60},
		"/app-health/big/livez": {"httpGet": {"port": %[1]d, "path": "/big"}, "timeoutSeconds": 60},
		"/app-health/safe/readyz": {"httpGet": {"port": %[2]d, "scheme": "HTTPS"}, "timeoutSeconds": 60},
		"/app-health/sock/readyz": {"tcpSocket": {"port": %[1]d}, "timeoutSeconds": 60},
		"/app-health/rpc/readyz": {"grpc": {"port": %[3]d, "service": "s"}, "timeoutSeconds": 60},
		"/app-lifecycle/web/prestopz": {"httpGet": {"port": %[1]d, "path": "/stop"}, "timeoutSeconds": 60},
		"/app-lifecycle/web/poststartz": {"httpGet": {"port": %[1]d, "path": "/start"}, "timeoutSeconds": 60}
	}`, plain.port, secure.port, grpc.port))
	for _, x := range []struct {
		path   string
		status int
		kind   string
		body   string
	}{
		{"/app-health/web/livez", 201, "application/json", "GET /live?x=1"},
		{"/app-health/web/readyz", 201, "application/json", "GET /end"},
		{"/app-health/web/startupz", 200, "", ""},
		{"/app-health/big/livez", 200, "application/x-big", strings.Repeat("b", 10<<10)},
		{"/app-health/safe/readyz", 200, "text/plain; charset=utf-8", "safe"},
		{"/app-health/sock/readyz", 200, "", ""},
		{"/app-health/rpc/readyz", 200, "", ""},
		{"/app-lifecycle/web/prestopz", 201, "application/json", "GET /stop"},
		{"/app-lifecycle/web/poststartz", 201, "application/json", "GET /start"},
	} {
		for _, port := range g.ports {
			a := g.probe(port, x.path, kubelet...)
			a.is(x.status, x.body)
			a.lacks("K-Probe-Reason")
			if got := a.get("Content-Type"); got != x.kind {
				t.Errorf("%s: Content-Type %q, want %q", x.path, got, x.kind)
			}
		}
	}
	if lines := g.changes(); len(lines) != 0 {
		t.Errorf("successes were logged: %+v", lines)
	}
}

func TestAppHealthProbesForwardHeadersOfTheProberAndAddConfiguredOnes(t *testing.T) {
	t.Parallel()
	a := listeningApp(t)
	g := startAppGate(t, a, fmt.Sprintf(`{"/app-health/web/livez": {"httpGet": {"port": %d, "host": "ignored.invalid", "httpHeaders": [
		{"name": "Host", "value": "app.example"}, {"name": "X-Both", "value": "configured"}]}, "timeoutSeconds": 60}}`, a.port))
	for i, port := range g.ports {
		g.probe(port, "/app-health/web/livez", "User-Agent: kube-probe/1.33", "Accept: */*", "X-Caller: a", "X-Both: asked", "Connection: close").is(200, "ok")
		seen := parseHead(t, a.requests()[i])
		if seen.line != "GET / HTTP/1.1" {
			t.Errorf("the application got %q", seen.line)
		}
		seen.field("Host", "app.example")
		seen.field("User-Agent", "kube-probe/1.33")
		seen.field("X-Caller", "a")
		seen.field("X-Both", "configured")
	}
}

func TestAnUnknownApplicationProbeGets404WithTheConfiguredPaths(t *testing.T) {
	t.Parallel()
	a := listeningApp(t)
	probe := fmt.Sprintf(`{"httpGet":{"port":%d}}`, a.port)
	g := startAppGate(t, a, `{"/app-health/web/livez":`+probe+`,"/app-lifecycle/web/prestopz":`+probe+`}`)
	for _, port := range g.ports {
		for _, path := range []string{"/app-health/web/readyz", "/app-health/other/livez", "/app-health/", "/app-health/web/livez/"} {
			a := g.probe(port, path)
			if a.status != 404 || !strings.Contains(a.body, "/app-health/web/livez") || !strings.Contains(a.body, "/app-lifecycle/web/prestopz") {
				t.Errorf("%s: got %d %q, want 404 and the configured paths", path, a.status, a.body)
			}
			a.field("Content-Type", "text/plain; charset=utf-8")
		}
	}
	if a.count() != 0 {
		t.Error("a path that is not configured reached the application")
	}
	for _, path := range []string{"/health/alive", "/wait-for-drain"} {
		if a := g.probe(g.ports[1], path); a.status != 404 {
			t.Errorf("%s on APP_PROBE_PORT got %d", path, a.status)
		}
	}
}

func TestApplicationProbesAreLoggedOncePerChange(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	const path = "/app-health/web/livez"
	g := startAppGate(t, a, fmt.Sprintf(`{"%s":{"httpGet":{"port":%d},"timeoutSeconds":60}}`, path, a.port))
	ask := func(status int) {
		for range 5 {
			if got := g.probe(g.ports[0], path).status; got != status {
				t.Fatalf("got %d, want %d", got, status)
			}
		}
	}
	ask(502)
	a.listen(a.website)
	ask(200)
	a.status.Store(503)
	ask(503)
	a.status.Store(200)
	ask(200)
	var got []string
	for _, c := range g.changesOf(path, 4) {
		got = append(got, fmt.Sprintf("%q to %q", c.From, c.To))
	}
	want := `"unknown" to "refused", "refused" to "", "" to "status 503", "status 503" to ""`
	if strings.Join(got, ", ") != want {
		t.Errorf("the log has %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestIstiosVariableForApplicationProbesIsAccepted(t *testing.T) {
	t.Parallel()
	a := listeningApp(t)
	const path = "/app-health/web/livez"
	g := startGate(t, &container{port: a.port}, "ADMIN_PORT=free",
		fmt.Sprintf(`ISTIO_KUBE_APP_PROBERS={"%s":{"httpGet":{"port":%d,"path":"/live","scheme":"HTTP"},"timeoutSeconds":60,"periodSeconds":10}}`, path, a.port))
	g.awaitPorts(g.admin)
	c := dialAddr(t, g.admin)
	c.get(path, kubelet...).is(200, "ok")
	// The serving port forwards the path to the container.
	dial(t, g).get(path).is(200, "ok")
	if got := a.requests(); len(got) != 2 || !strings.HasPrefix(got[0], "GET /live ") || !strings.HasPrefix(got[1], "GET "+path+" ") {
		t.Errorf("the application got %q", got)
	}
}

func TestInvalidApplicationProbesAreAStartUpError(t *testing.T) {
	t.Parallel()
	const validProbe = `{"httpGet":{"port":1}}`
	for _, x := range []struct{ probes, want string }{
		{`{"/health/web/livez":` + validProbe + `}`, "/health/web/livez"},
		{`{"/app-health/web/alive":` + validProbe + `}`, "/app-health/web/alive"},
		{`{"/app-health/web/livez":{}}`, "handler"},
		{`{"/app-health/web/livez":{"httpGet":{"port":1},"tcpSocket":{"port":1}}}`, "more than one handler"},
		{`{"/app-health/web/livez":{"httpGet":{"port":"http"}}}`, "named port"},
		{`{"/app-health/web/livez":{"httpGet":{}}}`, "port"},
		{`{"/app-health/web/livez":{"exec":{"command":["true"]}}}`, "exec"},
		{`[]`, "KUBE_APP_PROBERS"},
	} {
		code, _, stderr := runQueue(t, append(baseEnv(t), "KUBE_APP_PROBERS="+x.probes), "--check")
		if code != 2 || !strings.Contains(stderr, "KUBE_APP_PROBERS") || !strings.Contains(stderr, x.want) {
			t.Errorf("%s: code %d, stderr %q; want 2 and %q", x.probes, code, stderr, x.want)
		}
	}
}
