package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// fault is a cause for which a probe fails.
type fault struct {
	name    string
	handler string // handler of the probe; PORT is replaced by the application's port
	serve   server // nil = nothing listens
	cause   string // cause in K-Readiness-Reason and in the log
	detail  string // detail in the log message and in the response to an application probe
	status  int    // status for an application probe; 0 = the application's status
}

const getPlain = `"httpGet":{"port":PORT}`

func faults(t *testing.T) []fault {
	redirect := http1(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Path)
		w.WriteHeader(302)
	})
	return []fault{
		{"refused", getPlain, nil, "refused", "connection refused", 502},
		{"TCP refused", `"tcpSocket":{"port":PORT}`, nil, "refused", "connection refused", 502},
		{"gRPC refused", `"grpc":{"port":PORT}`, nil, "refused", "connection refused", 502},
		{"reset", getPlain, raw(reset), "reset", "connection reset", 502},
		{"gRPC reset", `"grpc":{"port":PORT}`, raw(reset), "reset", "connection reset", 502},
		{"closed without a response", getPlain, saying(""), "closed", "connection closed before the answer was complete", 502},
		{"closed in the head", getPlain, saying("HTTP/1.1 200 OK\r\nX-A: b"), "closed", "connection closed before the answer was complete", 502},
		{"closed in the body", getPlain, saying("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "closed", "connection closed before the answer was complete", 502},
		{"timeout", getPlain, silent(t), "timeout", "no answer in time", 504},
		{"gRPC timeout", `"grpc":{"port":PORT}`, silent(t), "timeout", "no answer in time", 504},
		{"status 500", getPlain, saying("HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nwhy?"), "status 500", "answered with status 500", 0},
		{"status 404", getPlain, saying("HTTP/1.1 404 Not Here\r\nContent-Length: 4\r\n\r\nwhy?"), "status 404", "answered with status 404", 0},
		{"NOT_SERVING", `"grpc":{"port":PORT}`, health(0, notServing, nil), "not-serving", "gRPC health is not SERVING", 503},
		{"unknown service", `"grpc":{"port":PORT,"service":"x"}`, health(5, "", nil), "not-serving", "gRPC health is not SERVING (status 5)", 503},
		{"unavailable", `"grpc":{"port":PORT}`, health(14, "", nil), "not-serving", "gRPC health is not SERVING (status 14)", 503},
		{"no health service", `"grpc":{"port":PORT}`, health(12, "", nil), "unimplemented", "gRPC health service is not implemented", 503},
		{"TLS to a plain port", `"httpGet":{"port":PORT,"scheme":"HTTPS"}`, http1(func(http.ResponseWriter, *http.Request) {}), "tls", "TLS failed", 502},
		{"plain to a TLS port", getPlain, saying("\x15\x03\x01\x00\x02\x02\x0a"), "tls", "TLS failed", 502},
		{"redirect loop", getPlain, redirect, "redirects", "too many redirects", 502},
		{"not HTTP", getPlain, saying("SSH-2.0-OpenSSH_9.9\r\n"), "malformed", "malformed answer", 502},
		{"broken HTTP", getPlain, saying("HTTP/1.1 two hundred\r\n\r\n"), "malformed", "malformed answer", 502},
		{"HTTP/1 behind gRPC", `"grpc":{"port":PORT}`, saying("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), "malformed", "malformed answer", 502},
		{"not gRPC", `"grpc":{"port":PORT}`, h2c(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), "malformed", "malformed answer", 502},
	}
}

func (f fault) handlerFor(port int) string {
	return strings.ReplaceAll(f.handler, "PORT", fmt.Sprint(port))
}

func reset(c *net.TCPConn) {
	buffer := make([]byte, 4<<10)
	_, _ = c.Read(buffer)
	_ = c.SetLinger(0)
	_ = c.Close()
}

func TestEveryReadinessFailureIsNamedInTheResponseAndInTheLog(t *testing.T) {
	t.Parallel()
	for _, f := range faults(t) {
		t.Run(f.name, func(t *testing.T) {
			a := newApp(t)
			if f.serve != nil {
				a.listen(f.serve)
			}
			timeout := 60
			if f.cause == "timeout" {
				timeout = 1
			}
			g := startGateFor(t, a, fmt.Sprintf(`{%s,"timeoutSeconds":%d}`, f.handlerFor(a.port), timeout), "READINESS_WAIT=1ms", "CONTAINER_NAMES=web")
			g.becomesNotReady(activator, "web: "+f.cause)
			to := "failing"
			if f.serve == nil {
				to = "down"
			}
			g.changed(fmt.Sprintf("web: unknown > %s (%s)", to, f.cause))
			c := g.changes()[0]
			if !strings.Contains(c.Message, "web is "+to) || !strings.Contains(c.Message, ": "+f.detail) {
				t.Errorf("the log has %q, want it to contain %q", c.Message, f.detail)
			}
		})
	}
}

func TestAnExecProbeIsRejectedWithTheAlternatives(t *testing.T) {
	t.Parallel()
	for _, probe := range []string{`{"exec":{"command":["true"]}}`, `[{"tcpSocket":{}},{"exec":{"command":["true"]}}]`} {
		code, _, stderr := runQueue(t, append(baseEnv(t), "ENABLE_MULTI_CONTAINER_PROBES=true", "SERVING_READINESS_PROBE="+probe))
		if code != 2 || !strings.Contains(stderr, "exec") || !strings.Contains(stderr, "httpGet, tcpSocket or grpc") {
			t.Errorf("code %d, stderr %q; want 2 and what to use instead", code, stderr)
		}
	}
}
