package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	orcadata "github.com/cncf/xds/go/xds/data/orca/v3"
	orcaservice "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// reporting is a gRPC container that reports its load in trailers.
func reporting(t *testing.T) int {
	port := launch.FreePort(t)
	s := grpc.NewServer(orca.CallMetricsServerOption(nil))
	testpb.RegisterTestServiceServer(s, &service{unary: func(ctx context.Context) error {
		r := orca.CallMetricsRecorderFromContext(ctx)
		r.SetCPUUtilization(0.25)
		r.SetNamedMetric("tokens", 12)
		r.SetRequestCost("rows", 3)
		return nil
	}})
	listenAt(t, port, s)
	return port
}

// reportIn returns the load report in md, or nil. There must be at most one.
func reportIn(t *testing.T, md metadata.MD) *orcadata.OrcaLoadReport {
	t.Helper()
	values := md.Get("endpoint-load-metrics-bin")
	if len(values) == 0 {
		return nil
	}
	r := &orcadata.OrcaLoadReport{}
	if err := proto.Unmarshal([]byte(values[0]), r); err != nil || len(values) > 1 {
		t.Fatalf("%d reports, %q: %v", len(values), values[0], err)
	}
	return r
}

// Proposal A51 of gRPC defines load reports. The gate merges its own values, for example
// the queue depth, into the container's report.
func TestGRPCCallsGetOneLoadReportInTheirTrailers(t *testing.T) {
	t.Parallel()
	port := reporting(t)
	for setting, want := range map[string]struct{ unrequested, requested bool }{
		"off": {false, false}, "request": {false, true}, "always": {true, true},
	} {
		client := stub(t, startGate(t, port, "CONTAINER_CONCURRENCY=4", "LOAD_REPORTS="+setting))
		for range 3 {
			for asks, merged := range map[bool]bool{false: want.unrequested, true: want.requested} {
				ctx := testContext(t)
				if asks {
					ctx = metadata.AppendToOutgoingContext(ctx, "endpoint-load-metrics-format", "BIN")
				}
				var header, trailer metadata.MD
				if _, err := client.UnaryCall(ctx, &testpb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
					t.Fatal(err)
				}
				if r := reportIn(t, header); r != nil {
					t.Errorf("%s: %v in the header", setting, r)
				}
				r := reportIn(t, trailer)
				if r.GetCpuUtilization() != 0.25 || r.GetNamedMetrics()["tokens"] != 12 || r.GetRequestCost()["rows"] != 3 {
					t.Errorf("%s: %v lacks what the container says", setting, r)
				}
				_, depth := r.GetNamedMetrics()["queue_depth"]
				if depth != merged || (r.GetApplicationUtilization() > 0) != merged {
					t.Errorf("%s, asked for: %v: the gate's load is in %v: %v, want %v", setting, asks, r, depth, merged)
				}
			}
		}
	}
}

// A call can fail because the container returns an error, or because the gate rejects it.
// Each of these responses is Trailers-Only, which means that it has a single header
// block. That block must contain the load report.
func TestFailedCallsHaveALoadReportToo(t *testing.T) {
	t.Parallel()
	port := launch.FreePort(t)
	s := grpc.NewServer()
	var entered atomic.Bool
	held, release := make(chan struct{}, 10), make(chan struct{})
	testpb.RegisterTestServiceServer(s, &service{unary: func(context.Context) error {
		if entered.Swap(true) {
			held <- struct{}{}
			<-release
		}
		return status.Error(codes.NotFound, "no")
	}})
	listenAt(t, port, s)
	g := startGate(t, port, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=0", "LOAD_REPORTS=always", "METRICS_PORT=free")
	client := stub(t, g)
	call := func(want codes.Code) *orcadata.OrcaLoadReport {
		var trailer metadata.MD
		_, err := client.UnaryCall(testContext(t), &testpb.SimpleRequest{}, grpc.Trailer(&trailer))
		if status.Code(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
		return reportIn(t, trailer)
	}
	if r := call(codes.NotFound); r == nil || r.ApplicationUtilization != 1 {
		t.Errorf("report of a failed call: %v", r)
	}
	var calls sync.WaitGroup
	calls.Go(func() { call(codes.NotFound) })
	// Not by a gauge, which may still count the first call.
	receiveIn(t, "a call that holds the slot", held)
	if r := call(codes.ResourceExhausted); r == nil || r.ApplicationUtilization <= 0 {
		t.Errorf("report of a rejected call: %v", r)
	}
	close(release)
	calls.Wait()
}

// The three formats are compared with the protobuf library, and parsed as Envoy does.
func TestLoadReportsOverHTTPHaveTheFormatsOfEnvoy(t *testing.T) {
	t.Parallel()
	port := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Endpoint-Load-Metrics", `JSON {"memUtilization": 0.5, "namedMetrics": {"tokens": 12}}`)
	}))
	g := startGate(t, port, "CONTAINER_CONCURRENCY=4", "LOAD_REPORTS=request")
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
		transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
		for _, format := range []string{"TEXT", "JSON", "BIN"} {
			request, _ := http.NewRequest("GET", g.url("/"), nil)
			request.Header.Set("Endpoint-Load-Metrics-Format", format)
			res, err := (&http.Client{Transport: transport, Timeout: testTimeout}).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			text, binary := res.Header.Values("Endpoint-Load-Metrics"), res.Header.Values("Endpoint-Load-Metrics-Bin")
			if len(text)+len(binary) != 1 {
				t.Fatalf("%s, %s: %q and %q", protocol, format, text, binary)
			}
			r := &orcadata.OrcaLoadReport{}
			switch format {
			case "TEXT":
				r = parseText(t, text[0])
			case "JSON":
				value, ok := strings.CutPrefix(text[0], "JSON ")
				if err := protojson.Unmarshal([]byte(value), r); err != nil || !ok {
					t.Fatalf("%s: %v", text[0], err)
				}
			default:
				r = reportIn(t, metadata.Pairs("endpoint-load-metrics-bin", decoded(t, binary[0])))
			}
			if r.ApplicationUtilization <= 0 || r.ApplicationUtilization > 1 || r.MemUtilization != 0.5 || r.NamedMetrics["tokens"] != 12 {
				t.Errorf("%s, %s: %v", protocol, format, r)
			}
		}
		transport.CloseIdleConnections()
	}
}

// openReports opens a stream of load reports.
func openReports(t *testing.T, g *gate, interval time.Duration) grpc.ServerStreamingClient[orcadata.OrcaLoadReport] {
	t.Helper()
	conn, err := grpc.NewClient(g.address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := orcaservice.NewOpenRcaServiceClient(conn).StreamCoreMetrics(testContext(t),
		&orcaservice.OrcaLoadReportRequest{ReportInterval: durationpb.New(interval)})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func TestLoadReportStreamsAreNotCountedAndEndWhenADrainBegins(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	port := launch.FreePort(t)
	s := grpc.NewServer()
	testpb.RegisterTestServiceServer(s, &service{unary: func(context.Context) error { <-release; return nil }})
	listenAt(t, port, s)
	g := startGateThatMayExit(t, port, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1", "LOAD_REPORT_STREAM=true", "DRAIN_QUIET_SECONDS=0", "METRICS_PORT=free")
	client := stub(t, g)
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() { _, _ = client.UnaryCall(testContext(t), &testpb.SimpleRequest{}) })
	}
	eventually(t, "a request is queued", func() bool { return g.scrape(t, "kn_serving_queue_depth") == "1" })
	stream := openReports(t, g, 0) // 0 = as often as the gate allows
	for range 2 {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r.ApplicationUtilization != 1 || r.NamedMetrics["queue_depth"] != 1 {
			t.Errorf("%v, want a full gate", r)
		}
	}
	if active := g.scrape(t, "http_server_active_requests"); active != "2" {
		t.Errorf("%s active requests, want the two calls", active)
	}
	close(release)
	calls.Wait()
	g.drain()
	var err error
	for err == nil {
		_, err = stream.Recv()
	}
	if code := status.Code(err); code != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
	eventually(t, "the gate has ended", func() bool { return !g.Running() })
}

func TestReportStreamsGoToTheContainerUnlessTheGateServesThem(t *testing.T) {
	t.Parallel()
	port := launch.FreePort(t)
	listenAt(t, port, grpc.NewServer())
	for _, settings := range [][]string{nil, {"LOAD_REPORT_STREAM=true", "TRUSTED_SOURCES=192.0.2.0/24"}} {
		g := startGate(t, port, settings...)
		if len(settings) > 0 && net.ParseIP(podIP).IsLoopback() {
			continue // loopback is always trusted
		}
		if _, err := openReports(t, g, time.Second).Recv(); status.Code(err) != codes.Unimplemented {
			t.Errorf("%v: %v, want the container's status", settings, err)
		}
	}
}

// gRPC's weighted_round_robin balances over three gates, whose containers have speeds in
// the ratio 1 : 2 : 4. An endpoint's weight is its requests per second divided by its
// utilization.
func TestABalancerGivesEachContainerAShareInProportionToItsSpeed(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"in band":     `{"loadBalancingConfig": [{"weighted_round_robin": {"blackoutPeriod": "0.5s", "weightUpdatePeriod": "0.1s"}}]}`,
		"out of band": `{"loadBalancingConfig": [{"weighted_round_robin": {"blackoutPeriod": "0.5s", "weightUpdatePeriod": "0.1s", "enableOobLoadReport": true, "oobReportingPeriod": "1s"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			speeds := []int{1, 2, 4}
			served := make([]atomic.Int64, len(speeds))
			var addresses []resolver.Address
			for i, speed := range speeds {
				port := launch.FreePort(t)
				s := grpc.NewServer()
				testpb.RegisterTestServiceServer(s, &service{unary: func(context.Context) error {
					served[i].Add(1)
					time.Sleep(400 * time.Millisecond / time.Duration(speed))
					return nil
				}})
				listenAt(t, port, s)
				g := startGate(t, port, "CONTAINER_CONCURRENCY=50", "LOAD_REPORTS=always", "LOAD_REPORT_STREAM=true")
				addresses = append(addresses, resolver.Address{Addr: g.address()})
			}
			r := manual.NewBuilderWithScheme("gates")
			r.InitialState(resolver.State{Addresses: addresses})
			conn, err := grpc.NewClient("gates:///", grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := testpb.NewTestServiceClient(conn)
			ctx, cancel := context.WithCancel(testContext(t))
			var callers sync.WaitGroup
			for range 40 {
				callers.Go(func() {
					for ctx.Err() == nil {
						if _, err := client.UnaryCall(ctx, &testpb.SimpleRequest{}); err != nil && ctx.Err() == nil {
							t.Error(err)
							return
						}
					}
				})
			}
			defer callers.Wait()
			defer cancel()
			// Compare 1,000 calls at a time until the shares match. How fast they
			// converge does not matter.
			result := ""
			for round := range 20 {
				before := [3]int64{served[0].Load(), served[1].Load(), served[2].Load()}
				total, worst := int64(0), 0.0
				for total < 1000 && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
					total = 0
					for i := range served {
						total += served[i].Load() - before[i]
					}
				}
				result = fmt.Sprintf("round %d:", round)
				for i, speed := range speeds {
					n := served[i].Load() - before[i]
					result += fmt.Sprintf(" %d", n)
					worst = max(worst, math.Abs(float64(n)/float64(total)*7/float64(speed)-1))
				}
				if round > 0 && worst <= 0.1 {
					t.Log(result)
					return
				}
				t.Log(result)
			}
			t.Errorf("the shares are not 1 : 2 : 4 within 10 %%: %s", result)
		})
	}
}

func parseText(t *testing.T, value string) *orcadata.OrcaLoadReport {
	t.Helper()
	pairs, ok := strings.CutPrefix(value, "TEXT ")
	if !ok {
		t.Fatalf("%q", value)
	}
	r := &orcadata.OrcaLoadReport{NamedMetrics: map[string]float64{}}
	for _, pair := range strings.Split(pairs, ",") {
		name, text, _ := strings.Cut(pair, "=")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		switch metric, named := strings.CutPrefix(name, "named_metrics."); {
		case named:
			r.NamedMetrics[metric] = v
		case name == "application_utilization":
			r.ApplicationUtilization = v
		case name == "mem_utilization":
			r.MemUtilization = v
		case name == "rps_fractional":
			r.RpsFractional = v
		case name == "eps":
			r.Eps = v
		default:
			t.Errorf("%q has %s", value, name)
		}
	}
	return r
}

func decoded(t *testing.T, value string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// scrape returns a series without labels.
func (g *gate) scrape(t *testing.T, name string) string {
	t.Helper()
	res, err := http.Get("http://" + podAddress(g.Ports["METRICS_PORT"]) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
