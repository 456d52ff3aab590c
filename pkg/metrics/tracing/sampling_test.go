package tracing

import (
	"context"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestTheSenderDecidesWhetherARequestIsSampledUnlessConfiguredOtherwise(t *testing.T) {
	yes := []*gate.TraceFields{
		headers("traceparent", "00-"+idA+"-"+spA+"-01"), headers("b3", idB+"-"+spB+"-1"), headers("b3", "1"), headers("b3", "d"),
		headers("X-B3-Sampled", "1"), headers("X-B3-Flags", "1"), headers("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "true"),
	}
	no := []*gate.TraceFields{
		headers("traceparent", "00-"+idA+"-"+spA+"-00"), headers("b3", idB+"-"+spB+"-0"), headers("b3", "0"), headers("X-B3-Sampled", "0"),
		headers("traceparent", "00-"+idA+"-"+spA+"-00", "b3", "1"),
	}
	open := []*gate.TraceFields{
		nil, headers(), headers("b3", idB+"-"+spB), headers("X-B3-TraceId", idB, "X-B3-SpanId", spB), headers("traceparent", "junk"), headers("tracestate", "a=b"),
	}
	for _, c := range []struct {
		name            string
		cfg             Config
		yes, no, opened bool
	}{
		{"rate 0", Config{}, true, false, false},
		{"rate 1", Config{SamplingRate: 1}, true, false, true},
		{"debug", Config{Debug: true}, true, true, true},
		{"rate 1 of all", Config{SamplingRate: 1, IgnoresParent: true}, true, true, true},
		{"rate 0 of all", Config{IgnoresParent: true}, false, false, false},
	} {
		tracer := tracerFor(t, c.cfg, new(kept))
		for _, group := range []struct {
			headers []*gate.TraceFields
			want    bool
		}{{yes, c.yes}, {no, c.no}, {open, c.opened}} {
			for _, h := range group.headers {
				if got := tracer.Start(h) != nil; got != group.want {
					t.Errorf("%s: %q sampled: %v", c.name, h, got)
				}
			}
		}
	}
}

func TestTheSamplingRateIsApplied(t *testing.T) {
	const requests = 100_000
	for _, rate := range []float64{0.01, 0.25, 0.9} {
		tracer := tracerFor(t, Config{SamplingRate: rate}, new(kept))
		n := 0
		for range requests {
			if tracer.Start(nil) != nil {
				n++
			}
		}
		if got := float64(n) / requests; got < rate-0.02 || got > rate+0.02 { // the tolerance is at least 12 standard deviations
			t.Errorf("%v of requests sampled, want %v", got, rate)
		}
	}
}

func TestServicesWithTheSameSamplingRateSampleTheSameTraces(t *testing.T) {
	low, high := newSampler(0.3), newSampler(0.6)
	sampledLow := 0
	for range 10_000 {
		id := newTraceID()
		if low(id) {
			sampledLow++
			if !high(id) {
				t.Fatalf("%v is sampled at 0.3, not at 0.6", id)
			}
		}
		short := id
		clear(short[:8])
		if low(id) != low(short) {
			t.Fatalf("%v is decided otherwise when shortened to 64 bits", id)
		}
	}
	if sampledLow == 0 {
		t.Error("nothing sampled at 0.3")
	}
}

var unsampledCases = map[string]*gate.TraceFields{
	"no headers":  nil,
	"traceparent": headers("traceparent", "00-"+idA+"-"+spA+"-00", "tracestate", "a=b"),
	"b3":          headers("b3", idB+"-"+spB+"-0"),
	"b3 open":     headers("b3", idB+"-ffffffffffffffff"),
	"X-B3":        headers("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "0"),
	"all":         headers("traceparent", "00-"+idA+"-"+spA+"-00", "b3", idB+"-"+spB+"-1", "X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "1"),
	"malformed":   headers("traceparent", "junk", "b3", "junk", "X-B3-TraceId", "junk", "X-B3-SpanId", "junk"),
}

// rare requires a random decision for each request, but samples practically none.
const rare = 1e-15

func TestAnUnsampledRequestAllocatesNothing(t *testing.T) {
	tracer := tracerFor(t, Config{SamplingRate: rare}, new(kept))
	for name, h := range unsampledCases {
		var span *Span
		if n := testing.AllocsPerRun(1000, func() {
			span = tracer.Start(h)
			_ = span.Lines()
			_ = span.TraceID()
			span.End(&gate.Record{})
			_ = h.Context()
		}); n != 0 || span != nil {
			t.Errorf("%s: %v allocations, span %v", name, n, span)
		}
	}
}

func BenchmarkUnsampled(b *testing.B) {
	tracer := tracerFor(b, Config{SamplingRate: rare}, new(kept))
	for _, name := range []string{"no headers", "traceparent", "b3", "X-B3", "all"} {
		h := unsampledCases[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if tracer.Start(h) != nil {
					b.Fatal("sampled")
				}
			}
		})
	}
}

// discard is a fast exporter, so that few spans are dropped.
type discard struct{}

func (discard) Export(context.Context, []*SpanData) (int, error) { return 0, nil }
func (discard) Close()                                           {}

func BenchmarkSampled(b *testing.B) {
	for name, h := range map[string]*gate.TraceFields{
		"traceparent": headers("traceparent", "00-"+idA+"-"+spA+"-01"),
		"tracestate":  headers("traceparent", "00-"+idA+"-"+spA+"-01", "tracestate", "rojo=00f067aa0ba902b7, tenant@vendor=t61rcWkgMzE"),
	} {
		b.Run(name, func(b *testing.B) {
			tracer := tracerFor(b, Config{SamplingRate: 1}, discard{})
			f := finished()
			b.ReportAllocs()
			for b.Loop() {
				span := tracer.Start(h)
				span.End(f)
			}
			b.ReportMetric(float64(tracer.Dropped())/3/float64(b.N), "dropped/op")
		})
	}
}
