package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
	"github.com/queuegate/queuegate/pkg/metrics/otlp/otlptest"
)

var someone = otlp.Resource{
	Namespace: "default", Service: "shop", Configuration: "shop", Revision: "shop-00001", Pod: "shop-00001-x", Version: "v1.2.3",
}

// send creates the spans of one request and sends them to endpoint.
func send(t *testing.T, c Config, h *gate.TraceFields, x *gate.Record) (*Span, *Tracer) {
	t.Helper()
	c.Resource, c.Epoch = someone, epoch
	tracer, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	span := tracer.Start(h)
	span.End(x)
	if err := tracer.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return span, tracer
}

// seen is a span decoded by a collector.
type seen struct {
	trace, id, parent, name, kind string
	from, to                      time.Time
}

func (s *Span) wanted() []seen {
	proxy := s.context.SpanID.String()
	id, above := s.TraceID().String(), ""
	if s.parentID != (gate.SpanID{}) {
		above = s.parentID.String()
	}
	return []seen{
		{id, proxy, above, "kn.queueproxy.proxy", "SERVER", at(0), at(10)},
		{id, "", proxy, "kn.queueproxy.wait", "", at(0), at(2)},
		{id, s.upstream.String(), proxy, "kn.queueproxy.upstream", "CLIENT", at(3), at(10)},
	}
}

func compare(t *testing.T, got, want []seen) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d spans, want %d", len(got), len(want))
	}
	for i := range got {
		if want[i].id == "" && len(got[i].id) == 16 {
			want[i].id = got[i].id
		}
		g, w := got[i], want[i]
		if !g.from.Equal(w.from) || !g.to.Equal(w.to) {
			t.Errorf("%s from %v to %v, want %v to %v", g.name, g.from, g.to, w.from, w.to)
		}
		g.from, g.to, w.from, w.to = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if g != w {
			t.Errorf("span %+v, want %+v", g, w)
		}
	}
}

func TestZipkinGetsTheSpansOfARequest(t *testing.T) {
	c := otlptest.HTTP(t, func(context.Context, otlptest.Message) otlptest.Response { return otlptest.Response{Status: 202} })
	for _, from := range []*gate.TraceFields{headers("b3", idB+"-"+spB+"-1"), headers("b3", id64+"-"+spB+"-1"), nil} {
		f := finished()
		f.Status = 503
		span, tracer := send(t, Config{Protocol: "zipkin", Endpoint: c.URL, SamplingRate: 1, Failed: func(err error) { t.Error(err) }}, from, f)
		if tracer.Dropped() != 0 {
			t.Errorf("%d dropped", tracer.Dropped())
		}
		m := c.Next(t)
		if m.Path != "/api/v2/spans" || m.Header.Get("Content-Type") != "application/json" {
			t.Errorf("posted %s to %s", m.Header.Get("Content-Type"), m.Path)
		}
		var list []zipkinSpan
		if err := json.Unmarshal(m.Body, &list); err != nil {
			t.Fatalf("%v in %s", err, m.Body)
		}
		got, want := []seen{}, span.wanted()
		for _, z := range list {
			start := time.UnixMicro(z.Timestamp)
			got = append(got, seen{z.TraceID, z.ID, z.ParentID, z.Name, z.Kind, start, start.Add(time.Duration(z.Duration) * time.Microsecond)})
			if z.Local.Service != "shop" {
				t.Errorf("local endpoint %+v", z.Local)
			}
		}
		if strings.HasPrefix(span.TraceID().String(), "0000000000000000") {
			for i := range want {
				want[i].trace = id64
			}
		}
		compare(t, got, want)
		proxy := list[0]
		if r := proxy.Remote; r == nil || r.IPv4 != "10.1.2.3" || r.Port != 4567 {
			t.Errorf("remote endpoint %+v", r)
		}
		if proxy.Tags["http.response.status_code"] != "503" || proxy.Tags["error"] != "Service Unavailable" || proxy.Tags["queuegate.outcome"] != "served" {
			t.Errorf("tags %v", proxy.Tags)
		}
		if a := list[2].Annotations; len(a) != 1 || a[0].Timestamp != at(8).UnixMicro() {
			t.Errorf("annotations %v", a)
		}
	}
}

func TestAnOTLPCollectorGetsTheSpansOfARequest(t *testing.T) {
	for protocol, c := range map[string]*otlptest.Collector{
		"http/protobuf": otlptest.HTTP(t, nil), "grpc": otlptest.GRPC(t, nil),
	} {
		for _, from := range []*gate.TraceFields{headers("traceparent", "00-"+idA+"-"+spA+"-01", "tracestate", "a=b"), headers("b3", idB+"-"+spB+"-1"), nil} {
			f := finished()
			f.Outcome = gate.UpstreamBrokeOff
			// A protobuf string must be UTF-8. The byte 0xff is not valid UTF-8, but it
			// must not make the whole message to the collector invalid.
			f.Target = []byte("/\xff")
			span, tracer := send(t, Config{Protocol: protocol, Endpoint: c.URL, SamplingRate: 1, Failed: func(err error) { t.Error(err) }}, from, f)
			if tracer.Dropped() != 0 {
				t.Errorf("%s: %d dropped", protocol, tracer.Dropped())
			}
			var request collector.ExportTraceServiceRequest
			if err := proto.Unmarshal(c.Next(t).Body, &request); err != nil {
				t.Fatal(err)
			}
			of := request.ResourceSpans[0]
			if got := textOf(of.Resource.Attributes); got != "service.name=shop service.version=v1.2.3 service.instance.id=shop-00001-x container.name=queue-proxy "+
				"k8s.namespace.name=default k8s.pod.name=shop-00001-x kn.service.name=shop kn.configuration.name=shop kn.revision.name=shop-00001 " {
				t.Errorf("%s: resource %s", protocol, got)
			}
			got := []seen{}
			kinds := map[tracepb.Span_SpanKind]string{tracepb.Span_SPAN_KIND_SERVER: "SERVER", tracepb.Span_SPAN_KIND_CLIENT: "CLIENT"}
			spans := of.ScopeSpans[0].Spans
			for _, s := range spans {
				got = append(got, seen{
					hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), s.Name, kinds[s.Kind],
					time.Unix(0, int64(s.StartTimeUnixNano)), time.Unix(0, int64(s.EndTimeUnixNano)),
				})
			}
			compare(t, got, span.wanted())
			proxy, wait, upstream := spans[0], spans[1], spans[2]
			if remote := proxy.Flags&flagRemote != 0; remote != (from != nil) || proxy.Flags&1 == 0 || wait.Flags&flagRemote != 0 {
				t.Errorf("%s: flags %x and %x", protocol, proxy.Flags, wait.Flags)
			}
			if (proxy.TraceState == "a=b") != (from != nil && from.Tracestate != nil) {
				t.Errorf("%s: tracestate %q", protocol, proxy.TraceState)
			}
			if want := "error.type=upstream-broke-off http.request.method=GET http.response.status_code=200 kn.route.tag=kn:disabled network.peer.address=10.1.2.3 network.peer.port=4567 " +
				"network.protocol.version=1.1 queuegate.outcome=upstream-broke-off server.address=app.example server.port=8080 url.path=/\uFFFD url.scheme=http "; textOf(proxy.Attributes) != want {
				t.Errorf("%s: attributes %s", protocol, textOf(proxy.Attributes))
			}
			if proxy.Status.Code != tracepb.Status_STATUS_CODE_ERROR || proxy.Status.Message != "upstream-broke-off" || wait.Status.Code != 0 {
				t.Errorf("%s: status %v and %v", protocol, proxy.Status, wait.Status)
			}
			if len(upstream.Events) != 1 || upstream.Events[0].TimeUnixNano != uint64(at(8).UnixNano()) {
				t.Errorf("%s: events %v", protocol, upstream.Events)
			}
		}
	}
}

func textOf(attributes []*common.KeyValue) string {
	var b strings.Builder
	for _, a := range attributes {
		b.WriteString(a.Key + "=")
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			b.WriteString(v.StringValue)
		case *common.AnyValue_IntValue:
			text, _ := json.Marshal(v.IntValue)
			b.Write(text)
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func TestStandardOutputGetsALinePerSpan(t *testing.T) {
	var out bytes.Buffer
	span, _ := send(t, Config{Protocol: "stdout", Output: &out}, headers("b3", idB+"-"+spB+"-1"), finished())
	got := []seen{}
	for line := range strings.Lines(out.String()) {
		var s spanLine
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		got = append(got, seen{s.TraceID, s.SpanID, s.ParentID, s.Name, s.Kind, s.Start, s.End})
		if s.Service != "shop" {
			t.Errorf("service %q", s.Service)
		}
	}
	compare(t, got, span.wanted())
}

// failures records the errors of a Tracer.
type failures struct {
	mu       sync.Mutex
	failures []string
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, err.Error())
}

func (f *failures) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.failures, "\n")
}

func TestSpansThatACollectorRejectsAreCounted(t *testing.T) {
	partial, err := proto.Marshal(&collector.ExportTraceServiceResponse{
		PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "too old"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		response otlptest.Response
		dropped  int64
		failures string
	}{
		{"some", otlptest.Response{Body: partial}, 2, "rejected 2 of them: too old"},
		{"all", otlptest.Response{GRPCStatus: "3", GRPCMessage: "bad"}, 3, "gRPC status 3: bad"},
		{"nonsense", otlptest.Response{Body: []byte{0xff}}, 3, "reading the collector's response"},
	} {
		var f failures
		server := otlptest.GRPC(t, func(context.Context, otlptest.Message) otlptest.Response { return c.response })
		_, tracer := send(t, Config{Protocol: "grpc", Endpoint: server.Listener.Addr().String(), Insecure: true, Debug: true, Failed: f.add}, nil, finished())
		if tracer.Dropped() != c.dropped || !strings.Contains(f.text(), c.failures) {
			t.Errorf("%s: %d dropped, notified of %s", c.name, tracer.Dropped(), f.text())
		}
	}
}

func TestADeadOrHangingCollectorBlocksNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, c := range []struct{ protocol, endpoint string }{
		{"zipkin", "http://" + l.Addr().String()}, {"http/protobuf", "http://" + l.Addr().String()}, {"grpc", "http://" + l.Addr().String()},
		{"zipkin", otlptest.HTTP(t, otlptest.Hang).URL}, {"http/protobuf", otlptest.HTTP(t, otlptest.Hang).URL}, {"grpc", otlptest.GRPC(t, otlptest.Hang).URL},
	} {
		var f failures
		tracer, err := New(Config{Protocol: c.protocol, Endpoint: c.endpoint, SamplingRate: 1, Failed: f.add})
		if err != nil {
			t.Fatal(err)
		}
		const requests = 2000
		for range requests {
			tracer.Start(nil).End(finished())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := tracer.Close(ctx); err == nil {
			t.Errorf("%s to %s: closed in peace", c.protocol, c.endpoint)
		}
		cancel()
		<-tracer.spans.done
		if tracer.Dropped() != 3*requests || f.text() == "" {
			t.Errorf("%s to %s: %d dropped, notified of %q", c.protocol, c.endpoint, tracer.Dropped(), f.text())
		}
	}
}

func TestATracerSendsSpansOfTheProgram(t *testing.T) {
	k := new(kept)
	tracer, err := New(Config{Protocol: "none", Exporter: k})
	if err != nil {
		t.Fatal(err)
	}
	tracer.ExportSpan(&SpanData{Name: "of the program"})
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if spans := k.spans(); len(spans) != 1 || spans[0].Name != "of the program" || !k.closed {
		t.Errorf("spans %v, closed %v", spans, k.closed)
	}
}
