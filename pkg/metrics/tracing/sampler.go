package tracing

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/queuegate/queuegate/pkg/gate"
)

// sampler decides whether to sample a trace if the sender has not decided.
type sampler func(gate.TraceID) bool

// newSampler returns a sampler that samples a share of all traces. The parameter rate is
// this share, from 0 to 1. The decision depends only on the last 8 bytes of the trace id,
// without their lowest bit. OpenTelemetry does the same, so services with the same rate
// make the same decision. The first 8 bytes are not suitable for the decision, because
// they are zero in a 64-bit B3 trace id.
func newSampler(rate float64) sampler {
	switch {
	case rate >= 1:
		return func(gate.TraceID) bool { return true }
	case !(rate > 0):
		return func(gate.TraceID) bool { return false }
	}
	bound := uint64(rate * (1 << 63))
	return func(id gate.TraceID) bool { return binary.BigEndian.Uint64(id[8:])>>1 < bound }
}

func newTraceID() (id gate.TraceID) {
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // never zero; newSampler ignores the lowest bit
	return id
}

func newSpanID() (id gate.SpanID) {
	for id == (gate.SpanID{}) {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
