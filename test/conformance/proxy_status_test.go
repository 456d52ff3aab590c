package conformance

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	vocabulary "github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/test/internal/launch"
)

var proxyErrors = []string{
	"dns_timeout", "dns_error", "destination_not_found", "destination_unavailable", "destination_ip_prohibited",
	"destination_ip_unroutable", "connection_refused", "connection_terminated", "connection_timeout",
	"connection_read_timeout", "connection_write_timeout", "connection_limit_reached", "tls_protocol_error",
	"tls_certificate_error", "tls_alert_received", "http_request_error", "http_request_denied",
	"http_response_incomplete", "http_response_header_section_size", "http_response_header_size",
	"http_response_body_size", "http_response_trailer_section_size", "http_response_trailer_size",
	"http_response_transfer_coding", "http_response_content_coding", "http_response_timeout", "http_upgrade_failed",
	"http_protocol_error", "proxy_internal_response", "proxy_internal_error", "proxy_configuration_error",
	"proxy_loop_detected",
}

// proxyError parses Proxy-Status, and returns the gate's error.
func proxyError(t *testing.T, values []string) (kind, details string) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(values)
	if err != nil || len(list) != 1 {
		t.Fatalf("Proxy-Status %q: %v, %d members", values, err, len(list))
	}
	item, ok := list[0].(httpsfv.Item)
	if !ok || item.Value != httpsfv.Token("queuegate") {
		t.Fatalf("Proxy-Status %q: %+v is not the gate", values, list[0])
	}
	value, _ := item.Params.Get("error")
	token, ok := value.(httpsfv.Token)
	if !ok || !slices.Contains(proxyErrors, string(token)) {
		t.Fatalf("Proxy-Status %q: error %v is not registered", values, value)
	}
	if value, ok := item.Params.Get("details"); ok {
		details, ok = value.(string)
		if !ok {
			t.Fatalf("Proxy-Status %q: details are not a string", values)
		}
	}
	return string(token), details
}

func TestEachProxyStatusIsAStructuredField(t *testing.T) {
	t.Parallel()
	found := 0
	for _, o := range vocabulary.Outcomes() {
		status := o.ProxyStatus()
		if status == "" {
			continue
		}
		found++
		if kind, details := proxyError(t, []string{status}); kind != o.Meaning().ProxyError || details != o.Meaning().Body {
			t.Errorf("%s: error %q, details %q", o, kind, details)
		}
	}
	if found < 20 {
		t.Errorf("%d outcomes have a Proxy-Status", found)
	}
}

func TestLocalRepliesCarryProxyStatus(t *testing.T) {
	t.Parallel()
	g := startGate(t, launch.FreePort(t), "UPSTREAM_WAIT=50ms")
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
		transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
		res, err := (&http.Client{Transport: transport, Timeout: testTimeout}).Get(g.url("/"))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		transport.CloseIdleConnections()
		kind, details := proxyError(t, res.Header.Values("Proxy-Status"))
		if res.Proto != protocol || kind != "connection_refused" || details != "user container is not listening" {
			t.Errorf("%s: error %q, details %q", res.Proto, kind, details)
		}
	}
	var header, trailer metadata.MD
	_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	wantCode(t, err, codes.Unavailable, "user container is not listening")
	if kind, _ := proxyError(t, append(header.Get("proxy-status"), trailer.Get("proxy-status")...)); kind != "connection_refused" {
		t.Errorf("a gRPC call: error %q", kind)
	}
}

// The test also checks X-Request-Start, which the gate adds to the request. The duration
// "upstream" must be at least 20. The container responds only after 2 s, because on a busy
// machine the gate may notice late that it has sent the request.
func TestServerTimingIsAStructuredField(t *testing.T) {
	t.Parallel()
	var start atomic.Value
	port := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start.Store(r.Header.Get("X-Request-Start"))
		time.Sleep(2 * time.Second)
		w.Header().Add("Server-Timing", "app;dur=1")
	}))
	g := startGate(t, port, "CONTAINER_CONCURRENCY=1", "SERVER_TIMING=true", "REQUEST_START=true")
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
		transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
		begun := time.Now()
		res, err := (&http.Client{Transport: transport, Timeout: testTimeout}).Get(g.url("/"))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		transport.CloseIdleConnections()
		list, err := httpsfv.UnmarshalList(res.Header.Values("Server-Timing"))
		if err != nil {
			t.Fatalf("%q: %v", res.Header.Values("Server-Timing"), err)
		}
		times := map[string]float64{}
		for _, member := range list {
			item := member.(httpsfv.Item)
			value, _ := item.Params.Get("dur")
			switch value := value.(type) {
			case float64:
				times[string(item.Value.(httpsfv.Token))] = value
			case int64:
				times[string(item.Value.(httpsfv.Token))] = float64(value)
			}
		}
		if took := time.Since(begun).Seconds() * 1000; len(times) != 4 || times["upstream"] < 20 || times["app"] != 1 ||
			times["queue"]+times["connect"]+times["upstream"] > took {
			t.Errorf("%s: %v after %v ms", res.Proto, times, took)
		}
		micros, err := strconv.ParseInt(strings.TrimPrefix(start.Load().(string), "t="), 10, 64)
		if at := time.UnixMicro(micros); err != nil || at.Before(begun.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: X-Request-Start %v", res.Proto, start.Load())
		}
	}
}

// attempts is a stats handler of a gRPC client. It calls a function at the end of each
// attempt of a call. A call has several attempts if the client retries it.
type attempts struct{ onEnd func() }

func (attempts) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (attempts) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (attempts) HandleConn(context.Context, stats.ConnStats)                       {}
func (a attempts) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.End); ok {
		a.onEnd()
	}
}

// The gate rejects a call with the field grpc-retry-pushback-ms, which tells the client
// how long to wait before a retry. Without this field, the client would use its own
// backoff of 1 ms, and all five attempts would fail before a slot is free.
func TestAGRPCClientDelaysItsRetriesAsTheGateSays(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 10)
	finish := make(chan struct{})
	g := startGate(t, serveService(t, &service{unary: func(context.Context) error {
		arrived <- struct{}{}
		<-finish
		return nil
	}}).port, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=0")
	first := make(chan error, 1)
	go func() {
		_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
		first <- err
	}()
	receiveIn(t, "the first call", arrived)
	rejected := make(chan struct{}, 10)
	conn, err := grpc.NewClient(g.address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(attempts{func() { rejected <- struct{}{} }}),
		grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s",
			"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	second := make(chan error, 1)
	go func() {
		_, err := testpb.NewTestServiceClient(conn).UnaryCall(testContext(t), &testpb.SimpleRequest{})
		second <- err
	}()
	receiveIn(t, "a rejection", rejected)
	// The gate asks for a delay of 1 s before each retry, so the slot becomes free before
	// the second attempt.
	time.AfterFunc(500*time.Millisecond, func() { close(finish) })
	if err := receiveIn(t, "the first response", first); err != nil {
		t.Error(err)
	}
	if err := receiveIn(t, "the response to a retry", second); err != nil {
		t.Errorf("the call fails: %v", err)
	}
}
