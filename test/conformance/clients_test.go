package conformance

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// Clients over HTTP/2 must print the same with the gate as with the container alone, if
// the container supports their protocol. Their scripts are in the directory clients.
// Clients that are not installed are skipped.

func shop() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "hello\n")
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		n, err := io.Copy(hash, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "%d %x\n", n, hash.Sum(nil))
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, r *http.Request) {
		n := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
		_, _ = io.WriteString(w, strings.Repeat("0123456789abcdef", n/16+1)[:n])
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "body\n")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Sum", "42")
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</x>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "hinted\n")
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too much", http.StatusRequestEntityTooLarge)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	})
	return mux
}

// page sends requests from a browser and reports the responses.
const page = `<!doctype html><title>-</title><script>
const out = []
const sum = async (b) => [...new Uint8Array(await crypto.subtle.digest('SHA-256', b))].map(x => x.toString(16).padStart(2, '0')).join('')
async function run() {
  const get = async (p, o) => { const r = await fetch(p, o); return [r.status, (await r.text()).slice(0, 100).trim()].join(' ') }
  out.push('get ' + await get('/hello'))
  out.push('post ' + await get('/echo', { method: 'POST', body: 'abc' }))
  const big = new Uint8Array(4 << 20).fill(120)
  out.push('up ' + (await get('/echo', { method: 'POST', body: big }) === '200 ' + big.length + ' ' + await sum(big)))
  out.push('down ' + (await (await fetch('/big?n=8388608')).arrayBuffer()).byteLength)
  out.push('many ' + (await Promise.all(Array.from({ length: 40 }, async (_, i) => (await (await fetch('/big?n=' + 100 * i)).arrayBuffer()).byteLength === 100 * i))).every(x => x))
  const c = new AbortController(), e = await fetch('/endless', { signal: c.signal })
  await e.body.getReader().read()
  c.abort()
  out.push('then ' + await get('/hello'))
  out.push('over ' + performance.getEntriesByType('resource').filter(r => r.nextHopProtocol).every(r => r.nextHopProtocol === 'h2') + ' ' + performance.getEntriesByType('navigation')[0].nextHopProtocol)
}
run().catch(e => out.push('error ' + e)).finally(() => fetch('/report', { method: 'POST', body: out.join('\n') }))
</script>`

// installed returns the path of a program, or skips the test.
func installed(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("none of %q is installed", names)
	return ""
}

// outputOf returns the output of a program.
func outputOf(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		var reason string
		if e, ok := err.(*exec.ExitError); ok {
			reason = string(e.Stderr)
		}
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, reason)
	}
	return string(out)
}

// gatesOf starts a gate in front of an HTTP/1.1 container and one in front of an h2c
// container.
func gatesOf(t *testing.T, h http.Handler) map[string]*gate {
	t.Helper()
	return map[string]*gate{
		"h2c to HTTP/1.1": startGate(t, serve(t, h), "UPSTREAM_PROTOCOL=http1"),
		"h2c to h2c":      startGate(t, serveHTTP2(t, h), "UPSTREAM_PROTOCOL=h2c"),
	}
}

func TestANodeClientGetsTheSameFromTheGateAsFromTheContainer(t *testing.T) {
	node := installed(t, "node", "nodejs")
	h := shop()
	want := outputOf(t, node, "clients/http2.mjs", fmt.Sprintf("http://%s", podAddress(serveHTTP2(t, h))))
	if !strings.Contains(want, `{"name":"large down","interim":[],"status":200`) || !strings.Contains(want, `"name":"early","status":413`) {
		t.Fatalf("with the container alone:\n%s", want)
	}
	for name, g := range gatesOf(t, h) {
		if got := outputOf(t, node, "clients/http2.mjs", "http://"+g.address()); got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
	}
}

func TestGRPCClientsPrintTheSameForTheGateAsForTheContainer(t *testing.T) {
	for name, client := range map[string]func(t *testing.T) []string{
		"grpcio": func(t *testing.T) []string {
			for _, python := range []string{"/usr/bin/python3", "python3"} {
				if exec.Command(python, "-c", "import grpc").Run() == nil {
					return []string{python, "clients/grpc_client.py"}
				}
			}
			t.Skip("no python3 with grpcio (package python3-grpcio) is installed")
			return nil
		},
		"grpc-js": func(t *testing.T) []string {
			node := installed(t, "node", "nodejs")
			if exec.Command(node, "-e", `require(require.resolve('@grpc/grpc-js', {paths: ['clients', ...(process.env.NODE_PATH || '').split(':')]}))`).Run() != nil {
				t.Skip("@grpc/grpc-js is not installed: npm install --prefix test/conformance/clients, or NODE_PATH")
			}
			return []string{node, "clients/grpc.cjs"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			command := client(t)
			c := serveService(t, &service{})
			want := outputOf(t, command[0], append(command[1:], podAddress(c.port))...)
			if !strings.Contains(want, "streaming") || !strings.Contains(want, "many") {
				t.Fatalf("with the container alone:\n%s", want)
			}
			g := startGate(t, c.port)
			if got := outputOf(t, command[0], append(command[1:], g.address())...); got != want {
				t.Errorf("%s, want\n%s", got, want)
			}
		})
	}
}

func TestCurlGetsTheSameOverHTTP2AsOverHTTP1(t *testing.T) {
	curl := installed(t, "curl")
	if !strings.Contains(outputOf(t, curl, "--version"), "HTTP2") {
		t.Skip("the installed curl lacks HTTP/2")
	}
	upload := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(upload, []byte(strings.Repeat("curl ", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, g := range gatesOf(t, shop()) {
		for _, args := range [][]string{
			{"/hello"},
			{"-I", "-o", "/dev/null", "/hello"},
			{"-d", "a=b", "/echo"},
			{"-T", upload, "-X", "POST", "/echo"},
			{"-T", upload, "-X", "POST", "-H", "Expect: 100-continue", "/echo"},
			{"-H", "Transfer-Encoding: chunked", "-d", "@" + upload, "/echo"},
			{"/big?n=3000000"},
			{"/trailers"},
			{"/hints"},
			{"/events"},
			{"/none"},
			// /early is missing, because curl 7.88 fails over HTTP/2 if a response
			// precedes the end of the upload, even with net/http alone.
		} {
			path := len(args) - 1
			ask := func(version ...string) string {
				all := append([]string{"-sS", "--max-time", "20", "-w", "%{http_code} %{size_download}\n"}, version...)
				return outputOf(t, curl, append(append(all, args[:path]...), g.url(args[path]))...)
			}
			two, one := ask("--http2-prior-knowledge"), ask("--http1.1")
			if two != one || !strings.ContainsAny(one, "24") {
				t.Errorf("%s, %q: %.200q over HTTP/2, %.200q over HTTP/1.1", name, args, two, one)
			}
		}
	}
}

func TestH2loadAndNghttpAreServed(t *testing.T) {
	h2load, nghttp := installed(t, "h2load"), installed(t, "nghttp")
	upload := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(upload, []byte(strings.Repeat("nghttp ", 300_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, g := range gatesOf(t, shop()) {
		if got := outputOf(t, h2load, "-n", "2000", "-c", "8", "-m", "32", g.url("/hello")); !strings.Contains(got, "2000 succeeded, 0 failed, 0 errored") {
			t.Errorf("%s: %s", name, got)
		}
		if got := outputOf(t, h2load, "-n", "100", "-c", "4", "-m", "5", "-d", upload, g.url("/echo")); !strings.Contains(got, "100 succeeded, 0 failed, 0 errored") {
			t.Errorf("%s: %s", name, got)
		}
		if got := outputOf(t, nghttp, g.url("/hello")); got != "hello\n" {
			t.Errorf("%s: nghttp got %q", name, got)
		}
		want := fmt.Sprintf("%d %x\n", 2_100_000, sha256.Sum256([]byte(strings.Repeat("nghttp ", 300_000))))
		if got := outputOf(t, nghttp, "-d", upload, g.url("/echo")); got != want {
			t.Errorf("%s: nghttp got %q, want %q", name, got, want)
		}
		if got := outputOf(t, nghttp, "-d", upload, "--trailer", "x-sum: 1", "-p", "8", "-w", "15", g.url("/echo")); got != want {
			t.Errorf("%s: nghttp with trailers got %q, want %q", name, got, want)
		}
	}
}

func TestChromiumIsServedOverTLS(t *testing.T) {
	chromium := installed(t, "chromium", "chromium-browser", "google-chrome")
	secure := launch.FreePort(t)
	report := make(chan string, 1)
	mux := http.NewServeMux()
	mux.Handle("/", shop())
	mux.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		report <- string(text)
	})
	startGate(t, serve(t, mux), fmt.Sprintf("QUEUE_SERVING_TLS_PORT=%d", secure), "CERT_DIR="+testCertificate(t))
	eventually(t, "the TLS port", func() bool { return launch.Accepts(podAddress(secure)) })
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	browser := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors",
		"--remote-debugging-port=0", "--user-data-dir="+profile, "https://"+podAddress(secure)+"/page")
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	var got string
	select {
	case got = <-report:
	case <-time.After(3 * testTimeout):
		got = "nothing"
	}
	_ = browser.Process.Signal(os.Interrupt)
	_ = browser.Wait()
	// Helper processes may write to the profile for a moment longer.
	eventually(t, "the profile is removed", func() bool { return os.RemoveAll(profile) == nil })
	hash := sha256.Sum256([]byte("abc"))
	want := fmt.Sprintf("get 200 hello\npost 200 3 %x\nup true\ndown 8388608\nmany true\nthen 200 hello\nover true h2", hash)
	if got != want {
		t.Errorf("Chromium reports %q, want %q", got, want)
	}
}
