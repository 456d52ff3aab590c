package tracing

import (
	"encoding/binary"
	"math/rand/v2"

	"go.opencensus.io/trace"
)

// newSampler decides by the low 63 bits of the trace id, as OpenTelemetry
// does, so that everybody with the same rate decides alike. OpenCensus' own
// looks at the high half, which is zero where B3 has ids of 64 bits.
func newSampler(rate float64) trace.Sampler {
	switch {
	case rate >= 1:
		return trace.AlwaysSample()
	case !(rate > 0):
		return trace.NeverSample()
	}
	bound := uint64(rate * (1 << 63))
	return func(p trace.SamplingParameters) trace.SamplingDecision {
		return trace.SamplingDecision{Sample: binary.BigEndian.Uint64(p.TraceID[8:])>>1 < bound}
	}
}

func newTraceID() (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // never zero; the sampler does not see the lowest bit
	return id
}

func newSpanID() (id trace.SpanID) {
	for id == (trace.SpanID{}) {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
