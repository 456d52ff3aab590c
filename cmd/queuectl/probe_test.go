package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startProbeServer starts a server that responds to probes like a gate, and returns its
// address. The parameter reason is for the header K-Readiness-Reason; "" = no such
// header.
func startProbeServer(t *testing.T, status int, body, reason string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason != "" {
			w.Header().Set("K-Readiness-Reason", reason)
		}
		if r.Header.Get("K-Network-Probe") == "probe" {
			w.Header().Set("K-Network-Hash", r.Header.Get("K-Network-Hash"))
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestProbeAcceptsHostsURLsAndPods(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	ready := startProbeServer(t, 200, "queue", "")
	for _, c := range []struct {
		args   string
		code   int
		output string
	}{
		{ready, 0, ""},
		{"http://" + ready + " --as activator", 0, ""},
		{ready + " --as ingress", 0, ""},
		{startProbeServer(t, 503, "", "web: refused"), 1, "not ready: 503, web: refused"},
		{startProbeServer(t, 503, "shutting down\n", ""), 1, "not ready: 503, shutting down"},
		{startProbeServer(t, 200, "hello", ""), 1, "not from a gate"},
		{closed.Addr().String(), 1, "no gate listens on " + closed.Addr().String()},
		{ready + " --as me", 2, `--as="me": want kubelet`},
		{"ftp://" + ready, 2, "want a host"},
		{"a b", 2, "want one gate"},
	} {
		code, _, stderr := ctl(t, "", append([]string{"probe"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.output) {
			t.Errorf("%s: code %d, %q; want %d, %q", c.args, code, stderr, c.code, c.output)
		}
	}
}

// fakeKubectl puts a script named kubectl into PATH.
func fakeKubectl(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestProbeReachesAPodThroughKubectl(t *testing.T) {
	address := startProbeServer(t, 200, "queue", "")
	fakeKubectl(t, `[ "$*" = "--namespace=shop port-forward pod/web-1 :8012 --address 127.0.0.1" ] || { echo "got $*" >&2; exit 1; }
echo "Forwarding from `+address+` -> 8012"
exec sleep 60
`)
	if code, _, stderr := ctl(t, "", "probe", "pod/web-1", "-n", "shop"); code != 0 {
		t.Errorf("code %d, %s", code, stderr)
	}
	if code, _, stderr := ctl(t, "", "probe", "pod/web-2", "-n", "shop"); code != 1 || !strings.Contains(stderr, "got --namespace=shop port-forward pod/web-2") {
		t.Errorf("code %d, %s", code, stderr)
	}
}
