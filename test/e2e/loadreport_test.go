package e2e

import (
	"net"
	"strings"
	"testing"
)

const (
	asksForLoad = "Endpoint-Load-Metrics-Format: TEXT"
	loadField   = "Endpoint-Load-Metrics"
)

// exchanged sends a GET with these fields to addr. The container sends the text in the
// parameter response. The result is the response that the client receives.
func exchanged(t *testing.T, k *container, addr, response string, fields ...string) response {
	t.Helper()
	c := dialAddr(t, addr)
	defer c.close()
	c.send(request("GET", "/", fields...))
	p := k.accept()
	p.head()
	p.send(response)
	p.close()
	return c.response("GET")
}

func TestAResponseHasALoadReportIfTheRequestWantsOne(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=4")
	c, p := inFlight(t, k, g, "/held")
	exchanged(t, k, g.addr, okClose).lacks(loadField)
	exchanged(t, k, g.addr, okClose, "Endpoint-Load-Metrics-Format: XML").lacks(loadField)
	exchanged(t, k, g.addr, okClose, asksForLoad).field(loadField, "TEXT application_utilization=0.5,named_metrics.queue_depth=0,named_metrics.queue_wait_seconds=0")
	a := exchanged(t, k, g.addr, okClose, "Endpoint-Load-Metrics-Format: json")
	if v := a.get(loadField); !strings.HasPrefix(v, `JSON {"application_utilization":`) || !strings.Contains(v, `"named_metrics":{"queue_depth":0,`) {
		t.Errorf("%q", v)
	}
	a = exchanged(t, k, g.addr, okClose, "Endpoint-Load-Metrics-Format: BIN")
	a.lacks(loadField)
	if !a.has("Endpoint-Load-Metrics-Bin") {
		t.Errorf("no report in %s", a.head)
	}
	finish(c, p)
}

func TestLoadReportsFollowTheSetting(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	off := startGate(t, k, "CONTAINER_CONCURRENCY=4", "LOAD_REPORTS=off")
	exchanged(t, k, off.addr, okClose, asksForLoad).lacks(loadField)
	always := startGate(t, k, "CONTAINER_CONCURRENCY=4", "LOAD_REPORTS=always")
	if a := exchanged(t, k, always.addr, okClose); !strings.HasPrefix(a.get(loadField), "TEXT application_utilization=0.25,") {
		t.Errorf("%s", a.head)
	}
}

func TestTheLoadReportOfTheContainerIsMergedIntoThatOfTheGate(t *testing.T) {
	t.Parallel()
	const report = "Endpoint-Load-Metrics: TEXT cpu_utilization=0.7,application_utilization=0.9,named_metrics.tokens=5"
	reply := func(head, trailers string) string {
		return "HTTP/1.1 200 OK\r\nX-Before: 1\r\n" + head + "X-After: 1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + trailers + "\r\n"
	}
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=4")
	for _, requested := range []bool{false, true} {
		var fields []string
		if requested {
			fields = []string{asksForLoad}
		}
		a := exchanged(t, k, g.addr, reply(report+"\r\n", ""), fields...)
		want := strings.TrimPrefix(report, loadField+": ")
		if requested {
			want = "TEXT cpu_utilization=0.7,application_utilization=0.9,named_metrics.tokens=5,named_metrics.queue_depth=0,named_metrics.queue_wait_seconds=0"
		}
		if got := a.all(loadField); len(got) != 1 || withoutRates(got[0]) != want {
			t.Errorf("asked: %v: %q, want %q", requested, got, want)
		}
		a = exchanged(t, k, g.addr, reply("", report+"\r\nX-Trailer: 1\r\n"), fields...)
		if got := strings.Contains(strings.ToLower(a.trailers), "cpu_utilization"); a.has(loadField) != requested || got == requested || !strings.Contains(strings.ToLower(a.trailers), "x-trailer: 1") {
			t.Errorf("asked: %v: head %q, trailers %q", requested, a.head, a.trailers)
		}
		a = exchanged(t, k, g.addr, reply("Endpoint-Load-Metrics: TEXT nonsense\r\n", ""), fields...)
		a.field(loadField, "TEXT nonsense")
	}
}

// withoutRates removes the values that depend on time.
func withoutRates(report string) string {
	var pairs []string
	for _, pair := range strings.Split(report, ",") {
		if strings.HasPrefix(pair, "named_metrics.queue_wait_seconds=") {
			pair = "named_metrics.queue_wait_seconds=0"
		}
		if !strings.HasPrefix(pair, "rps_fractional=") && !strings.HasPrefix(pair, "eps=") {
			pairs = append(pairs, pair)
		}
	}
	return strings.Join(pairs, ",")
}

func TestARejectionHasALoadReportIfTheRequestWantsOne(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1")
	c, p := inFlight(t, k, g, "/0")
	waiting := queued(t, g, "/1")
	rejected := dial(t, g).get("/2", asksForLoad)
	rejected.localError(503)
	if v := rejected.get(loadField); !strings.HasPrefix(v, "TEXT application_utilization=1,") || !strings.Contains(v, "named_metrics.queue_depth=1") {
		t.Errorf("%q", v)
	}
	finish(c, p)
	finish(waiting, k.acceptFor("/1"))
}

func TestOnlyTrustedSourcesGetLoadReports(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=4", "TRUSTED_SOURCES=203.0.113.0/24")
	_, port, _ := net.SplitHostPort(g.addr)
	for _, address := range addressesOutside(t) {
		exchanged(t, k, net.JoinHostPort(address, port), okClose, asksForLoad).lacks(loadField)
	}
	if a := exchanged(t, k, g.addr, okClose, asksForLoad); !a.has(loadField) {
		t.Errorf("no report for the loopback: %s", a.head)
	}
}
