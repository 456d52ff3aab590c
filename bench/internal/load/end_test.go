package load_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/queuegate/queuegate/bench/internal/child/childtest"
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/socket"
)

const testTimeout = 2 * time.Minute

func TestMain(m *testing.M) {
	childtest.Main(m, map[string]func(io.Reader, io.Writer) error{load.Command: load.Main, origin.Command: origin.Main})
}

func startOrigin(t *testing.T) *origin.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	o, err := origin.Start(ctx, origin.Spec{Ports: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Stop)
	return o
}

func run(t *testing.T, spec load.Spec) *load.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	p, err := load.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	r, err := p.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheBenchmarkOriginRespondsToEveryKindOfLoad(t *testing.T) {
	o := startOrigin(t)
	shortTimeout := 50 * time.Millisecond
	for name, spec := range map[string]load.Spec{
		"small responses": {Kind: load.HTTP, Path: "/", Connections: 8},
		"two threads":     {Kind: load.HTTP, Path: "/", Connections: 8, Threads: 2},
		"few concurrent requests on many connections":              {Kind: load.HTTP, Path: "/", Connections: 20, UnderWay: 3},
		"few concurrent requests on many connections, two threads": {Kind: load.HTTP, Path: "/", Connections: 20, UnderWay: 3, Threads: 2},
		"fewer connections than concurrent requests":               {Kind: load.HTTP, Path: "/", Connections: 2, UnderWay: 64},
		"at a rate":                    {Kind: load.HTTP, Path: "/", Connections: 8, Rate: 1000},
		"a connection for each":        {Kind: load.HTTP, Path: "/", Connections: 4, NewConnections: true},
		"a connection for each, paced": {Kind: load.HTTP, Path: "/", Connections: 4, NewConnections: true, Rate: 500},
		"delayed responses":            {Kind: load.HTTP, Path: "/?delay=2ms", Connections: 4},
		"downloads":                    {Kind: load.HTTP, Path: "/bytes/3000000", Connections: 2},
		"small downloads":              {Kind: load.HTTP, Path: "/bytes/100", Connections: 2},
		"uploads":                      {Kind: load.HTTP, Path: "/upload", Body: 3_000_000, Connections: 2},
		"small uploads":                {Kind: load.HTTP, Path: "/upload", Body: 100, Connections: 2},
		"idle connections":             {Kind: load.Idle, Path: "/", Connections: 100},
		"events":                       {Kind: load.Events, Path: "/events?every=1ms", Connections: 4},
		"messages":                     {Kind: load.WebSocket, Path: "/websocket", Body: 64, Connections: 4},
		"large messages":               {Kind: load.WebSocket, Path: "/websocket", Body: 70_000, Connections: 2},
		"h2c":                          {Kind: load.H2C, Path: "/", Connections: 2, Streams: 8},
		"h2c downloads":                {Kind: load.H2C, Path: "/bytes/300000", Connections: 1, Streams: 4},
		"h2c uploads":                  {Kind: load.H2C, Path: "/upload", Body: 300_000, Connections: 1, Streams: 2},
		"h2c at a rate":                {Kind: load.H2C, Path: "/", Connections: 2, Streams: 8, Rate: 500},
		"unary gRPC":                   {Kind: load.H2C, GRPC: true, Path: "/grpc/unary", Body: 105, Connections: 2, Streams: 4},
		"a gRPC stream":                {Kind: load.H2C, GRPC: true, Path: "/grpc/stream", Body: 105, Connections: 2, Streams: 4},
		"h2c messages":                 {Kind: load.H2CStream, Path: "/echo", Body: 100, Connections: 2, Streams: 4},
		"large h2c messages":           {Kind: load.H2CStream, Path: "/echo", Body: 200_000, Connections: 1, Streams: 2},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Port, spec.Duration, spec.Warmup = o.Port(0), shortTimeout, shortTimeout/5
			r := run(t, spec)
			if r.Requests == 0 || r.Failures() != 0 {
				t.Fatalf("%d responses, %d unfinished, rejected %v, errors %v", r.Requests, r.Unfinished, r.Rejected, r.Errors)
			}
			if spec.Kind == load.Idle {
				return
			}
			if r.BytesIn == 0 || r.CPU <= 0 || r.Count != r.Requests {
				t.Fatalf("%d bytes in, CPU %v, %d latencies of %d responses", r.BytesIn, r.CPU, r.Count, r.Requests)
			}
			last := 0.0
			for _, q := range r.Quantiles {
				if q[1] < last {
					t.Fatalf("quantiles go down: %v", r.Quantiles)
				}
				last = q[1]
			}
		})
	}
}

const stall = 200 * time.Millisecond

// stallingServer responds immediately, except during one stall, which begins after the
// 20th response.
type stallingServer struct {
	listener net.Listener
	served   atomic.Int64
	stalled  chan time.Duration // receives a lower bound of the stall's duration
}

func startStalling(t *testing.T) *stallingServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := &stallingServer{listener: listener, stalled: make(chan time.Duration, 1)}
	go s.accept()
	return s
}

func (s *stallingServer) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *stallingServer) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.serve(c)
	}
}

func (s *stallingServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if line != "\r\n" {
			continue
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
		if s.served.Add(1) == 20 {
			begin := time.Now()
			time.Sleep(stall)
			s.stalled <- time.Since(begin)
		}
	}
}

func TestAStallDelaysEveryRequestDueDuringIt(t *testing.T) {
	const (
		rate  = 500.0
		total = 600 * time.Millisecond
	)
	s := startStalling(t)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	// With a single connection, one delayed request delays all requests after it.
	p, err := load.Start(ctx, load.Spec{Kind: load.HTTP, Port: s.port(), Path: "/", Connections: 1, Rate: rate, Duration: total})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	r, err := p.Run()
	if err != nil {
		t.Fatal(err)
	}
	lasted := <-s.stalled
	if want := int64(rate * total.Seconds()); r.Requests != want || r.Failures() != 0 {
		t.Fatalf("%d of %d arrivals got a response, errors %v", r.Requests, want, r.Errors)
	}
	// The stall lasts for a third of the load, so a third of all requests are due during
	// the stall. Each of them waits for the end of the stall. Half of them, a sixth of all
	// requests, are due in the first half of the stall, and wait for more than stall/2.
	// A sixth is more than 10 percent, so the 90th percentile is at least stall/2.
	p90, longest := time.Duration(r.Quantile(90)), time.Duration(r.Quantile(100))
	if longest < lasted-5*time.Millisecond {
		t.Errorf("the longest latency is %v, the stall lasted %v", longest, lasted)
	}
	if p90 < stall/2 {
		t.Errorf("the 90th percentile is %v: latencies of requests due during the stall of %v are measured from their send time", p90, lasted)
	}
}

func TestRejectionsAndBrokenConnectionsAreCountedSeparately(t *testing.T) {
	o := startOrigin(t)
	r := run(t, load.Spec{Kind: load.HTTP, Port: o.Port(0), Path: "/nothing-here", Connections: 2, Duration: 20 * time.Millisecond})
	if r.Requests != 0 || r.Rejected[404] == 0 || len(r.Errors) != 0 {
		t.Fatalf("%d responses, rejected %v, errors %v", r.Requests, r.Rejected, r.Errors)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	reserved, port, err := socket.Bind(0) // no other process can listen on this port
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close(reserved)
	if p, err := load.Start(ctx, load.Spec{Kind: load.HTTP, Port: port, Path: "/", Connections: 2, Duration: time.Millisecond}); err == nil {
		p.Stop()
		t.Fatal("a load began on a port without a listener")
	}
}
