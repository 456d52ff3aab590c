package examples

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/examples/helloworld/helloworld"
)

const address = ` on .*:(\d+)`

// probed sends a probe, which the embedded gate must answer.
func probed(t *testing.T, base string) {
	t.Helper()
	if status, body := get(t, base+"/", "K-Network-Probe", "queue"); status != 200 || body != "queue" {
		t.Errorf("the probe: %d %q", status, body)
	}
}

func TestHTTPServersThatEmbedTheGateServeRequestsAndProbes(t *testing.T) {
	for _, c := range []struct{ name, path, want string }{
		{"nethttp", "/", "hello from net/http\n"},
		{"fasthttp", "/", "hello from fasthttp\n"},
		{"fiber", "/hello/fiber", "hello fiber\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, c.name, "-listen", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-quiet", "0s")
			base := "http://127.0.0.1:" + p.await("traffic"+address)
			if status, body := get(t, base+c.path); status != 200 || body != c.want {
				t.Errorf("%d %q", status, body)
			}
			probed(t, base)
			_, page := get(t, "http://127.0.0.1:"+p.await("metrics"+address)+"/metrics")
			if want := `queuegate_request_outcomes_total{outcome="served"} 1`; !strings.Contains(page, want) {
				t.Errorf("the metrics lack %s:\n%s", want, page)
			}
			p.end()
		})
	}
}

func TestAGRPCServerThatEmbedsTheGateServesCallsAndProbes(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "grpc", "-listen", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-quiet", "0s")
	port := p.await("traffic" + address)
	client, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := helloworld.NewGreeterClient(client).SayHello(t.Context(), &helloworld.HelloRequest{Name: "gate"})
	if err != nil || answer.GetMessage() != "hello gate" {
		t.Errorf("%v, %v", answer, err)
	}
	probed(t, "http://127.0.0.1:"+port)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	p.end()
}

func TestMetricsAreExportedThroughOpenCensus(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "opencensus", "-listen", "127.0.0.1:0", "-interval", "1s", "-quiet", "0s")
	base := "http://127.0.0.1:" + p.await("traffic"+address)
	if status, body := get(t, base); status != 200 || body != "hello, counted by OpenCensus\n" {
		t.Errorf("%d %q", status, body)
	}
	probed(t, base)
	p.await(`queuegate_request_outcomes_total \[served\] (1)`)
	p.end()
}
