package gate

import (
	"strings"
	"testing"
)

const (
	idA  = "0af7651916cd43dd8448eb211c80319c"
	idB  = "463ac35c9f6413ad48485a3953bb6124"
	id64 = "48485a3953bb6124"
	spA  = "b7ad6b7169203331"
	spB  = "a2fb4a1d1a96d312"
)

func traceFields(pairs ...string) *TraceFields {
	t := new(TraceFields)
	for i := 0; i < len(pairs); i += 2 {
		t.Note([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	return t
}

func TestATraceContextIsParsedFromEveryFormat(t *testing.T) {
	for _, c := range []struct {
		name     string
		fields   *TraceFields
		traceID  string
		spanID   string
		decision Sampling
		came     TraceFormats
	}{
		{"nothing", traceFields(), "", "", SamplingDeferred, 0},
		{"traceparent sampled", traceFields("traceparent", "00-"+idA+"-"+spA+"-01"), idA, spA, Sampled, W3C},
		{"traceparent unsampled", traceFields("traceparent", "00-"+idA+"-"+spA+"-00"), idA, spA, Unsampled, W3C},
		{"traceparent with other flags", traceFields("traceparent", "00-"+idA+"-"+spA+"-fe"), idA, spA, Unsampled, W3C},
		{"traceparent of a later version", traceFields("traceparent", "01-"+idA+"-"+spA+"-01-what"), idA, spA, Sampled, W3C},
		{"traceparent of a later version, no longer", traceFields("traceparent", "cc-"+idA+"-"+spA+"-01"), idA, spA, Sampled, W3C},
		{"b3 sampled", traceFields("b3", idB+"-"+spB+"-1"), idB, spB, Sampled, B3Single},
		{"b3 with its parent", traceFields("b3", idB+"-"+spB+"-0-"+spA), idB, spB, Unsampled, B3Single},
		{"b3 debug", traceFields("b3", idB+"-"+spB+"-d"), idB, spB, Sampled, B3Single},
		{"b3 open", traceFields("b3", idB+"-"+spB), idB, spB, SamplingDeferred, B3Single},
		{"b3 of 64 bits", traceFields("b3", id64+"-"+spB+"-1"), "0000000000000000" + id64, spB, Sampled, B3Single},
		{"b3 in upper case", traceFields("b3", strings.ToUpper(idB)+"-"+strings.ToUpper(spB)+"-1"), idB, spB, Sampled, B3Single},
		{"b3 no", traceFields("b3", "0"), "", "", Unsampled, B3Single},
		{"b3 yes", traceFields("b3", "1"), "", "", Sampled, B3Single},
		{"b3 d", traceFields("b3", "d"), "", "", Sampled, B3Single},
		{"several", traceFields("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "1"), idB, spB, Sampled, B3Multi},
		{"several open", traceFields("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-ParentSpanId", spA), idB, spB, SamplingDeferred, B3Multi},
		{"several of 64 bits", traceFields("X-B3-TraceId", id64, "X-B3-SpanId", spB, "X-B3-Sampled", "true"), "0000000000000000" + id64, spB, Sampled, B3Multi},
		{"several debug", traceFields("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Flags", "1"), idB, spB, Sampled, B3Multi},
		{"several flags zero", traceFields("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Flags", "0", "X-B3-Sampled", "0"), idB, spB, Unsampled, B3Multi},
		{"a decision alone", traceFields("X-B3-Sampled", "false"), "", "", Unsampled, B3Multi},
		{"a decision with a trace alone", traceFields("X-B3-TraceId", idB, "X-B3-Sampled", "1"), idB, "", Sampled, B3Multi},
		{"a trace alone", traceFields("X-B3-TraceId", id64), "0000000000000000" + id64, "", SamplingDeferred, B3Multi},
		{"a trace and a span that is none", traceFields("X-B3-TraceId", idB, "X-B3-SpanId", "x"), idB, "", SamplingDeferred, B3Multi},
		{"single's decision, several's trace", traceFields("b3", "1", "X-B3-TraceId", idB), idB, "", Sampled, B3Single | B3Multi},
		{"single before several, both with ids", traceFields("b3", idA+"-"+spA, "X-B3-TraceId", idB, "X-B3-SpanId", spB), idA, spA, SamplingDeferred, B3Single | B3Multi},
		{"no fields", nil, "", "", SamplingDeferred, 0},
		{"W3C before B3", traceFields("traceparent", "00-"+idA+"-"+spA+"-00", "b3", idB+"-"+spB+"-1"), idA, spA, Unsampled, W3C | B3Single},
		{"W3C malformed", traceFields("traceparent", "00-"+idA+"-"+spA, "b3", idB+"-"+spB+"-1"), idB, spB, Sampled, B3Single},
		{"single before several", traceFields("b3", idA+"-"+spA+"-0", "X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "1"), idA, spA, Unsampled, B3Single | B3Multi},
		{"a state and ids", traceFields("b3", "0", "X-B3-TraceId", idB, "X-B3-SpanId", spB), idB, spB, Unsampled, B3Single | B3Multi},
		{"all three", traceFields("traceparent", "00-"+idA+"-"+spA+"-01", "b3", "0", "X-B3-Sampled", "0"), idA, spA, Sampled, W3C | B3Single | B3Multi},
	} {
		p := c.fields.Context()
		traceID, spanID := "", ""
		if p.TraceID != (TraceID{}) {
			traceID = p.TraceID.String()
		}
		if p.SpanID != (SpanID{}) {
			spanID = p.SpanID.String()
		}
		if traceID != c.traceID || spanID != c.spanID || p.Sampling != c.decision || p.Formats != c.came {
			t.Errorf("%s: %q %q decision %d formats %b, want %q %q %d %b", c.name, traceID, spanID, p.Sampling, p.Formats, c.traceID, c.spanID, c.decision, c.came)
		}
	}
}

func TestMalformedTraceContextCountsAsAbsent(t *testing.T) {
	zeroTrace, zeroSpan := strings.Repeat("0", 32), strings.Repeat("0", 16)
	for _, h := range []*TraceFields{
		traceFields("traceparent", ""), traceFields("traceparent", "00"),
		traceFields("traceparent", "00-"+zeroTrace+"-"+spA+"-01"), traceFields("traceparent", "00-"+idA+"-"+zeroSpan+"-01"),
		traceFields("traceparent", "ff-"+idA+"-"+spA+"-01"), traceFields("traceparent", "0g-"+idA+"-"+spA+"-01"),
		traceFields("traceparent", "00-"+strings.ToUpper(idA)+"-"+spA+"-01"), traceFields("traceparent", "00-"+idA+"-"+strings.ToUpper(spA)+"-01"),
		traceFields("traceparent", "00-"+idA+"-"+spA+"-0x"), traceFields("traceparent", "00-"+idA+"-"+spA+"-01-more"),
		traceFields("traceparent", "01-"+idA+"-"+spA+"-01more"), traceFields("traceparent", "00_"+idA+"-"+spA+"-01"),
		traceFields("traceparent", "00-"+idA+"_"+spA+"-01"), traceFields("traceparent", "00-"+idA+"-"+spA+"_01"),
		traceFields("traceparent", "00-"+id64+"-"+spA+"-01"), traceFields("traceparent", " 00-"+idA+"-"+spA+"-01"),
		traceFields("b3", ""), traceFields("b3", "2"), traceFields("b3", "true"), traceFields("b3", idB), traceFields("b3", idB+"-"), traceFields("b3", idB+"-"+spB+"-"),
		traceFields("b3", idB+"-"+spB+"-2"), traceFields("b3", idB+"-"+spB+"-1-"), traceFields("b3", idB+"-"+spB+"-1-"+spA+"0"), traceFields("b3", idB+"-"+spB+"-1-"+spA[:15]+"x"),
		traceFields("b3", zeroTrace+"-"+spB+"-1"), traceFields("b3", idB+"-"+zeroSpan+"-1"), traceFields("b3", "x"+idB[1:]+"-"+spB+"-1"), traceFields("b3", idB[1:]+"-"+spB+"-1"),
		traceFields("X-B3-SpanId", spB), traceFields("X-B3-TraceId", zeroTrace, "X-B3-SpanId", spB),
		traceFields("X-B3-TraceId", idB[:20], "X-B3-SpanId", spB), traceFields("X-B3-Sampled", "maybe"), traceFields("X-B3-Flags", "2"), traceFields("X-B3-ParentSpanId", spA),
	} {
		if p := h.Context(); p != (TraceContext{}) {
			t.Errorf("%q was parsed as %+v", h, p)
		}
	}
}
