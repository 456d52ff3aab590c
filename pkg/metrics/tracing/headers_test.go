package tracing

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"go.opencensus.io/plugin/ochttp/propagation/b3"
	"go.opencensus.io/plugin/ochttp/propagation/tracecontext"
	"go.opencensus.io/trace"
)

func TestAContextIsReadFromAllFormats(t *testing.T) {
	for _, c := range []struct {
		name     string
		headers  *Headers
		traceID  string
		spanID   string
		decision decision
		came     formats
	}{
		{"nothing", headers(), "", "", undecided, 0},
		{"traceparent sampled", headers("traceparent", "00-"+idA+"-"+spA+"-01"), idA, spA, sampled, w3c},
		{"traceparent unsampled", headers("traceparent", "00-"+idA+"-"+spA+"-00"), idA, spA, unsampled, w3c},
		{"traceparent with other flags", headers("traceparent", "00-"+idA+"-"+spA+"-fe"), idA, spA, unsampled, w3c},
		{"traceparent of a later version", headers("traceparent", "01-"+idA+"-"+spA+"-01-what"), idA, spA, sampled, w3c},
		{"traceparent of a later version, no longer", headers("traceparent", "cc-"+idA+"-"+spA+"-01"), idA, spA, sampled, w3c},
		{"b3 sampled", headers("b3", idB+"-"+spB+"-1"), idB, spB, sampled, b3Single},
		{"b3 with its parent", headers("b3", idB+"-"+spB+"-0-"+spA), idB, spB, unsampled, b3Single},
		{"b3 debug", headers("b3", idB+"-"+spB+"-d"), idB, spB, sampled, b3Single},
		{"b3 open", headers("b3", idB+"-"+spB), idB, spB, undecided, b3Single},
		{"b3 of 64 bits", headers("b3", id64+"-"+spB+"-1"), "0000000000000000" + id64, spB, sampled, b3Single},
		{"b3 in upper case", headers("b3", strings.ToUpper(idB)+"-"+strings.ToUpper(spB)+"-1"), idB, spB, sampled, b3Single},
		{"b3 no", headers("b3", "0"), "", "", unsampled, b3Single},
		{"b3 yes", headers("b3", "1"), "", "", sampled, b3Single},
		{"b3 d", headers("b3", "d"), "", "", sampled, b3Single},
		{"several", headers("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "1"), idB, spB, sampled, b3Multi},
		{"several open", headers("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-ParentSpanId", spA), idB, spB, undecided, b3Multi},
		{"several of 64 bits", headers("X-B3-TraceId", id64, "X-B3-SpanId", spB, "X-B3-Sampled", "true"), "0000000000000000" + id64, spB, sampled, b3Multi},
		{"several debug", headers("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Flags", "1"), idB, spB, sampled, b3Multi},
		{"several flags zero", headers("X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Flags", "0", "X-B3-Sampled", "0"), idB, spB, unsampled, b3Multi},
		{"a decision alone", headers("X-B3-Sampled", "false"), "", "", unsampled, b3Multi},
		{"a decision with a trace alone", headers("X-B3-TraceId", idB, "X-B3-Sampled", "1"), "", "", sampled, b3Multi},
		{"W3C before B3", headers("traceparent", "00-"+idA+"-"+spA+"-00", "b3", idB+"-"+spB+"-1"), idA, spA, unsampled, w3c | b3Single},
		{"W3C malformed", headers("traceparent", "00-"+idA+"-"+spA, "b3", idB+"-"+spB+"-1"), idB, spB, sampled, b3Single},
		{"single before several", headers("b3", idA+"-"+spA+"-0", "X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "1"), idA, spA, unsampled, b3Single | b3Multi},
		{"a state and ids", headers("b3", "0", "X-B3-TraceId", idB, "X-B3-SpanId", spB), idB, spB, unsampled, b3Single | b3Multi},
		{"all three", headers("traceparent", "00-"+idA+"-"+spA+"-01", "b3", "0", "X-B3-Sampled", "0"), idA, spA, sampled, w3c | b3Single | b3Multi},
	} {
		p := c.headers.read()
		traceID, spanID := "", ""
		if p.known() {
			traceID, spanID = hex.EncodeToString(p.traceID[:]), hex.EncodeToString(p.spanID[:])
		}
		if traceID != c.traceID || spanID != c.spanID || p.decision != c.decision || p.came != c.came {
			t.Errorf("%s: %q %q decision %d formats %b, want %q %q %d %b", c.name, traceID, spanID, p.decision, p.came, c.traceID, c.spanID, c.decision, c.came)
		}
	}
}

func TestWhatIsMalformedCountsAsAbsent(t *testing.T) {
	zeroTrace, zeroSpan := strings.Repeat("0", 32), strings.Repeat("0", 16)
	for _, h := range []*Headers{
		headers("traceparent", ""), headers("traceparent", "00"),
		headers("traceparent", "00-"+zeroTrace+"-"+spA+"-01"), headers("traceparent", "00-"+idA+"-"+zeroSpan+"-01"),
		headers("traceparent", "ff-"+idA+"-"+spA+"-01"), headers("traceparent", "0g-"+idA+"-"+spA+"-01"),
		headers("traceparent", "00-"+strings.ToUpper(idA)+"-"+spA+"-01"), headers("traceparent", "00-"+idA+"-"+strings.ToUpper(spA)+"-01"),
		headers("traceparent", "00-"+idA+"-"+spA+"-0x"), headers("traceparent", "00-"+idA+"-"+spA+"-01-more"),
		headers("traceparent", "01-"+idA+"-"+spA+"-01more"), headers("traceparent", "00_"+idA+"-"+spA+"-01"),
		headers("traceparent", "00-"+idA+"_"+spA+"-01"), headers("traceparent", "00-"+idA+"-"+spA+"_01"),
		headers("traceparent", "00-"+id64+"-"+spA+"-01"), headers("traceparent", " 00-"+idA+"-"+spA+"-01"),
		headers("b3", ""), headers("b3", "2"), headers("b3", "true"), headers("b3", idB), headers("b3", idB+"-"), headers("b3", idB+"-"+spB+"-"),
		headers("b3", idB+"-"+spB+"-2"), headers("b3", idB+"-"+spB+"-1-"), headers("b3", idB+"-"+spB+"-1-"+spA+"0"), headers("b3", idB+"-"+spB+"-1-"+spA[:15]+"x"),
		headers("b3", zeroTrace+"-"+spB+"-1"), headers("b3", idB+"-"+zeroSpan+"-1"), headers("b3", "x"+idB[1:]+"-"+spB+"-1"), headers("b3", idB[1:]+"-"+spB+"-1"),
		headers("X-B3-TraceId", idB), headers("X-B3-SpanId", spB), headers("X-B3-TraceId", idB, "X-B3-SpanId", "x"),
		headers("X-B3-TraceId", idB[:20], "X-B3-SpanId", spB), headers("X-B3-Sampled", "maybe"), headers("X-B3-Flags", "2"), headers("X-B3-ParentSpanId", spA),
	} {
		if p := h.read(); p != (parent{}) {
			t.Errorf("%q was read as %+v", h, p)
		}
	}
}

func TestTheTraceIDIsThatOfTheRequest(t *testing.T) {
	for _, c := range []struct {
		headers *Headers
		want    string
	}{
		{nil, ""}, {headers(), ""}, {headers("traceparent", "junk"), ""}, {headers("b3", "0"), ""}, {headers("X-B3-TraceId", "junk"), ""},
		{headers("traceparent", "00-"+idA+"-"+spA+"-00", "X-B3-TraceId", idB), idA},
		{headers("b3", idB+"-"+spB+"-0"), idB},
		{headers("X-B3-TraceId", id64), "0000000000000000" + id64},
		{headers("X-B3-TraceId", idB, "X-B3-SpanId", spB), idB},
	} {
		id, ok := ReadTraceID(c.headers)
		if got := string(id[:]); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.headers, got, ok, c.want)
		}
	}
}

// parseLines reads field lines with somebody else's parser.
func parseLines(t *testing.T, lines []byte) http.Header {
	t.Helper()
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.Clone(lines), "\r\n"...)))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	return http.Header(h)
}

func (h *Headers) fromHTTP(from http.Header) *Headers {
	value := func(name string) []byte {
		if v := from.Values(name); v != nil {
			return []byte(v[0])
		}
		return nil
	}
	*h = Headers{
		Traceparent: value("traceparent"), B3: value("b3"), TraceID: value("X-B3-TraceId"), SpanID: value("X-B3-SpanId"),
		ParentSpanID: value("X-B3-ParentSpanId"), Sampled: value("X-B3-Sampled"), Flags: value("X-B3-Flags"),
	}
	return h
}

func TestTheContainerGetsTheFormatsThatCame(t *testing.T) {
	tracer := tracerFor(t, Config{SamplingRate: 1}, new(kept))
	w, s, m := "00-"+idA+"-"+spA+"-01", idB+"-"+spB+"-1", []string{"X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "1"}
	for _, c := range []struct {
		name    string
		headers *Headers
		traceID string
		want    []string
	}{
		{"no header", nil, "", []string{"traceparent"}},
		{"none of ours", headers(), "", []string{"traceparent"}},
		{"malformed", headers("b3", "junk"), "", []string{"traceparent"}},
		{"W3C", headers("traceparent", w), idA, []string{"traceparent"}},
		{"B3 single", headers("b3", s), idB, []string{"b3"}},
		{"B3 multi", headers(m...), idB, []string{"X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Sampled"}},
		{"B3 debug", headers(m[0], m[1], m[2], m[3], "X-B3-Flags", "1"), idB, []string{"X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Flags"}},
		{"B3 debug in one of two", headers(append(m, "b3", idA+"-"+spA+"-d")...), idA, []string{"b3", "X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Flags"}},
		{"a decision", headers("X-B3-Sampled", "1"), "", []string{"X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Sampled"}},
		{"all", headers(append(m, "traceparent", w, "b3", s)...), idA,
			[]string{"traceparent", "b3", "X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Sampled"}},
	} {
		span := tracer.Start(c.headers)
		if span == nil {
			t.Fatalf("%s: not sampled", c.name)
		}
		if c.traceID != "" && span.TraceID() != c.traceID {
			t.Errorf("%s: trace id %s, want %s", c.name, span.TraceID(), c.traceID)
		}
		got := parseLines(t, span.Lines())
		if len(got) != len(c.want) {
			t.Errorf("%s: lines %q, want %q", c.name, got, c.want)
		}
		for _, name := range c.want {
			if len(got.Values(name)) != 1 || !strings.Contains(string(span.Lines()), name+": ") {
				t.Errorf("%s: lines %q, want %s", c.name, span.Lines(), name)
			}
		}
		p := new(Headers).fromHTTP(got).read()
		if p.traceID != span.context.TraceID || p.spanID != span.upstream || p.decision != sampled || p.debug != (got.Get("X-B3-Flags") != "") ||
			got.Get("b3") != "" && strings.Contains(got.Get("b3"), "-d-") != p.debug {
			t.Errorf("%s: the container reads %+v", c.name, p)
		}
		if above := got.Get("X-B3-ParentSpanId"); above != "" && above != hex.EncodeToString(span.context.SpanID[:]) {
			t.Errorf("%s: the span above is %s", c.name, above)
		}
	}
}

func TestOpenCensusReadsOurLines(t *testing.T) {
	tracer := tracerFor(t, Config{SamplingRate: 1}, new(kept))
	span := tracer.Start(headers("traceparent", "00-"+idA+"-"+spA+"-01", "X-B3-TraceId", idA, "X-B3-SpanId", spA))
	request := &http.Request{Header: parseLines(t, span.Lines())}
	for name, read := range map[string]func(*http.Request) (trace.SpanContext, bool){
		"tracecontext": new(tracecontext.HTTPFormat).SpanContextFromRequest, "b3": new(b3.HTTPFormat).SpanContextFromRequest,
	} {
		sc, ok := read(request)
		if !ok || sc.TraceID.String() != idA || SpanID(sc.SpanID) != span.upstream || !sc.IsSampled() {
			t.Errorf("%s reads %+v, %v from %q", name, sc, ok, span.Lines())
		}
	}
}

func TestATraceIDOf64BitsGoesOnAsItCame(t *testing.T) {
	tracer := tracerFor(t, Config{SamplingRate: 1}, new(kept))
	for _, h := range []*Headers{headers("b3", id64+"-"+spB+"-1"), headers("X-B3-TraceId", id64, "X-B3-SpanId", spB)} {
		span := tracer.Start(h)
		got := parseLines(t, span.Lines())
		if single := got.Get("b3"); single != "" && !strings.HasPrefix(single, id64+"-") {
			t.Errorf("b3: %s", single)
		}
		if multi := got.Get("X-B3-TraceId"); multi != "" && multi != id64 {
			t.Errorf("X-B3-TraceId: %s", multi)
		}
		if span.TraceID() != "0000000000000000"+id64 {
			t.Errorf("trace id %s", span.TraceID())
		}
	}
}

func TestTheRandomFlagIsKept(t *testing.T) {
	tracer := tracerFor(t, Config{SamplingRate: 1}, new(kept))
	for flags, want := range map[string]string{"01": "01", "03": "03", "ff": "03"} {
		span := tracer.Start(headers("traceparent", "00-"+idA+"-"+spA+"-"+flags))
		if got := parseLines(t, span.Lines()).Get("traceparent"); !strings.HasSuffix(got, "-"+want) {
			t.Errorf("flags %s became %s", flags, got)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("00-"+idA+"-"+spA+"-01", "a=b", idB+"-"+spB+"-1-"+spA, idB, spB, spA, "1", "1")
	f.Add("cc-"+idA+"-"+spA+"-00-x", "=,=", "d", id64, spB, "", "false", "")
	f.Add("", ",,,", "0", "", "", "", "", "")
	tracer := tracerFor(f, Config{Debug: true}, new(kept))
	f.Fuzz(func(t *testing.T, traceparent, tracestate, b3, traceID, spanID, above, is, flags string) {
		h := headers("traceparent", traceparent, "tracestate", tracestate, "b3", b3, "X-B3-TraceId", traceID,
			"X-B3-SpanId", spanID, "X-B3-ParentSpanId", above, "X-B3-Sampled", is, "X-B3-Flags", flags)
		came := h.read()
		id, ok := ReadTraceID(h)
		span := tracer.Start(h)
		if span == nil {
			t.Fatal("debug did not sample")
		}
		if came.known() && (!ok || span.TraceID() != string(id[:])) {
			t.Fatalf("trace id %s, want %s", span.TraceID(), id[:])
		}
		p := new(Headers).fromHTTP(parseLines(t, span.Lines())).read()
		if p.traceID != span.context.TraceID || p.spanID != span.upstream || p.decision != sampled {
			t.Fatalf("%q is read as %+v", span.Lines(), p)
		}
		if want := came.came; p.came != want && !(want == 0 && p.came == w3c) {
			t.Fatalf("formats %b became %b", want, p.came)
		}
		if p.came&(b3Single|b3Multi) != 0 && (p.debug != came.debug || p.short != came.short && p.came&w3c == 0) {
			t.Fatalf("%+v became %+v", came, p)
		}
	})
}
