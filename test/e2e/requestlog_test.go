package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// logLine waits for the request log's line with this target.
func logLine(g *gate, target string) string {
	g.t.Helper()
	var found string
	eventually(g.t, "the line of "+target, func() bool {
		for line := range strings.Lines(g.Stdout.String()) {
			if strings.Contains(line, target) && strings.HasSuffix(line, "\n") {
				found = strings.TrimSuffix(line, "\n")
			}
		}
		return found != ""
	})
	return found
}

func TestTheRequestLogHasTheTraceIDOfTheSpan(t *testing.T) {
	t.Parallel()
	const a, b = "0af7651916cd43dd8448eb211c80319c", "463ac35c9f6413ad48485a3953bb6124"
	k := startContainer(t)
	must(t, k.RespondAll([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
	for _, sampled := range []string{"1", "0"} {
		g := startGate(t, k, "SERVING_ENABLE_REQUEST_LOG=true", "SERVING_REQUEST_LOG_TEMPLATE=json",
			`OBSERVABILITY_CONFIG={"enableRequestLog":true,"requestLogTemplate":"json","tracing":{"protocol":"stdout"}}`)
		for path, fields := range map[string][]string{
			"/single-first": {"b3: " + a + "-b7ad6b7169203331-" + sampled, "X-B3-TraceId: " + b, "X-B3-SpanId: a2fb4a1d1a96d312"},
			"/alone":        {"X-B3-TraceId: " + a, "X-B3-Sampled: " + sampled},
		} {
			dial(t, g).get(path, fields...).is(200, "")
			if line := logLine(g, `"requestUrl": "`+path); !strings.Contains(line, `"traceId": "`+a+`"`) {
				t.Errorf("sampled %s: the log has %s", sampled, line)
			}
			if sampled == "0" {
				continue
			}
			if line := logLine(g, `path":"`+path); !strings.Contains(line, `"traceId":"`+a+`"`) {
				t.Errorf("the span is %s", line)
			}
		}
	}
}

func TestEachRequestGetsALineInTheRequestLog(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "SERVING_ENABLE_REQUEST_LOG=true", "SERVING_REQUEST_LOG_TEMPLATE=json", "SERVING_POD_IP=192.0.2.9")
	c := dial(t, g)
	c.send(request("POST", `/odd"\u2028?q`, "User-Agent: a\"b\xff", "Content-Length: 3", "X-B3-TraceId: 0af7651916cd43dd8448eb211c80319c") + "abc")
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 418 Teapot\r\nContent-Length: 5\r\n\r\nhello")
	c.response("POST")
	var line struct {
		HTTPRequest struct {
			RequestMethod, RequestURL, UserAgent, Protocol, ServerIP, RemoteIP string
			Status                                                             int
		}
		TraceID, Outcome string
		TotalMS          float64 `json:"total_ms"`
	}
	text := logLine(g, "/odd")
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	h := line.HTTPRequest
	if h.RequestMethod != "POST" || h.Status != 418 || h.Protocol != "HTTP/1.1" || h.ServerIP != "192.0.2.9" ||
		h.RequestURL != `/odd"\u2028?q` || h.UserAgent != "a\"b\uFFFD" || line.Outcome != "served" ||
		line.TraceID != "0af7651916cd43dd8448eb211c80319c" || line.TotalMS <= 0 {
		t.Errorf("the line has %+v of\n%s", line, text)
	}

	disconnected := dial(t, g)
	disconnected.send(request("GET", "/gone"))
	p.head() // the request arrives on the same connection
	disconnected.close()
	if text := logLine(g, "/gone"); !strings.Contains(text, `"status": 499`) || !strings.Contains(text, `"client-gone"`) {
		t.Errorf("a disconnected client is logged as %s", text)
	}
	if strings.Contains(g.Stdout.String(), "/probe") {
		t.Error("a probe is in the log")
	}
}

func TestProbesAreInTheRequestLogOnlyIfConfigured(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	for _, setting := range []string{"true", "false"} {
		g := startGate(t, k, "SERVING_ENABLE_REQUEST_LOG=true", "SERVING_ENABLE_PROBE_REQUEST_LOG="+setting,
			"SERVING_REQUEST_LOG_TEMPLATE={{.Request.URL.Path}} {{.Response.Code}}")
		c := dial(t, g)
		c.get("/probe", "K-Network-Probe: queue").is(200, "queue")
		c.send(request("GET", "/other"))
		p := k.accept()
		p.head()
		p.send("HTTP/1.1 204 No Content\r\n\r\n")
		c.response("GET")
		logLine(g, "/other 204")
		if got := strings.Contains(g.Stdout.String(), "/probe 200\n"); got != (setting == "true") {
			t.Errorf("with the setting %s the log:\n%s", setting, g.Stdout.String())
		}
	}
}

func TestAnInvalidLogTemplateIsAStartUpErrorOnlyIfTheLogIsOn(t *testing.T) {
	t.Parallel()
	const template = "SERVING_REQUEST_LOG_TEMPLATE={{.Request"
	code, _, stderr := runQueue(t, append(baseEnv(t), "SERVING_ENABLE_REQUEST_LOG=true", template))
	if code != 2 || !strings.Contains(stderr, "SERVING_REQUEST_LOG_TEMPLATE") {
		t.Errorf("code %d, stderr %s", code, stderr)
	}
	k := startContainer(t)
	g := startGate(t, k, template)
	c, p := inFlight(t, k, g, "/")
	finish(c, p)
	eventually(t, "a warning", func() bool { return strings.Contains(g.Stderr.String(), "ignored while the request log is off") })
}

func TestLinesThatTheLogTemplateCannotRenderAreDropped(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "SERVING_ENABLE_REQUEST_LOG=true",
		"SERVING_REQUEST_LOG_TEMPLATE={{.Request.URL.Path}} {{if .Request.Cookies}}{{(.Request.Cookie `a`).Value}}{{else}}{{.Request.None}}{{end}}")
	for _, path := range []string{"/lost/1", "/lost/2", "/lost/3"} {
		finish(inFlight(t, k, g, path))
	}
	c := dial(t, g)
	c.send(request("GET", "/kept", "Cookie: a=b"))
	p := k.acceptFor("/kept")
	finish(c, p)
	if text := logLine(g, "/kept"); text != "/kept b" {
		t.Errorf("logged %q", text)
	}
	g.logs("evaluate field None")
	if n := strings.Count(g.Stderr.String(), "evaluate field None"); n != 1 {
		t.Errorf("reported %d times; stderr:\n%s", n, g.Stderr.String())
	}
	if n := figures(g, page)[`queuegate_dropped_log_lines_total{log="request"}`]; n != 3 {
		t.Errorf("%v lines counted as dropped, want 3", n)
	}
}
