package probe

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

func parseApp(t *testing.T, json string, o AppProbeOptions) *AppProbes {
	t.Helper()
	a, err := ParseAppProbes(json, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func appDo(t *testing.T, a *AppProbes, path string, header http.Header) AppReply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), checktest.FailSafe)
	defer cancel()
	return a.Do(ctx, path, header)
}

func TestEachOutcomeOfAnAppProbeHasItsStatus(t *testing.T) {
	body := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(418)
		w.Write([]byte(strings.Repeat("x", 20<<10)))
	})
	redirect := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://example.com/")
		w.WriteHeader(302)
	})
	loop := http.RedirectHandler("/", http.StatusFound)
	web := func(port int) string { return fmt.Sprintf(`{"httpGet":{"port":%d}}`, port) }
	tcp := func(port int) string { return fmt.Sprintf(`{"tcpSocket":{"port":"%d"}}`, port) }
	grpc := func(h http.Handler) string {
		return fmt.Sprintf(`{"grpc":{"port":%d,"service":"s"}}`, checktest.ServeHTTP(t, h, checktest.OverH2C(false)))
	}
	cases := map[string]struct {
		probe        string
		status       int
		reason, body string // body "" = empty
	}{
		"success":                  {web(checktest.ServeHTTP(t, checktest.Status(204), nil)), 204, "", ""},
		"the application's status": {web(checktest.ServeHTTP(t, body, nil)), 418, "", strings.Repeat("x", 10<<10)},
		"a final redirect":         {web(checktest.ServeHTTP(t, redirect, nil)), 200, "", ""},
		"a redirect loop":          {web(checktest.ServeHTTP(t, loop, nil)), 502, "redirects", "readyz probe of app: too many redirects\n"},
		"refused":                  {web(checktest.RefusingPort(t)), 502, "refused", "readyz probe of app: connection refused\n"},
		"reset":                    {web(checktest.ServeRaw(t, checktest.Resetting)), 502, "reset", "readyz probe of app: connection reset: before the first byte\n"},
		"closed":                   {web(checktest.ServeRaw(t, checktest.HangingUp)), 502, "closed", "readyz probe of app: connection closed before the answer was complete: before the first byte\n"},
		"malformed":                {web(checktest.ServeRaw(t, checktest.Responding("junk junk junk"))), 502, "malformed", "readyz probe of app: malformed answer: not HTTP\n"},
		"TLS to a plain port": {fmt.Sprintf(`{"httpGet":{"port":%d,"scheme":"HTTPS"}}`, checktest.ServeHTTP(t, checktest.Status(200), nil)),
			502, "tls", "readyz probe of app: TLS failed: the server does not speak TLS\n"},
		"timeout":       {web(checktest.ServeRaw(t, checktest.Silent)), 504, "timeout", "readyz probe of app: no answer in time\n"},
		"TCP success":   {tcp(checktest.ServeRaw(t, checktest.Silent)), 200, "", ""},
		"TCP refused":   {tcp(checktest.RefusingPort(t)), 502, "refused", "readyz probe of app: connection refused\n"},
		"gRPC success":  {grpc(checktest.Health("s", checktest.Frame(8, 1), "0", false)), 200, "", ""},
		"not serving":   {grpc(checktest.Health("s", checktest.Frame(8, 2), "0", false)), 503, "not-serving", "readyz probe of app: gRPC health is not SERVING\n"},
		"a bad status":  {grpc(checktest.Health("s", nil, "7", true)), 503, "not-serving", "readyz probe of app: gRPC health is not SERVING (status 7)\n"},
		"unimplemented": {grpc(checktest.Health("s", nil, "12", true)), 503, "unimplemented", "readyz probe of app: gRPC health service is not implemented\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changes []AppChange
			if c.status != 504 {
				c.probe = strings.TrimSuffix(c.probe, "}") + `,"timeoutSeconds":20}`
			}
			a := parseApp(t, `{"/app-health/app/readyz":`+c.probe+`}`, AppProbeOptions{OnChange: func(c AppChange) { changes = append(changes, c) }})
			var got AppReply
			for range 2 {
				got = appDo(t, a, "/app-health/app/readyz", nil)
			}
			if got.Status != c.status || got.Reason != c.reason || string(got.Body) != c.body {
				t.Errorf("result %d %q %.80q, want %d %q %.80q", got.Status, got.Reason, got.Body, c.status, c.reason, c.body)
			}
			failure := c.status >= 400
			if len(changes) != 0 != failure || failure && (len(changes) != 1 || changes[0].Container != "app" || changes[0].Kind != "readyz") {
				t.Errorf("changes %+v", changes)
			}
		})
	}
}

func TestConfiguredHeadersOverrideTheProbersHeaders(t *testing.T) {
	got := make(chan *http.Request, 1)
	port := checktest.ServeHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }), nil)
	a := parseApp(t, fmt.Sprintf(`{"/app-health/a/livez":{"httpGet":{"path":"/x?y=1","port":%d,"httpHeaders":[{"name":"x-b","value":"ours"},{"name":"Host","value":"example.com"}]},"timeoutSeconds":20}}`, port), AppProbeOptions{})
	header := http.Header{
		"User-Agent": {"kube-probe/1.34"}, "X-A": {"1", "2"}, "X-B": {"theirs"}, "Host": {"gate"}, "Connection": {"keep-alive"},
		"Content-Length": {"7"}, "Transfer-Encoding": {"chunked"}, "Bad Name": {"x"}, "X-Bad": {"a\r\nb: c"},
	}
	if result := appDo(t, a, "/app-health/a/livez", header); result.Status != 200 {
		t.Fatalf("result %+v", result)
	}
	r := <-got
	if r.Method != "GET" || r.RequestURI != "/x?y=1" || r.Host != "example.com" || r.ContentLength != 0 {
		t.Errorf("%s %s, host %s, length %d", r.Method, r.RequestURI, r.Host, r.ContentLength)
	}
	want := http.Header{"User-Agent": {"kube-probe/1.34"}, "X-A": {"1", "2"}, "X-B": {"ours"}, "Accept": {"*/*"}, "Connection": {"close"}}
	if fmt.Sprint(r.Header) != fmt.Sprint(want) {
		t.Errorf("header %v, want %v", r.Header, want)
	}
}

func TestTheReplyForAnUnknownProbePathListsTheConfiguredPaths(t *testing.T) {
	a := parseApp(t, `{"/app-health/b/livez":{"tcpSocket":{"port":1}},"/app-lifecycle/a/prestopz":{"httpGet":{"port":1}}}`, AppProbeOptions{})
	got := appDo(t, a, "/app-health/c/livez", nil)
	if want := "no such probe; configured are: /app-health/b/livez, /app-lifecycle/a/prestopz\n"; got.Status != 404 || string(got.Body) != want {
		t.Errorf("result %d %q", got.Status, got.Body)
	}
}

func TestAChangeOfOutcomeIsNotifiedOnce(t *testing.T) {
	var mu sync.Mutex
	code := 200
	port := checktest.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(code)
	}), nil)
	var lines []string
	a := parseApp(t, fmt.Sprintf(`{"/app-health/a/livez":{"httpGet":{"port":%d},"timeoutSeconds":20}}`, port), AppProbeOptions{OnChange: func(c AppChange) { lines = append(lines, c.String()) }})
	for _, c := range []int{200, 200, 503, 503, 500, 200, 200} {
		mu.Lock()
		code = c
		mu.Unlock()
		if result := appDo(t, a, "/app-health/a/livez", nil); result.Status != c {
			t.Errorf("result %+v", result)
		}
	}
	want := []string{"livez probe of a: answered with status 503", "livez probe of a: answered with status 500", "livez probe of a: success"}
	if !slices.Equal(lines, want) {
		t.Errorf("notified of %q, want %q", lines, want)
	}
}

func TestAProberThatDisconnectsCausesNoChange(t *testing.T) {
	a := parseApp(t, fmt.Sprintf(`{"/app-health/a/livez":{"httpGet":{"port":%d}}}`, checktest.ServeRaw(t, checktest.Silent)),
		AppProbeOptions{OnChange: func(c AppChange) { t.Errorf("change %v", c) }})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a.Do(ctx, "/app-health/a/livez", nil)
}

func TestTheErrorOfAnInvalidAppProbeNamesTheField(t *testing.T) {
	cases := map[string]struct{ json, want string }{
		"no JSON":        {`{`, "KUBE_APP_PROBERS: is not valid JSON"},
		"an array":       {`[]`, "KUBE_APP_PROBERS: is an array"},
		"an odd key":     {`{"/x":{"tcpSocket":{"port":1}}}`, `KUBE_APP_PROBERS["/x"]: is no path of a probe`},
		"an odd kind":    {`{"/app-health/a/prestopz":{"tcpSocket":{"port":1}}}`, "is no path of a probe"},
		"no container":   {`{"/app-health//livez":{"tcpSocket":{"port":1}}}`, "is no path of a probe"},
		"no handler":     {`{"/app-health/a/livez":{}}`, `["/app-health/a/livez"]: has no handler`},
		"two handlers":   {`{"/app-health/a/livez":{"httpGet":{"port":1},"tcpSocket":{"port":1}}}`, "more than one handler"},
		"a named port":   {`{"/app-health/a/livez":{"httpGet":{"port":"web"}}}`, `.httpGet.port: is "web": a named port`},
		"no port":        {`{"/app-health/a/livez":{"httpGet":{}}}`, ".httpGet.port: is absent"},
		"no object":      {`{"/app-health/a/livez":7}`, "is a number"},
		"a bad timeout":  {`{"/app-health/a/livez":{"httpGet":{"port":1},"timeoutSeconds":-1}}`, ".timeoutSeconds: is -1"},
		"an exec handle": {`{"/app-health/a/livez":{"exec":{}}}`, ".exec: exec probes run inside"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseAppProbes(c.json, AppProbeOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to hold %q", err, c.want)
			}
		})
	}
	if a := parseApp(t, " ", AppProbeOptions{}); len(a.Paths()) != 0 {
		t.Errorf("nothing is %v", a.Paths())
	}
}

func FuzzParseAppProbes(f *testing.F) {
	f.Add(`{"/app-health/a/livez":{"httpGet":{"port":1,"path":"/x"},"timeoutSeconds":2}}`)
	f.Add(`{"/app-lifecycle/a/prestopz":{"grpc":{"port":1}}}`)
	f.Add(`{"/app-health/a/livez":{"tcpSocket":{"port":"1"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAppProbes(text, AppProbeOptions{})
		if err != nil {
			return
		}
		for path, p := range a.probes {
			if _, _, ok := splitAppPath(path); !ok || p.timeout <= 0 || p.checker == nil {
				t.Errorf("accepted %q as %+v", text, p)
			}
		}
	})
}
