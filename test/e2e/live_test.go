package e2e

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// podinfo is a volume with a pod's annotations, laid out as by the kubelet.
type podinfo struct {
	t        *testing.T
	dir      string
	versions int
}

func newPodinfo(t *testing.T) *podinfo {
	v := &podinfo{t: t, dir: shortTempDir(t)}
	must(t, os.Symlink(filepath.Join("..data", "annotations"), v.path()))
	return v
}

func (v *podinfo) path() string { return filepath.Join(v.dir, "annotations") }

// annotate replaces the annotations by pairs of name and value.
func (v *podinfo) annotate(pairs ...string) {
	v.t.Helper()
	text := "kubernetes.io/config.seen=\"2026-01-01T00:00:00Z\"\n"
	for i := 0; i < len(pairs); i += 2 {
		text += fmt.Sprintf("queuegate.dev/%s=%q\n", pairs[i], pairs[i+1])
	}
	v.versions++
	version := fmt.Sprintf("..%d", v.versions)
	must(v.t, os.Mkdir(filepath.Join(v.dir, version), 0o755))
	must(v.t, os.WriteFile(filepath.Join(v.dir, version, "annotations"), []byte(text), 0o644))
	must(v.t, os.Symlink(version, filepath.Join(v.dir, "..data_tmp")))
	must(v.t, os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
	must(v.t, os.RemoveAll(filepath.Join(v.dir, fmt.Sprintf("..%d", v.versions-1))))
}

type liveGate struct {
	*gate
	*podinfo
	page string
}

func startLiveGate(t *testing.T, k *container, v *podinfo, settings ...string) *liveGate {
	t.Helper()
	g, _, page := startObservedGate(t, k, append(settings, "ANNOTATIONS_FILE="+v.path())...)
	return &liveGate{g, v, page}
}

// generation waits until queuegate_settings_generation has the value want. This metric is
// the number of changes of settings that the gate has applied since its start.
func (g *liveGate) generation(want float64) {
	g.gate.t.Helper()
	eventually(g.gate.t, fmt.Sprintf("generation %v is applied", want), func() bool {
		return figures(g.gate, g.page)["queuegate_settings_generation"] == want
	})
}

// problem returns the value of the label "error" of queuegate_settings_error, or "" if
// the metrics page does not have this metric.
func (g *liveGate) problem() string {
	g.gate.t.Helper()
	c := dialAddr(g.gate.t, g.page)
	defer c.close()
	_, rest, found := strings.Cut(c.get("/metrics", "Accept: text/plain").body, "\nqueuegate_settings_error{error=")
	if !found {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	text, err := strconv.Unquote(strings.TrimSuffix(line, "} 1"))
	must(g.gate.t, err)
	return text
}

func TestALowerLimitLetsRequestsInFlightFinish(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	v := newPodinfo(t)
	v.annotate("concurrency", "3")
	g := startLiveGate(t, k, v, "CONTAINER_CONCURRENCY=7")
	g.generation(1)
	var clients []*client
	var peers []*peer
	for i := range 3 {
		c, p := inFlight(t, k, g.gate, fmt.Sprintf("/%d", i))
		clients, peers = append(clients, c), append(peers, p)
	}
	v.annotate("concurrency", "1")
	g.generation(2)
	waiting := queued(t, g.gate, "/waits")
	for i := range 2 {
		finish(clients[i], peers[i])
		k.unseen("a request beyond the new limit")
	}
	finish(clients[2], peers[2])
	finish(waiting, k.acceptFor("/waits"))
	v.annotate()
	g.generation(3)
	if limit := figures(g.gate, g.page)["queuegate_concurrency_limit"]; limit != 7 {
		t.Errorf("limit %v without the annotation, want 7 from the environment", limit)
	}
}

func TestChangesOfSettingsUnderLoadLoseNoRequest(t *testing.T) {
	t.Parallel()
	port := startServer(t, nil, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	v := newPodinfo(t)
	v.annotate()
	g := startLiveGate(t, startSilentContainer(t), v, fmt.Sprintf("USER_PORT=%d", port), "QUEUE_CAPACITY=100")
	var load sync.WaitGroup
	stop, failed := make(chan struct{}), make(chan error, 8)
	for id := range 8 {
		load.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: id == 0}}
			defer client.CloseIdleConnections()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				want := strings.Repeat("x", n%3000)
				r, err := client.Post("http://"+g.addr+"/", "text/plain", strings.NewReader(want))
				if err != nil {
					failed <- err
					return
				}
				body, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if r.StatusCode != 200 || string(body) != want || err != nil {
					failed <- fmt.Errorf("request %d: status %d with %d bytes: %w", n, r.StatusCode, len(body), err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for generation := range 40 {
		settings := []string{"timeout", fmt.Sprint(100 + generation)} // each generation has another timeout
		for _, c := range [][]string{
			{"concurrency", "1", "3", "50", "0", "auto", "auto:1-5"}, {"queue-fair-by", "peer", "path:1", ""}, {"queue-priority-by", "header:Priority", ""},
			{"queue-deadline-by", "header:Deadline", ""}, {"queue-max-wait", "60s", ""}, {"request-log", "true", "false"}, {"request-log-template", "json", ""},
		} {
			settings = append(settings, c[0], c[1+rng.IntN(len(c)-1)])
		}
		v.annotate(settings...)
		g.generation(float64(generation + 1))
	}
	close(stop)
	load.Wait()
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
	eventually(t, "no request holds a slot", func() bool {
		f := figures(g.gate, g.page)
		return f["queuegate_in_flight_requests"] == 0 && queueDepth(f) == 0
	})
}

func TestAnInvalidAnnotationKeepsTheSettingsAndIsReported(t *testing.T) {
	t.Parallel()
	const problem = `queuegate.dev/timeout="soon": want whole seconds, 1 or more`
	k := startContainer(t)
	v := newPodinfo(t)
	v.annotate("timeout", "soon", "concurrency", "2")
	status := freePort(t)
	g := startLiveGate(t, k, v, fmt.Sprintf("STATUS_PORT=%d", status))
	statusPage := func() string {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/status.json", status))
		must(t, err)
		defer func() { _ = r.Body.Close() }()
		text, err := io.ReadAll(r.Body)
		must(t, err)
		return string(text)
	}
	f := figures(g.gate, g.page)
	if g.problem() != problem || f["queuegate_settings_generation"] != 0 || !math.IsInf(f["queuegate_concurrency_limit"], 1) {
		t.Errorf("started with an invalid file: %q, generation %v, limit %v", g.problem(), f["queuegate_settings_generation"], f["queuegate_concurrency_limit"])
	}
	v.annotate("concurrency", "2")
	g.generation(1)
	f = figures(g.gate, g.page)
	if g.problem() != "" || f["queuegate_concurrency_limit"] != 2 {
		t.Errorf("corrected: limit %v, error %q", f["queuegate_concurrency_limit"], g.problem())
	}
	if page := statusPage(); !strings.Contains(page, `"live":{"generation":1}`) ||
		!strings.Contains(page, `{"name":"CONTAINER_CONCURRENCY","value":"2","empty":"0 = unlimited","source":"annotation"}`) {
		t.Errorf("the status page has %.3000s", page)
	}
	v.annotate("concurrency", "3", "timeout", "soon")
	eventually(t, "the error is in the metrics", func() bool { return g.problem() == problem })
	if f = figures(g.gate, g.page); f["queuegate_settings_generation"] != 1 || f["queuegate_concurrency_limit"] != 2 {
		t.Errorf("after an invalid change: generation %v, limit %v", f["queuegate_settings_generation"], f["queuegate_concurrency_limit"])
	}
	if page := statusPage(); !strings.Contains(page, `"live":{"generation":1,"error":"queuegate.dev/timeout=\"soon\": want`) {
		t.Errorf("the status page has %.3000s", page)
	}
	eventually(t, "the log has both problems", func() bool {
		return strings.Count(g.Stderr.String(), `the settings of the service are invalid; the previous ones stay in force`) == 2
	})
	c, p := inFlight(t, k, g.gate, "/")
	finish(c, p)
}

func TestSettingsMissingFromTheAllowListCannotBeChanged(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	v := newPodinfo(t)
	v.annotate("concurrency", "2")
	g := startLiveGate(t, k, v, "SETTINGS_ALLOW=concurrency", "REVISION_TIMEOUT_SECONDS=60")
	g.generation(1)
	v.annotate("concurrency", "3", "timeout", "1")
	eventually(t, "the setting is rejected", func() bool {
		return g.problem() == `queuegate.dev/timeout="1": SETTINGS_ALLOW does not have it`
	})
	if limit := figures(g.gate, g.page)["queuegate_concurrency_limit"]; limit != 2 {
		t.Errorf("limit %v, want 2: settings take effect together", limit)
	}
}

func TestASettingsFileSwitchesTheRequestLogAndTimeouts(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	v := newPodinfo(t)
	v.annotate()
	file := filepath.Join(shortTempDir(t), "settings")
	write := func(text string) {
		must(t, os.WriteFile(file+".new", []byte(text), 0o644))
		must(t, os.Rename(file+".new", file))
	}
	write("# none yet\n")
	g := startLiveGate(t, k, v, "SETTINGS_FILE="+file)
	c, p := inFlight(t, k, g.gate, "/unlogged")
	finish(c, p)
	write("request-log=true\nrequest-log-template=\"{{.Request.URL.Path}} {{.Response.Code}}\"\nresponse-start-timeout=1\n")
	g.generation(1)
	c, p = inFlight(t, k, g.gate, "/logged")
	c.response("GET").timedOut()
	p.closed()
	if line := logLine(g.gate, "/logged"); line != "/logged 504" {
		t.Errorf("the log has %q", line)
	}
	v.annotate("request-log", "false")
	g.generation(2)
	c, p = inFlight(t, k, g.gate, "/silent")
	c.response("GET").timedOut()
	p.closed()
	v.annotate("request-log", "true", "response-start-timeout", "60")
	g.generation(3)
	c, p = inFlight(t, k, g.gate, "/again")
	finish(c, p)
	if line := logLine(g.gate, "/again"); line != "/again 200" {
		t.Errorf("the log has %q", line)
	}
	if out := g.Stdout.String(); strings.Contains(out, "/unlogged") || strings.Contains(out, "/silent") {
		t.Errorf("the log has %q", out)
	}
}

func TestCheckPrintsLiveSettings(t *testing.T) {
	t.Parallel()
	v := newPodinfo(t)
	v.annotate("concurrency", "4")
	env := append(baseEnv(t), "ANNOTATIONS_FILE="+v.path())
	code, stdout, stderr := runQueue(t, env, "--check")
	if code != 0 || !strings.Contains(stdout, "CONTAINER_CONCURRENCY=4  (source: annotation, queuegate.dev/concurrency)\n") {
		t.Errorf("exit code %d, %s\n%s", code, stdout, stderr)
	}
	v.annotate("concurrency", "four")
	if code, _, stderr := runQueue(t, env, "--check"); code != 2 || !strings.Contains(stderr, `queuegate.dev/concurrency="four": want`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
