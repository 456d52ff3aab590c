package app

import (
	"context"
	"io"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

func load(t testing.TB, args []string, variables map[string]string) *config.Config {
	t.Helper()
	cfg, _, _, err := config.Load(args, func(name string) (string, bool) {
		text, ok := variables[name]
		return text, ok
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// newCountingObserver returns an observer with default settings and a sampling rate of
// 0.
func newCountingObserver(t testing.TB) *observer {
	cfg := load(t, nil, map[string]string{"UNCOUNTED_PATHS": "/health"})
	c := newCounts()
	s := newStatus(cfg, nil, admission.New(admission.Config{}), c)
	tracer, err := tracing.New(tracing.Config{Protocol: "stdout", Output: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	e := &exporters{tracer: tracer}
	t.Cleanup(func() { _ = e.close(context.Background(), nil) })
	return newObserver(cfg, c, s, e, newEndLog(zap.NewNop()))
}

var aMethod, aTarget, aHost = []byte("GET"), []byte("/a?b"), []byte("h")

// observed notifies the observer of all events of one request.
func observed(o *observer, x *gate.Record, f *gate.TraceFields) {
	now := server.Clock()
	*x = gate.Record{
		Protocol: "HTTP/1.1", Method: aMethod, Target: aTarget, Host: aHost, Trace: f,
		Peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), 4), Proxied: true, Arrived: now,
	}
	o.Begin(x)
	x.Admitted, x.Forwarded, x.Responded = now+1, now+2, now+3
	x.Status, x.ResponseBody, x.Ended = 200, 12, server.Clock()
	o.End(x)
}

var unsampled = &gate.TraceFields{Traceparent: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")}

func TestCountingAndUnsampledTracingAllocateNothing(t *testing.T) {
	o := newCountingObserver(t)
	for name, f := range map[string]*gate.TraceFields{"without trace context": nil, "not sampled": unsampled} {
		var x gate.Record
		observed(o, &x, f)
		if n := testing.AllocsPerRun(1000, func() { observed(o, &x, f) }); n >= 1 {
			t.Errorf("%s: %v allocations for each request", name, n)
		}
	}
}

func TestASampledRequestIsCountedAndTraced(t *testing.T) {
	o := newCountingObserver(t)
	sampled := *unsampled
	sampled.Traceparent = []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	now := server.Clock()
	x := gate.Record{Target: []byte("/"), Trace: &sampled, Arrived: now}
	o.Begin(&x)
	if all, _ := o.counting.InFlight(); all != 1 || len(x.TraceLines) == 0 {
		t.Errorf("%d under way, lines %q", all, x.TraceLines)
	}
	x.Ended = now + time.Millisecond
	o.End(&x)
	if all, _ := o.counting.InFlight(); all != 0 {
		t.Errorf("%d under way after the end", all)
	}
}

func TestUncountedPathsAreNeitherCountedNorTraced(t *testing.T) {
	o := newCountingObserver(t)
	sampled := gate.TraceFields{Traceparent: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}
	x := gate.Record{Target: []byte("/health?deep"), Trace: &sampled, Arrived: server.Clock()}
	o.Begin(&x)
	if all, _ := o.counting.InFlight(); all != 0 || x.TraceLines != nil {
		t.Errorf("%d under way, lines %q", all, x.TraceLines)
	}
	x.Ended = server.Clock()
	o.End(&x)
}

// BenchmarkObserver measures the cost of counting and unsampled tracing per request,
// without reading the clock.
func BenchmarkObserver(b *testing.B) {
	for name, f := range map[string]*gate.TraceFields{"no-context": nil, "unsampled": unsampled} {
		b.Run(name, func(b *testing.B) {
			o := newCountingObserver(b)
			var x gate.Record
			b.ReportAllocs()
			for b.Loop() {
				observed(o, &x, f)
			}
		})
	}
}
