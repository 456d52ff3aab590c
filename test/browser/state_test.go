package browser

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// isState returns a JavaScript expression, which is true if the page shows the given state.
func isState(state string) string {
	return fmt.Sprintf(`document.querySelector('#state').dataset.state === %q`, state)
}

// stateText is JavaScript for the visible text of the state and its cause.
const stateText = `['state-word', 'state-cause'].map((id) => document.getElementById(id))
	.filter((e) => e.checkVisibility()).map((e) => e.textContent).join(': ')`

// inAllViews takes a screenshot in each view. It checks that the state is visible without
// scrolling, that all text is legible, and that nothing overflows.
func (b *tab) inAllViews(state string) {
	b.t.Helper()
	for _, v := range views {
		b.show(v)
		if got := evaluate[string](b, "document.querySelector('#state').dataset.state"); got != state {
			b.t.Fatalf("%s: the page changed from %s to %s", v.name, state, got)
		}
		if bottom := evaluate[float64](b, `(scrollTo(0, 0), Math.max(...['state-word', 'state-cause'].map((id) => document.getElementById(id).getBoundingClientRect().bottom)))`); bottom > float64(v.height)/4 {
			b.t.Errorf("%s, %s: the cause ends %v px below the top", state, v.name, bottom)
		}
		b.readable(state + ", " + v.name)
		b.screenshot(state + "-" + v.name)
	}
}

func TestTheStatusPageShowsNoFiguresBeforeItIsConnected(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe())
	page, err := url.Parse(g.page())
	if err != nil {
		t.Fatal(err)
	}
	// The proxy does not forward the event stream until this channel is closed.
	pass := make(chan struct{})
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(page) }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			select {
			case <-pass:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	defer front.CloseClientConnections()
	b := openTab(t)
	b.open(front.URL + "/")
	// Without an event the page leaves this state after 4 s by performance.now(), so stop
	// this clock.
	b.awaits("the page is connecting", isState("connecting")+` && (performance.now = ((t) => () => t)(performance.now()))`, nil)
	for selector, want := range map[string]string{
		"#state-word": "Connecting", "#in-flight": "–", "#queue": "–", "#p50": "–", "#failed": "–", "#containers": "Not known yet.",
		"#failures-note": "Not known yet.", "#outcomes": "not known yet", "#readout": "",
	} {
		if got := b.text(selector); got != want {
			t.Errorf("%s says %q, want %q", selector, got, want)
		}
	}
	b.inAllViews("connecting")
	close(pass)
	b.awaits("the page is live", isState("ready"), nil)
}

func TestAContainerThatDoesNotListenYetIsStarting(t *testing.T) {
	port := launch.FreePort(t)
	g := startGate(t, port, fmt.Sprintf(`SERVING_READINESS_PROBE={"tcpSocket":{"port":%d}}`, port), "UPSTREAM_WAIT=10m")
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page shows a starting container", fmt.Sprintf(isState("starting")+` && document.querySelector('#state-cause').textContent === 'user-container: connection refused (tcp 127.0.0.1:%d)'`, port), nil)
	go burst(g, "/held", 3) // the requests end when the gate is killed
	b.awaits("requests are queued", `document.querySelector('#in-flight').textContent === '3'`, nil)
	b.inAllViews("starting")
}

func TestContainersThatAreNotReadyAreShownFirstWithTheirReasons(t *testing.T) {
	web, proxy := startContainer(t), startContainer(t)
	g := startGate(t, web.port, fmt.Sprintf(`SERVING_READINESS_PROBE=[{"httpGet":{"path":"/ready","port":%d}},{"httpGet":{"path":"/ready","port":%d}}]`, web.port, proxy.port),
		"ENABLE_MULTI_CONTAINER_PROBES=true", "CONTAINER_NAMES=web,proxy", "SERVING_POD=web-00007-deployment-5d9c8")
	web.open.Store(true)
	proxy.open.Store(true)
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("both containers are ready", isState("ready"), func() { probe(g) })
	web.unready.Store(true)
	proxy.server.Close()
	b.awaits("both containers are down", isState("not-ready")+` && `+stateText+` === 'Not ready: web: answered with status 503; proxy: connection refused'`, func() { probe(g) })
	b.awaits("the state is announced", `document.querySelector('#announce').textContent.startsWith('Not ready: ')`, nil)
	if got := evaluate[string](b, "document.title"); got != "✖ Not ready · web-00007-deployment-5d9c8" {
		t.Errorf("the title is %q", got)
	}
	burst(g, "/broken", 3)
	b.awaits("the duration increases", `/^for ([3-9]|\d\d) s$/.test(document.querySelector('#state-since').textContent)`, nil)
	b.inAllViews("not-ready")
}

func TestTheStatusPageShowsAReadyGateAsReadyUnderLoad(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe(), "CONTAINER_CONCURRENCY=12", "SERVING_POD=web-00007-deployment-5d9c8", "SERVING_REVISION=web-00007", "SERVING_NAMESPACE=shop")
	load(t, g, 9, 25)
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page shows figures of some seconds", isState("ready")+` && document.querySelector('#p50-unit').textContent === 'ms' &&
		/^for ([5-9]|\d\d) s$/.test(document.querySelector('#state-since').textContent)`, nil)
	b.inAllViews("ready")
}

func TestRejectionsInAnOverloadCountNeitherAsFailuresNorAsLatency(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe(), "CONTAINER_CONCURRENCY=2", "QUEUE_CAPACITY=4")
	load(t, g, 12, 60)
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page shows an overload", isState("overloaded")+` && /\d+ requests refused in the last 10 s/.test(document.querySelector('#state-cause').textContent) &&
		Number(document.querySelector('#refused').textContent.replace(',', '')) > 100`, nil)
	b.awaits("the median is that of the served requests", `document.querySelector('#p50-unit').textContent === 'ms' && Number(document.querySelector('#p50').textContent) >= 30`, nil)
	if got := b.text("#failed"); got != "0" {
		t.Errorf("%s have failed", got)
	}
	if got := b.text("#failures-note"); !strings.HasPrefix(got, "0 failed, ") {
		t.Errorf("the list has %q", got)
	}
	b.inAllViews("overloaded")
}

func TestAnOpenPageShowsTheDrainUntilItsEndWithoutDelayingIt(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe(), "DRAIN_QUIET_SECONDS=0")
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page is live", isState("ready"), nil)
	stall, err := net.Dial("tcp", g.Addr("QUEUE_SERVING_PORT")) // an incomplete request keeps the drain from ending
	if err != nil {
		t.Fatal(err)
	}
	defer stall.Close()
	if _, err := fmt.Fprint(stall, "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	b.awaits("a request is in flight", `document.querySelector('#in-flight').textContent === '1'`, nil)
	g.drain()
	b.awaits("the page says that the gate is draining", isState("draining")+` && `+stateText+` === 'Draining: 1 request under way' &&
		document.querySelector('#announce').textContent === 'Draining: 1 request under way.'`, nil)
	b.inAllViews("draining")
	_ = stall.Close()
	b.awaits("the page says that the gate has exited", isState("ended"), nil)
	<-g.Exited
	if code := g.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	b.awaits("the page keeps this state", isState("ended")+` && /^since .*, ([2-9]|\d\d) s ago$/.test(document.querySelector('#state-since').textContent)`, nil)
	b.inAllViews("ended")
}

func TestThePageShowsADeadGateAndReconnects(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe())
	b := openTab(t)
	b.open(g.page() + "/")
	stop := load(t, g, 4, 5)
	burst(g, "/broken", 3)
	b.awaits("errors are listed", isState("ready")+` && document.querySelector('#failures-note').textContent.startsWith('3 failed')`, nil)

	// The connections of a stopped process stay open, so the page gets no error. It must
	// notice that no more events arrive.
	g.signal(syscall.SIGSTOP)
	b.awaits("the page says that the gate does not respond", isState("gone")+` && document.querySelector('#announce').textContent.startsWith('No answer: it was ready')`, nil)
	g.signal(syscall.SIGCONT)
	b.awaits("the gate responds again", isState("ready")+` && document.querySelector('#announce').textContent.startsWith('Ready')`, nil)

	g.Kill()
	stop()
	b.awaits("the page says that the gate is gone, and for how long", isState("gone")+` &&
		/^since \d\d:\d\d:\d\d, ([2-9]|\d\d) s ago$/.test(document.querySelector('#state-since').textContent)`, nil)
	b.inAllViews("gone")
	g.restart()
	b.awaits("the page is live again, with the figures of the new gate", isState("ready")+` &&
		document.querySelector('#failures-note').textContent === 'None since the start.'`, nil)
	// The browser reported failed connections while the gate was down. Omit these
	// problems.
	if got := b.complaints("network error: Failed to load resource"); len(got) > 0 {
		t.Errorf("the browser reports problems: %q", got)
	}
}

func TestANinthPageReportsThatEightAreOpen(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe())
	for range 8 {
		response, err := http.Get(g.page() + "/events")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
	}
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page says that eight are open", isState("full")+` && document.querySelector('#state-note').textContent.startsWith('Eight pages are open already')`, nil)
}

func TestTheTimeAxisOfTheStatusPageFitsItsData(t *testing.T) {
	c := startContainer(t)
	b := openTab(t) // first, because the gate must not be older than 15 s below
	g := startGate(t, c.port, c.probe())
	b.open(g.page() + "/")
	b.awaits("the first seconds", isState("ready")+` && document.querySelector('#history-title').textContent === 'Last 15 s' &&
		[...document.querySelectorAll('#axis span')].map((e) => e.textContent).join() === '15 s,10 s,5 s,now' &&
		document.querySelector('#cursor').min === '-14'`, nil)
	got := evaluateAsync[[]string](b, `import('/state.js').then(({ axis, state }) => [0, 14, 15, 29, 30, 59, 60, 119, 120, 239, 240, 299, 3600]
		.map((n) => { state.newest = n; return n + ':' + axis(); }))`)
	want := []string{"0:15", "14:15", "15:30", "29:30", "30:60", "59:60", "60:120", "119:120", "120:180", "239:240", "240:300", "299:300", "3600:300"}
	if !slices.Equal(got, want) {
		t.Errorf("seconds and axis %q, want %q", got, want)
	}
}
