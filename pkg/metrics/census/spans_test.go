package census

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"go.opencensus.io/trace"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// kept is an OpenCensus exporter that keeps its spans.
type kept struct {
	spans   []*trace.SpanData
	flushed int
}

func (k *kept) ExportSpan(s *trace.SpanData) { k.spans = append(k.spans, s) }
func (k *kept) Flush()                       { k.flushed++ }

const (
	idA = "0af7651916cd43dd8448eb211c80319c"
	spA = "b7ad6b7169203331"
)

var epoch = time.Date(2026, 5, 4, 3, 2, 0, 0, time.UTC)

func after(ms int) time.Duration { return time.Second + time.Duration(ms)*time.Millisecond }
func at(ms int) time.Time        { return epoch.Add(after(ms)) }

// traced returns the spans of one request, as an OpenCensus exporter receives them.
func traced(t *testing.T, h *gate.TraceFields, x *gate.Record) (*tracing.Span, *kept) {
	t.Helper()
	k := new(kept)
	tracer, err := tracing.New(tracing.Config{SamplingRate: 1, Epoch: epoch, Exporter: Export(k)})
	if err != nil {
		t.Fatal(err)
	}
	span := tracer.Start(h)
	span.End(x)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tracer.Dropped() != 0 || k.flushed != 1 {
		t.Errorf("%d dropped, flushed %d times", tracer.Dropped(), k.flushed)
	}
	return span, k
}

func finished() *gate.Record {
	return &gate.Record{
		Method: []byte("GET"), Target: []byte("/a?b"), Host: []byte("app.example"), Protocol: "HTTP/1.1",
		Peer: netip.MustParseAddrPort("10.1.2.3:4567"), Status: 503, Outcome: gate.UpstreamBrokeOff,
		Arrived: after(0), Admitted: after(2), Forwarded: after(3), Responded: after(8), Ended: after(10),
	}
}

func TestAnOpenCensusExporterGetsTheSpansOfARequest(t *testing.T) {
	span, k := traced(t, &gate.TraceFields{
		Traceparent: []byte("00-" + idA + "-" + spA + "-01"), Tracestate: []byte("a=b, c@d=e f"),
	}, finished())
	if len(k.spans) != 3 {
		t.Fatalf("%d spans", len(k.spans))
	}
	proxy, wait, upstream := k.spans[0], k.spans[1], k.spans[2]
	for i, want := range []struct {
		name     string
		kind     int
		parent   trace.SpanID
		remote   bool
		children int
		from, to time.Time
		status   trace.Status
	}{
		{"kn.queueproxy.proxy", trace.SpanKindServer, trace.SpanID{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31}, true, 2, at(0), at(10),
			trace.Status{Code: trace.StatusCodeUnavailable, Message: "upstream-broke-off"}},
		{"kn.queueproxy.wait", trace.SpanKindUnspecified, proxy.SpanID, false, 0, at(0), at(2), trace.Status{}},
		{"kn.queueproxy.upstream", trace.SpanKindClient, proxy.SpanID, false, 0, at(3), at(10),
			trace.Status{Code: trace.StatusCodeUnavailable, Message: "upstream-broke-off"}},
	} {
		s := k.spans[i]
		if s.Name != want.name || s.SpanKind != want.kind || s.ParentSpanID != want.parent || s.HasRemoteParent != want.remote ||
			s.ChildSpanCount != want.children || s.Status != want.status || !s.StartTime.Equal(want.from) || !s.EndTime.Equal(want.to) {
			t.Errorf("span %+v, want %+v", s, want)
		}
		if gate.TraceID(s.TraceID) != span.TraceID() || s.TraceID.String() != idA || !s.IsSampled() || s.SpanID == (trace.SpanID{}) {
			t.Errorf("%s: context %+v", s.Name, s.SpanContext)
		}
		if e := s.Tracestate.Entries(); len(e) != 2 || e[0].Key != "a" || e[0].Value != "b" || e[1].Key != "c@d" || e[1].Value != "e f" {
			t.Errorf("%s: tracestate %v", s.Name, e)
		}
	}
	if want := map[string]any{
		"http.request.method": "GET", "url.path": "/a", "url.scheme": "http", "server.address": "app.example", "http.response.status_code": int64(503),
		"network.protocol.version": "1.1", "network.peer.address": "10.1.2.3", "network.peer.port": int64(4567),
		"kn.route.tag": "kn:disabled", "queuegate.outcome": "upstream-broke-off", "error.type": "upstream-broke-off",
	}; !reflect.DeepEqual(proxy.Attributes, want) {
		t.Errorf("attributes %v, want %v", proxy.Attributes, want)
	}
	if a := upstream.Annotations; len(a) != 1 || a[0].Message != "answered" || !a[0].Time.Equal(at(8)) {
		t.Errorf("annotations %v", a)
	}
	if len(proxy.Annotations) != 0 || len(wait.Attributes) != 0 {
		t.Errorf("proxy has %v, wait %v", proxy.Annotations, wait.Attributes)
	}
}

func TestAnOpenCensusRootSpanHasNoParent(t *testing.T) {
	_, k := traced(t, nil, finished())
	if s := k.spans[0]; s.ParentSpanID != (trace.SpanID{}) || s.HasRemoteParent || s.Tracestate != nil {
		t.Errorf("span %+v", s)
	}
}

func TestATracestateThatOpenCensusRejectsIsOmitted(t *testing.T) {
	k := new(kept)
	span := &tracing.SpanData{SpanContext: tracing.SpanContext{Tracestate: "a=b,A=b"}, Name: "of another"}
	if lost, err := Export(k).Export(t.Context(), []*tracing.SpanData{span}); lost != 0 || err != nil {
		t.Fatal(lost, err)
	}
	if len(k.spans) != 1 || k.spans[0].Tracestate != nil || k.spans[0].Name != "of another" {
		t.Errorf("spans %+v", k.spans)
	}
}

// stopping is an exporter that ends a context when it gets the first span.
type stopping struct{ end context.CancelFunc }

func (s stopping) ExportSpan(*trace.SpanData) { s.end() }

func TestSpansNotExportedInTimeAreLost(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := Export(stopping{cancel})
	if lost, err := e.Export(ctx, nameless(3)); lost != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d lost, %v", lost, err)
	}
	e.Close() // the exporter has no Flush
}

func nameless(n int) []*tracing.SpanData {
	batch := make([]*tracing.SpanData, n)
	for i := range batch {
		batch[i] = new(tracing.SpanData)
	}
	return batch
}

func TestATracerSendsTheProgramsOpenCensusSpans(t *testing.T) {
	var out bytes.Buffer
	tracer, err := tracing.New(tracing.Config{Protocol: "stdout", Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	to := Send(tracer)
	trace.RegisterExporter(to)
	defer trace.UnregisterExporter(to)
	_, span := trace.StartSpan(t.Context(), "of the program", trace.WithSampler(trace.AlwaysSample()), trace.WithSpanKind(trace.SpanKindClient))
	span.AddAttributes(trace.BoolAttribute("good", true))
	span.SetStatus(trace.Status{Code: trace.StatusCodeInternal, Message: "broken"})
	span.End()
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var line struct {
		TraceID, SpanID, Name, Kind, Status string
		Attributes                          map[string]any
		Error                               bool
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if line.TraceID != span.SpanContext().TraceID.String() || line.SpanID != span.SpanContext().SpanID.String() ||
		line.Name != "of the program" || line.Kind != "CLIENT" || line.Status != "broken" || !line.Error || line.Attributes["good"] != true {
		t.Errorf("sent %s", &out)
	}
}

func TestHTTPStatusesAreMappedToOpenCensusStatuses(t *testing.T) {
	for _, c := range []struct {
		status int
		failed bool
		code   int32
	}{
		{0, false, trace.StatusCodeOK}, {101, false, trace.StatusCodeOK}, {200, false, trace.StatusCodeOK}, {304, false, trace.StatusCodeOK},
		{400, false, trace.StatusCodeInvalidArgument}, {404, false, trace.StatusCodeNotFound}, {418, false, trace.StatusCodeUnknown},
		{429, false, trace.StatusCodeResourceExhausted}, {499, false, trace.StatusCodeCancelled}, {500, true, trace.StatusCodeInternal},
		{502, true, trace.StatusCodeUnknown}, {503, true, trace.StatusCodeUnavailable}, {504, true, trace.StatusCodeDeadlineExceeded},
		{200, true, trace.StatusCodeUnknown},
	} {
		if got := spanData(&tracing.SpanData{HTTPStatus: c.status, Failed: c.failed}).Status.Code; got != c.code {
			t.Errorf("%d, failed %v: code %d, want %d", c.status, c.failed, got, c.code)
		}
	}
}

func TestClientErrorsAreNotFailures(t *testing.T) {
	for status, failed := range map[int64]bool{404: false, 500: true} {
		got := fromSpanData(&trace.SpanData{
			Attributes: map[string]any{"http.status_code": status}, Status: trace.Status{Code: trace.StatusCodeUnknown},
		})
		if got.Failed != failed || got.HTTPStatus != int(status) {
			t.Errorf("%d: %+v", status, got)
		}
	}
}

func TestASpanSurvivesARoundTrip(t *testing.T) {
	for _, want := range []*tracing.SpanData{
		{},
		{
			SpanContext:  tracing.SpanContext{TraceID: gate.TraceID{1, 15: 2}, SpanID: gate.SpanID{3, 7: 4}, Flags: 0x81, Tracestate: "a=b,c@d=e f"},
			ParentSpanID: gate.SpanID{5}, HasRemoteParent: true, Kind: tracing.KindServer, Name: "name", StartTime: at(1), EndTime: at(2),
			Attributes: map[string]any{"a": int64(1), "b": "c"}, Events: []tracing.Event{{Time: at(1), Name: "first"}, {Time: at(2), Name: "second"}},
			Failed: true, Message: "why", ChildSpanCount: 7,
		},
		{Kind: tracing.KindClient},
	} {
		if got := fromSpanData(spanData(want)); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v became %+v", want, got)
		}
	}
	Send(nil).ExportSpan(&trace.SpanData{}) // must not panic with a nil Tracer
}
