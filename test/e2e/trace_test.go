package e2e

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span is a received span, in a form common to all protocols.
type span struct{ trace, id, parent, name string }

// collectSpans starts a collector of spans, and returns its URL. The function decode
// returns the spans in the body of a message to the collector. The channel received gets
// these spans.
func collectSpans(t *testing.T, decode func(body []byte) []span) (endpoint string, received <-chan span) {
	t.Helper()
	all := make(chan span, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		for _, s := range decode(body) {
			all <- s
		}
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(server.Close)
	return server.URL, all
}

func decodeZipkin(body []byte) (all []span) {
	var spans []struct{ TraceID, ID, ParentID, Name string }
	if json.Unmarshal(body, &spans) != nil {
		return []span{{name: "malformed"}}
	}
	for _, s := range spans {
		all = append(all, span{s.TraceID, s.ID, s.ParentID, s.Name})
	}
	return all
}

func decodeOTLP(body []byte) (all []span) {
	var request collector.ExportTraceServiceRequest
	if proto.Unmarshal(body, &request) != nil {
		return []span{{name: "malformed"}}
	}
	for _, r := range request.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				all = append(all, span{hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), s.Name})
			}
		}
	}
	return all
}

func TestTheSpansOfARequestReachACollectorWithTheRightParents(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, c := range []struct {
		protocol string
		decode   func([]byte) []span
		sent     string                     // fields of the client
		got      func(head response) string // span id in the forwarded request
	}{
		{"zipkin", decodeZipkin, "b3: " + trace + "-" + parent + "-1", func(head response) string {
			return strings.Split(head.get("b3"), "-")[1]
		}},
		{"zipkin", decodeZipkin, "X-B3-TraceId: " + trace + "\r\nX-B3-SpanId: " + parent + "\r\nX-B3-Sampled: 1", func(head response) string {
			return head.get("X-B3-SpanId")
		}},
		{"http/protobuf", decodeOTLP, "traceparent: 00-" + trace + "-" + parent + "-01", func(head response) string {
			return strings.Split(head.get("traceparent"), "-")[2]
		}},
	} {
		t.Run(c.protocol+" "+c.sent[:2], func(t *testing.T) {
			t.Parallel()
			endpoint, received := collectSpans(t, c.decode)
			k := startContainer(t)
			g := startGate(t, k, "TRACING_CONFIG_SAMPLE_RATE=0.000001",
				fmt.Sprintf(`OBSERVABILITY_CONFIG={"tracing":{"protocol":%q,"endpoint":%q}}`, c.protocol, endpoint))
			client := dial(t, g)
			client.send(request("GET", "/a?b", c.sent))
			p := k.accept()
			seen := parseHead(t, p.head())
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			client.response("GET")

			spans := map[string]span{}
			for len(spans) < 3 {
				select {
				case s := <-received:
					spans[s.name] = s
				case <-time.After(testTimeout):
					t.Fatalf("spans %v, want three", spans)
				}
			}
			proxy, wait, upstream := spans["kn.queueproxy.proxy"], spans["kn.queueproxy.wait"], spans["kn.queueproxy.upstream"]
			if proxy.parent != parent || wait.parent != proxy.id || upstream.parent != proxy.id {
				t.Errorf("parents: %+v", spans)
			}
			for name, s := range spans {
				if s.trace != trace {
					t.Errorf("%s belongs to trace %s", name, s.trace)
				}
			}
			if got := c.got(seen); got != upstream.id || got == "" {
				t.Errorf("the container sees %q as the sender, want %q", got, upstream.id)
			}
		})
	}
}

func TestSpansHaveTheAttributesOfTheConfiguredConventions(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	must(t, k.RespondAll([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")))
	for setting, want := range map[string][]string{
		"TRACING_ATTRIBUTES=": {
			`"http.request.method":"GET"`, `"http.response.status_code":404`, `"url.path":"/a"`, `"url.scheme":"http"`, `"server.address":"gate.test"`,
			`"network.protocol.version":"1.1"`, `"network.peer.address":"127.0.0.1"`, `"kn.route.tag":"green"`, `"queuegate.outcome":"served"`,
		},
		"TRACING_ATTRIBUTES=legacy": {
			`"http.method":"GET"`, `"http.status_code":404`, `"http.path":"/a"`, `"http.host":"gate.test"`,
			`"http.flavor":"1.1"`, `"net.peer.ip":"127.0.0.1"`, `"queuegate.outcome":"served"`,
		},
	} {
		g := startGate(t, k, "TRACING_CONFIG_DEBUG=true", "TRACING_CONFIG_BACKEND=stdout", setting)
		dial(t, g).get("/a?b", "Knative-Serving-Tag: green").is(404, "")
		line := logLine(g, `"kn.queueproxy.proxy"`)
		for _, attribute := range want {
			if !strings.Contains(line, attribute) {
				t.Errorf("%s: no %s in %s", setting, attribute, line)
			}
		}
		if strings.Contains(line, `"http.method"`) == strings.Contains(line, `"http.request.method"`) {
			t.Errorf("%s: %s", setting, line)
		}
	}
}

func TestUnsampledTraceContextIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "TRACING_CONFIG_SAMPLE_RATE=0.999999",
		`OBSERVABILITY_CONFIG={"tracing":{"protocol":"zipkin","endpoint":"http://127.0.0.1:1/"}}`)
	const context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	seen := seenBy(t, k, g, "traceparent: "+context, "tracestate: a=b")
	seen.field("traceparent", context)
	seen.field("tracestate", "a=b")
}

func TestAHangingCollectorDelaysNoRequest(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	requests := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests <- struct{}{}
		<-hang
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	k := startContainer(t)
	must(t, k.RespondAll([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")))
	g := startGate(t, k, "TRACING_CONFIG_DEBUG=true",
		fmt.Sprintf(`OBSERVABILITY_CONFIG={"tracing":{"protocol":"http/protobuf","endpoint":%q}}`, server.URL))
	c := dial(t, g)
	for range 5000 { // more than the capacity of the span queue
		c.get("/").is(200, "ok")
	}
	select {
	case <-requests:
	case <-time.After(testTimeout):
		t.Error("the collector received no request")
	}
}
