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

var arrived = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func at(ms int) time.Time { return arrived.Add(time.Duration(ms) * time.Millisecond) }

// finished is a request that waited 2 ms and took the container 7 ms.
func finished() *Finish {
	return &Finish{
		Method: []byte("GET"), Target: []byte("/a/b?secret=1"), Host: []byte("app.example"), Protocol: "HTTP/1.1",
		Peer: netip.MustParseAddrPort("10.1.2.3:4567"), Status: 200, Outcome: "served",
		Arrived: at(0), Admitted: at(2), Forwarded: at(3), Answered: at(8), Ended: at(10),
	}
}

// spansOf are those of one request.
func spansOf(t *testing.T, h *gate.TraceFields, f *Finish) (*Span, []*SpanData) {
	t.Helper()
	k := new(kept)
	tracer := newTracer(&Config{SamplingRate: 1}, k)
	span := tracer.Start(h)
	span.End(f)
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
		if s.TraceID.String() != idA || s.Flags != 1 || s.Code != 0 {
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
	if want := map[string]any{
		"http.method": "GET", "http.path": "/a/b", "http.host": "app.example", "http.status_code": int64(200), "http.flavor": "1.1",
		"queuegate.outcome": "served", "net.peer.ip": "10.1.2.3", "net.peer.port": int64(4567),
	}; !reflect.DeepEqual(proxy.Attributes, want) {
		t.Errorf("proxy: %v, want %v", proxy.Attributes, want)
	}
	if want := map[string]any{"http.method": "GET", "http.path": "/a/b", "http.host": "app.example", "http.status_code": int64(200)}; !reflect.DeepEqual(upstream.Attributes, want) {
		t.Errorf("upstream: %v, want %v", upstream.Attributes, want)
	}
	if a := upstream.Events; len(a) != 1 || !a[0].Time.Equal(at(8)) {
		t.Errorf("upstream: events %v", a)
	}
}

func TestARequestThatNeverGotASlotWaitedToItsEnd(t *testing.T) {
	f := finished()
	f.Admitted, f.Forwarded, f.Answered, f.Status, f.Outcome, f.Error = time.Time{}, time.Time{}, time.Time{}, 503, "queue-full", true
	_, spans := spansOf(t, nil, f)
	if len(spans) != 2 || spans[1].Name != nameWait || !spans[1].EndTime.Equal(at(10)) || spans[0].ChildSpanCount != 1 {
		t.Fatalf("spans %+v", spans)
	}
	if s := spans[0].Status; s.Code != CodeUnavailable || s.Message != "queue-full" {
		t.Errorf("status %+v", s)
	}
	if spans[0].HasRemoteParent || spans[0].ParentSpanID != (gate.SpanID{}) {
		t.Errorf("a parent: %+v", spans[0])
	}
}

func TestAContainerThatDidNotAnswerHasNoStatus(t *testing.T) {
	f := finished()
	f.Answered, f.Status, f.Outcome, f.Error = time.Time{}, 504, "request-timeout", true
	_, spans := spansOf(t, nil, f)
	upstream := spans[2]
	if _, ok := upstream.Attributes["http.status_code"]; ok || upstream.Events != nil || upstream.Code != CodeDeadlineExceeded {
		t.Errorf("upstream %+v", upstream)
	}
}

func TestASpanNeverEndsBeforeItBegins(t *testing.T) {
	f := finished()
	f.Admitted, f.Forwarded, f.Ended = at(-1), at(5), at(-3)
	_, spans := spansOf(t, nil, f)
	for _, s := range spans {
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("%s from %v to %v", s.Name, s.StartTime, s.EndTime)
		}
	}
}

func TestStatusesAreMapped(t *testing.T) {
	for _, c := range []struct {
		status int
		fault  bool
		code   Code
		isErr  bool
	}{
		{101, false, CodeOK, false}, {200, false, CodeOK, false}, {304, false, CodeOK, false},
		{400, false, CodeInvalidArgument, false}, {404, false, CodeNotFound, false}, {418, false, CodeUnknown, false},
		{429, false, CodeResourceExhausted, false}, {499, false, CodeCancelled, false},
		{500, false, CodeInternal, true}, {502, true, CodeUnknown, true}, {503, false, CodeUnavailable, true},
		{504, true, CodeDeadlineExceeded, true}, {200, true, CodeUnknown, true},
	} {
		f := finished()
		f.Status, f.Error, f.Outcome = c.status, c.fault, "what"
		_, spans := spansOf(t, nil, f)
		s := spans[0]
		if s.Code != c.code || isError(s) != c.isErr || (s.Message == "") != (c.code == 0) || c.fault && s.Message != "what" {
			t.Errorf("%d, fault %v: %+v, error %v", c.status, c.fault, s.Status, isError(s))
		}
	}
}

func TestAttributesAreBoundedUTF8(t *testing.T) {
	f := finished()
	f.Method, f.Host = []byte(strings.Repeat("M", 100)), []byte("a\xffb")
	f.Target = []byte("/" + strings.Repeat("é", 5000))
	_, spans := spansOf(t, nil, f)
	path := spans[0].Attributes["http.path"].(string)
	if len(path) > maxPathBytes || len(path) < maxPathBytes-1 || !utf8.ValidString(path) || strings.Contains(path, "\uFFFD") {
		t.Errorf("path of %d bytes", len(path))
	}
	if got := spans[0].Attributes["http.host"]; got != "a\uFFFDb" {
		t.Errorf("host %q", got)
	}
	if got := spans[0].Attributes["http.method"].(string); len(got) != maxMethodBytes {
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

func TestABadConfigurationIsRefused(t *testing.T) {
	for want, c := range map[string]Config{
		"unknown protocol": {Protocol: "jaeger"}, `endpoint ""`: {Protocol: "zipkin"},
		`endpoint "ftp://x"`: {Protocol: "grpc", Endpoint: "ftp://x"}, `endpoint "x"`: {Protocol: "http/protobuf", Endpoint: "x"},
	} {
		if tracer, err := New(c); err == nil || !strings.Contains(err.Error(), want) || tracer != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
