package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/pkg/metrics/otlp"
	"github.com/queuegate/queuegate/pkg/metrics/otlp/otlptest"
)

// exportOver configures Knative's export to a port on which nothing listens.
func exportOver(protocol string) string {
	return fmt.Sprintf(`OBSERVABILITY_CONFIG={"tracing":{"protocol":%q,"endpoint":"http://127.0.0.1:1","samplingRate":1},`+
		`"requestMetrics":{"protocol":%q,"endpoint":"http://127.0.0.1:1","exportInterval":100000000}}`, protocol, protocol)
}

// nextOf returns the next message to a path.
func nextOf(t *testing.T, c *otlptest.Collector, path string) otlptest.Message {
	t.Helper()
	for {
		if m := c.Next(t); m.Path == path {
			return m
		}
	}
}

func TestOpenTelemetrysVariablesConfigureTheExportOfTracesAndMetrics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protocol        string
		collector       *otlptest.Collector
		traces, metrics string // paths
		encoding        string
	}{
		{"http/protobuf", otlptest.HTTP(t, nil), "/base" + otlp.Traces.Path, "/figures", "Content-Encoding"},
		{"grpc", otlptest.GRPC(t, nil), otlp.Traces.Method, otlp.Metrics.Method, "Grpc-Encoding"},
	} {
		k := startContainer(t)
		must(t, k.RespondAll([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
		g := startGate(t, k, exportOver(c.protocol), "OTEL_EXPORTER_OTLP_ENDPOINT="+c.collector.URL+"/base", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT="+c.collector.URL+"/figures",
			"OTEL_EXPORTER_OTLP_HEADERS=x-tenant=a%20b", "OTEL_EXPORTER_OTLP_METRICS_HEADERS=x-tenant=c", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=gzip",
			"SERVING_SERVICE=shop", "OTEL_SERVICE_NAME=named", "OTEL_RESOURCE_ATTRIBUTES=team=a%20b,service.name=other")
		dial(t, g).get("/").is(200, "")
		traces := nextOf(t, c.collector, c.traces)
		var request tracecollector.ExportTraceServiceRequest
		if err := proto.Unmarshal(traces.Body, &request); err != nil || len(request.ResourceSpans) != 1 {
			t.Fatalf("%s: %v, %v", c.protocol, err, &request)
		}
		checkResource(t, request.ResourceSpans[0].Resource)
		if tenant, encoding := traces.Header.Get("X-Tenant"), traces.Header.Get(c.encoding); tenant != "a b" || encoding != "gzip" {
			t.Errorf("%s: traces of %q, encoded as %q", c.protocol, tenant, encoding)
		}
		metrics := nextOf(t, c.collector, c.metrics)
		var points metricscollector.ExportMetricsServiceRequest
		if err := proto.Unmarshal(metrics.Body, &points); err != nil || len(points.ResourceMetrics) != 1 {
			t.Fatalf("%s: %v, %v", c.protocol, err, &points)
		}
		checkResource(t, points.ResourceMetrics[0].Resource)
		if !bytes.Contains(metrics.Body, []byte("go.goroutine.count")) {
			t.Errorf("%s: no metrics of the Go runtime", c.protocol)
		}
		if tenant, encoding := metrics.Header.Get("X-Tenant"), metrics.Header.Get(c.encoding); tenant != "c" || encoding != "" {
			t.Errorf("%s: metrics of %q, encoded as %q", c.protocol, tenant, encoding)
		}
	}
}

func checkResource(t *testing.T, r *resource.Resource) {
	t.Helper()
	got := map[string]string{}
	for _, a := range r.Attributes {
		got[a.Key] = a.Value.GetStringValue()
	}
	for key, want := range map[string]string{"service.name": "named", "team": "a b", "kn.service.name": "shop"} {
		if got[key] != want {
			t.Errorf("resource: %s=%q, want %q", key, got[key], want)
		}
	}
}

func TestOpenTelemetrysSamplerOverridesTheDecisionOfTheSender(t *testing.T) {
	t.Parallel()
	c := otlptest.HTTP(t, nil)
	k := startContainer(t)
	must(t, k.RespondAll([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
	g := startGate(t, k, exportOver("http/protobuf"), "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.5",
		"OTEL_METRIC_EXPORT_INTERVAL=3600000")
	const requests = 20 // of each kind
	client := dial(t, g)
	// The sampler decides by the last eight bytes of the trace id. It rejects the ids in
	// which these bytes begin with ff48, and accepts those with 0048. The requests with
	// rejected ids are sent first. If their spans were exported, they would arrive before
	// the spans for which the test waits.
	for i := range requests {
		client.get("/", fmt.Sprintf("traceparent: 00-0af7651916cd43ddff48eb211c8031%02x-b7ad6b7169203331-01", i)).is(200, "")
	}
	want := map[string]bool{}
	for i := range requests {
		id := fmt.Sprintf("0af7651916cd43dd0048eb211c8031%02x", i)
		want[id] = true
		client.get("/", "traceparent: 00-"+id+"-b7ad6b7169203331-00").is(200, "")
	}
	for len(want) > 0 {
		m := c.Next(t)
		if m.Path != otlp.Traces.Path {
			t.Fatalf("metrics were sent long before the interval expired: %s", m.Path)
		}
		for _, s := range decodeOTLP(m.Body) {
			if s.name == "kn.queueproxy.proxy" && !want[s.trace] {
				t.Errorf("trace %s is sampled", s.trace)
			}
			if s.name == "kn.queueproxy.proxy" {
				delete(want, s.trace)
			}
		}
	}
}

func TestTheGateUsesTLSIfTheCollectorsAddressHasNoScheme(t *testing.T) {
	t.Parallel()
	collector, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { collector.Close() })
	k := startContainer(t)
	must(t, k.RespondAll([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
	g := startGate(t, k, "TRACING_CONFIG_BACKEND=grpc", "TRACING_CONFIG_SAMPLE_RATE=1", "TRACING_CONFIG_ZIPKIN_ENDPOINT="+collector.Addr().String())
	dial(t, g).get("/").is(200, "")
	conn, err := collector.Accept()
	must(t, err)
	defer conn.Close()
	first := make([]byte, 1)
	// A TLS connection begins with a handshake record, which has the type 22 (RFC 8446
	// section 5.1).
	if _, err := io.ReadFull(conn, first); err != nil || first[0] != 22 {
		t.Errorf("the collector gets %#x, %v", first, err)
	}
	g.logs(`"message":"serving"`) // the last line of the start
	if warned := "TRACING_CONFIG_ZIPKIN_ENDPOINT=" + collector.Addr().String() + " means https"; strings.Count(g.Stderr.String(), warned) != 1 {
		t.Errorf("%q is not there once:\n%s", warned, g.Stderr.String())
	}
}
