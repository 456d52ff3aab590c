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

	"github.com/queuegate/queuegate/pkg/gate"
)

// parseLines reads field lines with a parser of another library.
func parseLines(t *testing.T, lines []byte) http.Header {
	t.Helper()
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.Clone(lines), "\r\n"...)))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	return http.Header(h)
}

func fromHTTP(from http.Header) *gate.TraceFields {
	f := new(gate.TraceFields)
	for name, values := range from {
		f.Note([]byte(name), []byte(values[0]))
	}
	return f
}

func TestTheContainerGetsTraceHeadersInTheFormatsThatWereReceived(t *testing.T) {
	tracer := tracerFor(t, Config{SamplingRate: 1}, new(kept))
	w, s, m := "00-"+idA+"-"+spA+"-01", idB+"-"+spB+"-1", []string{"X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "1"}
	for _, c := range []struct {
		name    string
		headers *gate.TraceFields
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
		{"a trace alone", headers("X-B3-TraceId", idB), idB, []string{"X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Sampled"}},
		{"a decision", headers("X-B3-Sampled", "1"), "", []string{"X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Sampled"}},
		{"all", headers(append(m, "traceparent", w, "b3", s)...), idA,
			[]string{"traceparent", "b3", "X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Sampled"}},
	} {
		span := tracer.Start(c.headers)
		if span == nil {
			t.Fatalf("%s: not sampled", c.name)
		}
		if c.traceID != "" && span.TraceID().String() != c.traceID {
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
		p := fromHTTP(got).Context()
		if p.TraceID != span.context.TraceID || p.SpanID != span.upstream || p.Sampling != gate.Sampled || p.Debug != (got.Get("X-B3-Flags") != "") ||
			got.Get("b3") != "" && strings.Contains(got.Get("b3"), "-d-") != p.Debug {
			t.Errorf("%s: the container reads %+v", c.name, p)
		}
		if above := got.Get("X-B3-ParentSpanId"); above != "" && above != hex.EncodeToString(span.context.SpanID[:]) {
			t.Errorf("%s: the span above is %s", c.name, above)
		}
	}
}

func TestOpenCensusParsesTheGeneratedFields(t *testing.T) {
	tracer := tracerFor(t, Config{SamplingRate: 1}, new(kept))
	span := tracer.Start(headers("traceparent", "00-"+idA+"-"+spA+"-01", "X-B3-TraceId", idA, "X-B3-SpanId", spA))
	request := &http.Request{Header: parseLines(t, span.Lines())}
	for name, read := range map[string]func(*http.Request) (trace.SpanContext, bool){
		"tracecontext": new(tracecontext.HTTPFormat).SpanContextFromRequest, "b3": new(b3.HTTPFormat).SpanContextFromRequest,
	} {
		sc, ok := read(request)
		if !ok || sc.TraceID.String() != idA || gate.SpanID(sc.SpanID) != span.upstream || !sc.IsSampled() {
			t.Errorf("%s reads %+v, %v from %q", name, sc, ok, span.Lines())
		}
	}
}

func TestA64BitTraceIDIsForwardedUnchanged(t *testing.T) {
	tracer := tracerFor(t, Config{SamplingRate: 1}, new(kept))
	for _, h := range []*gate.TraceFields{headers("b3", id64+"-"+spB+"-1"), headers("X-B3-TraceId", id64, "X-B3-SpanId", spB)} {
		span := tracer.Start(h)
		got := parseLines(t, span.Lines())
		if single := got.Get("b3"); single != "" && !strings.HasPrefix(single, id64+"-") {
			t.Errorf("b3: %s", single)
		}
		if multi := got.Get("X-B3-TraceId"); multi != "" && multi != id64 {
			t.Errorf("X-B3-TraceId: %s", multi)
		}
		if span.TraceID().String() != "0000000000000000"+id64 {
			t.Errorf("trace id %s", span.TraceID())
		}
	}
}

func TestTheRandomFlagOfTraceparentIsForwarded(t *testing.T) {
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
		came := h.Context()
		span := tracer.Start(h)
		if span == nil {
			t.Fatal("debug did not sample")
		}
		if came.TraceID != (gate.TraceID{}) && span.TraceID() != came.TraceID {
			t.Fatalf("trace id %s, want %s", span.TraceID(), came.TraceID)
		}
		p := fromHTTP(parseLines(t, span.Lines())).Context()
		if p.TraceID != span.context.TraceID || p.SpanID != span.upstream || p.Sampling != gate.Sampled {
			t.Fatalf("%q is read as %+v", span.Lines(), p)
		}
		if want := came.Formats; p.Formats != want && !(want == 0 && p.Formats == gate.W3C) {
			t.Fatalf("formats %b became %b", want, p.Formats)
		}
		if p.Formats&(gate.B3Single|gate.B3Multi) != 0 && (p.Debug != came.Debug || p.Short != came.Short && p.Formats&gate.W3C == 0) {
			t.Fatalf("%+v became %+v", came, p)
		}
	})
}

func TestOnlyTraceHeadersInTheConfiguredFormatsAreReadAndWritten(t *testing.T) {
	w, s, m := "00-"+idA+"-"+spA+"-01", idB+"-"+spB+"-1", []string{"X-B3-TraceId", idB, "X-B3-SpanId", spB, "X-B3-Sampled", "1"}
	all := headers(append(m, "traceparent", w, "b3", s, "tracestate", "a=b")...)
	for _, c := range []struct {
		formats   gate.TraceFormats
		headers   *gate.TraceFields
		traceID   string
		ours      []string
		unchanged map[string]string
	}{
		{gate.W3C, all, idA, []string{"traceparent"}, map[string]string{"b3": s, "X-B3-TraceId": idB, "X-B3-SpanId": spB, "X-B3-Sampled": "1"}},
		{gate.B3Single, all, idB, []string{"b3"}, map[string]string{"traceparent": w, "X-B3-TraceId": idB, "X-B3-SpanId": spB, "X-B3-Sampled": "1"}},
		{gate.B3Multi, all, idB, []string{"X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Sampled"}, map[string]string{"traceparent": w, "b3": s}},
		{gate.W3C | gate.B3Single, nil, "", []string{"traceparent", "b3"}, nil},
		{gate.W3C, headers("b3", "0"), "", []string{"traceparent"}, map[string]string{"b3": "0"}},
	} {
		tracer := tracerFor(t, Config{SamplingRate: 1, Formats: c.formats}, new(kept))
		span := tracer.Start(c.headers)
		if span == nil {
			t.Fatalf("%v: not sampled", c.formats)
		}
		if c.traceID != "" && span.TraceID().String() != c.traceID {
			t.Errorf("%v: trace id %s, want %s", c.formats, span.TraceID(), c.traceID)
		}
		got := parseLines(t, span.Lines())
		for _, name := range c.ours {
			if text := got.Get(name); text == "" || name != "X-B3-Sampled" && name != "X-B3-ParentSpanId" && name != "X-B3-SpanId" && !strings.Contains(text, span.TraceID().String()) {
				t.Errorf("%v: %s is %q", c.formats, name, text)
			}
		}
		for name, want := range c.unchanged {
			if got.Get(name) != want {
				t.Errorf("%v: %s is %q, want %q", c.formats, name, got.Get(name), want)
			}
		}
		if len(got) != len(c.ours)+len(c.unchanged) {
			t.Errorf("%v: lines %q", c.formats, got)
		}
	}
	span := tracerFor(t, Config{SamplingRate: 1, NoPropagation: true}, new(kept)).Start(all)
	if span == nil || span.Lines() != nil || span.TraceID().String() == idA || span.parentID != (gate.SpanID{}) {
		t.Errorf("without propagation: %+v", span)
	}
}
