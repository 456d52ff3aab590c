package tracing

import (
	"context"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/queuegate/queuegate/pkg/gate"
)

var epoch = time.Date(2026, 5, 4, 3, 2, 0, 0, time.UTC)

// after returns a time on the clock of gate.Record: the given number of milliseconds
// after the request arrived. The function at returns the same time on the wall clock.
func after(ms int) time.Duration { return time.Second + time.Duration(ms)*time.Millisecond }
func at(ms int) time.Time        { return epoch.Add(after(ms)) }

// finished returns a request that waited 2 ms and spent 7 ms in the container.
func finished() *gate.Record {
	return &gate.Record{
		Method: []byte("GET"), Target: []byte("/a/b?secret=1"), Host: []byte("app.example:8080"), Protocol: "HTTP/1.1",
		Peer: netip.MustParseAddrPort("10.1.2.3:4567"), Status: 200, Outcome: gate.Served,
		Arrived: after(0), Admitted: after(2), Forwarded: after(3), Responded: after(8), Ended: after(10),
	}
}

// refused returns a request that got no slot.
func refused() *gate.Record {
	x := finished()
	x.Admitted, x.Forwarded, x.Responded, x.Status, x.Outcome = 0, 0, 0, 503, gate.QueueFull
	return x
}

// unanswered returns a request to which the container did not respond.
func unanswered() *gate.Record {
	x := finished()
	x.Responded, x.Status, x.Outcome = 0, 504, gate.RequestTimeout
	return x
}

// spansOf returns the spans of a request.
func spansOf(t *testing.T, h *gate.TraceFields, x *gate.Record) (*Span, []*SpanData) {
	t.Helper()
	k := new(kept)
	tracer := newTracer(&Config{SamplingRate: 1, Epoch: epoch}, k)
	span := tracer.Start(h)
	span.End(x)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !k.closed || tracer.Dropped() != 0 {
		t.Errorf("closed %v, %d dropped", k.closed, tracer.Dropped())
	}
	return span, k.spans()
}

func TestARequestHasThreeSpans(t *testing.T) {
	span, spans := spansOf(t, headers("traceparent", "00-"+idA+"-"+spA+"-01", "tracestate", "a=b, c@d=e"), finished())
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	if span.TraceID() != spans[0].TraceID {
		t.Errorf("id %x, want %v", span.TraceID(), spans[0].TraceID)
	}
	proxy, wait, upstream := spans[0], spans[1], spans[2]
	for i, want := range []struct {
		name     string
		kind     Kind
		from, to time.Time
	}{
		{"kn.queueproxy.proxy", KindServer, at(0), at(10)},
		{"kn.queueproxy.wait", KindInternal, at(0), at(2)},
		{"kn.queueproxy.upstream", KindClient, at(3), at(10)},
	} {
		s := spans[i]
		if s.Name != want.name || s.Kind != want.kind || !s.StartTime.Equal(want.from) || !s.EndTime.Equal(want.to) {
			t.Errorf("%s of kind %d from %v to %v, want %+v", s.Name, s.Kind, s.StartTime, s.EndTime, want)
		}
		if s.TraceID.String() != idA || s.Flags != 1 || s.Failed || s.Message != "" {
			t.Errorf("%s: %+v", s.Name, s)
		}
		if s.Tracestate != "a=b,c@d=e" {
			t.Errorf("%s: tracestate %q", s.Name, s.Tracestate)
		}
	}
	if proxy.ParentSpanID.String() != spA || !proxy.HasRemoteParent || proxy.ChildSpanCount != 2 {
		t.Errorf("proxy: %+v", proxy)
	}
	if wait.ParentSpanID != proxy.SpanID || upstream.ParentSpanID != proxy.SpanID || wait.HasRemoteParent || upstream.HasRemoteParent {
		t.Errorf("parents %v and %v, want %v", wait.ParentSpanID, upstream.ParentSpanID, proxy.SpanID)
	}
	if wait.SpanID == proxy.SpanID || wait.SpanID == upstream.SpanID || upstream.SpanID == proxy.SpanID {
		t.Error("an id is there twice")
	}
	if !strings.Contains(string(span.Lines()), idA+"-"+upstream.SpanID.String()+"-01") {
		t.Errorf("the container got %q, upstream is %v", span.Lines(), upstream.SpanID)
	}
	if a := upstream.Events; len(a) != 1 || !a[0].Time.Equal(at(8)) {
		t.Errorf("upstream: events %v", a)
	}
}

func TestSpanAttributesHaveCurrentOrLegacyNamesAsConfigured(t *testing.T) {
	full := finished()
	full.Method, full.Encrypted, full.UserAgent, full.RouteTag = []byte("BREW"), true, []byte("pot/1"), []byte("green")
	full.Status, full.Host = 418, []byte("[2001:db8::1]")
	for _, c := range []struct {
		what            string
		legacy          bool
		x               *gate.Record
		proxy, upstream map[string]any // nil = no such span
	}{
		{"served", false, finished(), map[string]any{
			"http.request.method": "GET", "url.path": "/a/b", "url.scheme": "http", "server.address": "app.example", "server.port": int64(8080),
			"http.response.status_code": int64(200), "network.protocol.version": "1.1", "network.peer.address": "10.1.2.3", "network.peer.port": int64(4567),
			"kn.route.tag": "kn:disabled", "queuegate.outcome": "served",
		}, map[string]any{
			"http.request.method": "GET", "url.path": "/a/b", "server.address": "app.example", "server.port": int64(8080), "http.response.status_code": int64(200),
		}},
		{"all there is", false, full, map[string]any{
			"http.request.method": "_OTHER", "http.request.method_original": "BREW", "url.path": "/a/b", "url.scheme": "https", "server.address": "2001:db8::1",
			"http.response.status_code": int64(418), "network.protocol.version": "1.1", "network.peer.address": "10.1.2.3", "network.peer.port": int64(4567),
			"user_agent.original": "pot/1", "kn.route.tag": "green", "queuegate.outcome": "served",
		}, map[string]any{
			"http.request.method": "_OTHER", "http.request.method_original": "BREW", "url.path": "/a/b", "server.address": "2001:db8::1", "http.response.status_code": int64(418),
		}},
		{"a fault", false, unanswered(), map[string]any{
			"http.request.method": "GET", "url.path": "/a/b", "url.scheme": "http", "server.address": "app.example", "server.port": int64(8080),
			"http.response.status_code": int64(504), "network.protocol.version": "1.1", "network.peer.address": "10.1.2.3", "network.peer.port": int64(4567),
			"kn.route.tag": "kn:disabled", "queuegate.outcome": "request-timeout", "error.type": "request-timeout",
		}, map[string]any{
			"http.request.method": "GET", "url.path": "/a/b", "server.address": "app.example", "server.port": int64(8080), "error.type": "request-timeout",
		}},
		{"earlier names", true, full, map[string]any{
			"http.method": "BREW", "http.path": "/a/b", "http.host": "[2001:db8::1]", "http.status_code": int64(418), "http.flavor": "1.1",
			"queuegate.outcome": "served", "net.peer.ip": "10.1.2.3", "net.peer.port": int64(4567),
		}, map[string]any{"http.method": "BREW", "http.path": "/a/b", "http.host": "[2001:db8::1]", "http.status_code": int64(418)}},
		{"a fault by earlier names", true, refused(), map[string]any{
			"http.method": "GET", "http.path": "/a/b", "http.host": "app.example:8080", "http.status_code": int64(503), "http.flavor": "1.1",
			"queuegate.outcome": "queue-full", "net.peer.ip": "10.1.2.3", "net.peer.port": int64(4567),
		}, nil},
	} {
		k := new(kept)
		tracer := newTracer(&Config{SamplingRate: 1, LegacyAttributes: c.legacy}, k)
		tracer.Start(nil).End(c.x)
		if err := tracer.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		spans := k.spans()
		if got := spans[0].Attributes; !reflect.DeepEqual(got, c.proxy) {
			t.Errorf("%s, proxy:\n got %v\nwant %v", c.what, got, c.proxy)
		}
		if c.upstream != nil && !reflect.DeepEqual(spans[2].Attributes, c.upstream) {
			t.Errorf("%s, upstream:\n got %v\nwant %v", c.what, spans[2].Attributes, c.upstream)
		}
	}
}

func TestTheQueueSpanOfARequestWithoutASlotLastsUntilItsEnd(t *testing.T) {
	_, spans := spansOf(t, nil, refused())
	if len(spans) != 2 || spans[1].Name != nameWait || !spans[1].EndTime.Equal(at(10)) || spans[0].ChildSpanCount != 1 {
		t.Fatalf("spans %+v", spans)
	}
	if s := spans[0]; !s.Failed || s.HTTPStatus != 503 || s.Message != "queue-full" {
		t.Errorf("status %+v", s)
	}
	if spans[0].HasRemoteParent || spans[0].ParentSpanID != (gate.SpanID{}) {
		t.Errorf("a parent: %+v", spans[0])
	}
}

func TestTheUpstreamSpanHasNoEventIfTheContainerDidNotRespond(t *testing.T) {
	_, spans := spansOf(t, nil, unanswered())
	if upstream := spans[2]; upstream.Events != nil || !upstream.Failed || upstream.HTTPStatus != 504 {
		t.Errorf("upstream %+v", upstream)
	}
}

func TestASpanNeverEndsBeforeItBegins(t *testing.T) {
	x := finished()
	x.Admitted, x.Forwarded, x.Ended = after(-1), after(5), after(-3)
	_, spans := spansOf(t, nil, x)
	for _, s := range spans {
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("%s from %v to %v", s.Name, s.StartTime, s.EndTime)
		}
	}
}

func TestFailuresAreDistinguishedFromClientErrors(t *testing.T) {
	for _, c := range []struct {
		status  int
		outcome gate.Outcome
		failed  bool
		message string
	}{
		{101, gate.Tunnelled, false, ""}, {200, gate.Served, false, ""}, {304, gate.Served, false, ""},
		{400, gate.Served, false, "Bad Request"}, {418, gate.Served, false, "I'm a teapot"}, {499, gate.ClientGone, false, "client-gone"},
		{500, gate.Served, true, "Internal Server Error"}, {502, gate.UpstreamReset, true, "upstream-reset"},
		{504, gate.RequestTimeout, true, "request-timeout"}, {200, gate.UpstreamBrokeOff, true, "upstream-broke-off"}, {599, gate.Served, true, "served"},
	} {
		x := finished()
		x.Status, x.Outcome = c.status, c.outcome
		_, spans := spansOf(t, nil, x)
		for _, s := range []*SpanData{spans[0], spans[2]} {
			if s.Failed != c.failed || s.Message != c.message || s.HTTPStatus != c.status {
				t.Errorf("%d, %s, %s: failed %v, %q", c.status, c.outcome, s.Name, s.Failed, s.Message)
			}
		}
	}
}

func TestAttributesAreBoundedUTF8(t *testing.T) {
	x := finished()
	x.Method, x.Host = []byte(strings.Repeat("M", 100)), []byte("a\xffb")
	x.Target = []byte("/" + strings.Repeat("é", 5000))
	_, spans := spansOf(t, nil, x)
	path := spans[0].Attributes["url.path"].(string)
	if len(path) > maxPathBytes || len(path) < maxPathBytes-1 || !utf8.ValidString(path) || strings.Contains(path, "\uFFFD") {
		t.Errorf("path of %d bytes", len(path))
	}
	if got := spans[0].Attributes["server.address"]; got != "a\uFFFDb" {
		t.Errorf("host %q", got)
	}
	if got := spans[0].Attributes["http.request.method_original"].(string); len(got) != maxMethodBytes {
		t.Errorf("method %q", got)
	}
}

func TestWithoutAProtocolNothingIsTraced(t *testing.T) {
	for _, protocol := range []string{"", "none"} {
		tracer, err := New(Config{Protocol: protocol, SamplingRate: 1})
		if tracer != nil || err != nil {
			t.Fatalf("%q: %v, %v", protocol, tracer, err)
		}
		span := tracer.Start(headers("b3", "1"))
		span.End(finished())
		tracer.ExportSpan(&SpanData{})
		if span != nil || span.Lines() != nil || span.TraceID() != (gate.TraceID{}) || tracer.Dropped() != 0 || tracer.Close(context.Background()) != nil {
			t.Errorf("%q: a nil Tracer did something", protocol)
		}
	}
}

func TestAnInvalidConfigurationIsRejected(t *testing.T) {
	for want, c := range map[string]Config{
		"unknown protocol": {Protocol: "jaeger"}, `endpoint ""`: {Protocol: "zipkin"},
		`endpoint "ftp://x"`: {Protocol: "grpc", Endpoint: "ftp://x"}, `endpoint "x"`: {Protocol: "http/protobuf", Endpoint: "x"},
	} {
		if tracer, err := New(c); err == nil || !strings.Contains(err.Error(), want) || tracer != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
