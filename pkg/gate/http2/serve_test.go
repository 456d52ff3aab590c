package http2

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

// readiness answers as it is set.
type readiness struct {
	answer  gate.ReadinessResult
	settled bool
	asked   chan gate.Caller
}

func (r *readiness) Try(gate.Caller) (gate.ReadinessResult, bool) { return r.answer, r.settled }

func (r *readiness) Wait(ctx context.Context, who gate.Caller) gate.ReadinessResult {
	r.asked <- who
	<-ctx.Done()
	return gate.ReadinessResult{}
}

// journal is an observer that writes down what it hears.
type journal struct {
	mu     sync.Mutex
	begun  int
	ended  []string
	other  []string
	fields map[string][]string // of the last request, at its end
	lines  []byte
}

func (j *journal) Begin(x *gate.Exchange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun++
	if x.Trace != nil {
		x.TraceLines = j.lines
	}
}

func (j *journal) End(x *gate.Exchange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	inOrder := x.Arrived > 0 && x.Ended >= x.Arrived && (x.Admitted == 0 || x.Admitted >= x.Arrived) &&
		(x.Forwarded == 0 || x.Forwarded >= x.Admitted) && (x.Answered == 0 || x.Answered >= x.Forwarded)
	j.ended = append(j.ended, fmt.Sprintf("%s %s %s %s %d %s %d %d %v", x.Protocol, x.Method, x.Target, x.Host, x.Status, x.Outcome, x.RequestBody, x.ResponseBody, inOrder))
	j.fields = map[string][]string{}
	for name, value := range x.Fields.Each {
		j.fields[string(name)] = append(j.fields[string(name)], string(value))
	}
}

func (j *journal) Rejected(o gate.Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.other = append(j.other, "rejected "+o.String())
}

func (j *journal) Probed(x *gate.Exchange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.other = append(j.other, fmt.Sprintf("probed %d", x.Status))
}

func TestProbesAreAnsweredByTheGate(t *testing.T) {
	up := startContainer(t, bothProtocols, func(http.ResponseWriter, *http.Request) { t.Error("forwarded") })
	ready := &readiness{answer: gate.ReadinessResult{Ready: true}, settled: true, asked: make(chan gate.Caller, 1)}
	var j journal
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.Readiness, g.Observer = ready, &j })
	probe := func(want int, wantBody string, fields ...string) *http.Response {
		t.Helper()
		res, body := r.do("GET", "/any/path", "", fields...)
		if res.StatusCode != want || body != wantBody {
			t.Errorf("%q: %d %q, want %d %q", fields, res.StatusCode, body, want, wantBody)
		}
		return res
	}
	probe(200, "queue", "User-Agent", "kube-probe/1.30", "K-Network-Probe", "queue")
	res := probe(200, "", "K-Network-Probe", "probe", "K-Network-Hash", "abc")
	if got := res.Header.Get("K-Network-Hash"); got != "abc" {
		t.Errorf("hash %q", got)
	}
	probe(400, "unexpected probe header value: x\n", "User-Agent", "Knative-Activator-Probe", "K-Network-Probe", "x")
	probe(400, "a probe request must contain a non-empty \"K-Network-Hash\" header\n", "K-Network-Probe", "probe")
	ready.answer = gate.ReadinessResult{Reason: "web: refused"}
	if got := probe(503, "", "K-Network-Probe", "queue").Header.Get("K-Readiness-Reason"); got != "web: refused" {
		t.Errorf("reason %q", got)
	}

	ready.settled = false
	answers := r.start("GET", "/", "User-Agent", "kube-probe/1.30", "K-Network-Probe", "queue")
	if who := receive(t, "the question", ready.asked); who != gate.Kubelet {
		t.Errorf("asked for %d", who)
	}
	r.gate.Drain.Start()
	if res := receive(t, "an answer while draining", answers); res == nil || res.StatusCode != 503 {
		t.Errorf("%v", res)
	}
	probe(503, "shutting down\n", "K-Network-Probe", "probe", "K-Network-Hash", "abc")

	j.mu.Lock()
	defer j.mu.Unlock()
	want := []string{"probed 200", "probed 200", "probed 400", "probed 400", "probed 503", "probed 503", "probed 503"}
	if j.begun != 0 || len(j.ended) != 0 || !slices.Equal(j.other, want) {
		t.Errorf("%d begun, ended %q, %q", j.begun, j.ended, j.other)
	}
}

func TestTheObserverSeesEachRequestOnceAsItCame(t *testing.T) {
	var got http.Header
	up := startContainer(t, bothProtocols, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reset" {
			panic(http.ErrAbortHandler)
		}
		got = r.Header
		_, _ = io.Copy(w, r.Body)
	})
	j := journal{lines: []byte("traceparent: 00-new\r\nb3: new\r\n")}
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.Observer = &j })
	r.do("POST", "/a?b=c", "12345", "K-Original-Host", "app", "Traceparent", "00-old", "Tracestate", "kept", "X-B3-Traceid", "old", "X-Forwarded-For", "192.0.2.1")
	r.do("GET", "/reset", "")
	r.do("GET", "/", "", "K-Original-Host", "a b")
	for name, want := range map[string][]string{"Traceparent": {"00-new"}, "B3": {"new"}, "X-B3-Traceid": nil, "Tracestate": {"kept"}} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s at the container: %q, want %q", name, got[name], want)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	want := []string{"HTTP/2.0 POST /a?b=c app 200 served 5 5 true", "HTTP/2.0 GET /reset " + r.addr + " 502 upstream-reset 0 0 true"}
	if j.begun != 2 || !slices.Equal(j.ended, want) || !slices.Equal(j.other, []string{"rejected bad-request"}) {
		t.Errorf("%d begun, ended %q, other %q", j.begun, j.ended, j.other)
	}
}

func TestTheObserverSeesTheFieldsAsTheyCame(t *testing.T) {
	up := startContainer(t, bothProtocols, func(http.ResponseWriter, *http.Request) {})
	j := journal{lines: []byte("traceparent: 00-new\r\n")}
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.Observer = &j })
	r.do("GET", "/", "", "K-Original-Host", "app", "Traceparent", "00-old", "X-Forwarded-For", "192.0.2.1", "Te", "trailers", "User-Agent", "")
	j.mu.Lock()
	defer j.mu.Unlock()
	want := map[string][]string{"K-Original-Host": {"app"}, "Traceparent": {"00-old"}, "X-Forwarded-For": {"192.0.2.1"}, "Te": {"trailers"}}
	if fmt.Sprint(j.fields) != fmt.Sprint(want) {
		t.Errorf("fields %v, want %v", j.fields, want)
	}
}

func TestADrainServesAndSaysGoodbye(t *testing.T) {
	up, arrived, release := occupied(t)
	r := newRig(t, up)
	under := r.start("GET", "/under")
	receive(t, "the request", arrived)
	r.gate.Drain.Start()
	late := r.start("GET", "/late")
	receive(t, "a request while draining", arrived)

	ended := make(chan error, 1)
	go func() { ended <- r.server.Shutdown(context.Background()) }()
	close(release)
	for _, a := range []chan *http.Response{under, late} {
		if res := receive(t, "an answer", a); res == nil || res.StatusCode != 200 {
			t.Errorf("%v", res)
		}
	}
	if err := receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
	if got := r.server.Stats().Connections; got != 0 {
		t.Errorf("%d connections left", got)
	}
}

func TestShutdownCutsWhatOutlastsIt(t *testing.T) {
	up, arrived, release := occupied(t)
	defer close(release)
	r := newRig(t, up)
	answer := r.start("GET", "/")
	receive(t, "the request", arrived)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.server.Shutdown(ctx); err == nil {
		t.Error("the cut was not reported")
	}
	if res := receive(t, "the client's end", answer); res != nil {
		t.Errorf("answered %v", res.Status)
	}
	until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })
}

func TestPlaintextIsRefusedWhereOnlyTLSIsServed(t *testing.T) {
	up := startContainer(t, bothProtocols, func(http.ResponseWriter, *http.Request) { t.Error("forwarded") })
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.TLSOnly = true })
	if res, _ := r.do("GET", "/", ""); res.StatusCode != 403 {
		t.Errorf("%d", res.StatusCode)
	}
	res, _ := r.call()
	wantStatus(t, res, "7", "only TLS is served here", "plaintext-refused")
	if res, body := r.do("GET", "/", "", "K-Network-Probe", "queue"); res.StatusCode != 200 || body != "queue" {
		t.Errorf("probe: %d %q", res.StatusCode, body)
	}
}

func TestAPanicIsContained(t *testing.T) {
	up := startContainer(t, bothProtocols, func(http.ResponseWriter, *http.Request) {})
	panicked := make(chan any, 1)
	r := newRig(t, up, func(g *gate.Config, h *Config) {
		g.Contact = panicking{}
		h.Panicked = func(v any) { panicked <- v }
	})
	if res, _ := r.do("GET", "/", ""); res.StatusCode != 500 {
		t.Errorf("%d", res.StatusCode)
	}
	receive(t, "the report", panicked)
	until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 && r.gate.Drain.Requests() == 0 })
}

type panicking struct{}

func (panicking) Listening(bool) { panic("out of order") }

func TestMessagesArePercentEncoded(t *testing.T) {
	if got, want := encodeMessage("100 % of \"ä\"\n"), "100 %25 of \"%C3%A4\"%0A"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
