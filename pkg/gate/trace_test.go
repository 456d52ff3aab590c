package gate

import "testing"

func TestTraceFieldsKeepTheFirstValueOfEachName(t *testing.T) {
	var f TraceFields
	for _, name := range []string{
		"Traceparent", "TRACESTATE", "b3", "X-B3-TraceId", "x-b3-spanid", "X-B3-ParentSpanId", "X-B3-Sampled", "X-B3-Flags",
	} {
		f.Note([]byte(name), []byte(name))
		f.Note([]byte(name), []byte("second"))
	}
	f.Note([]byte("X-Other-Length-Name"), []byte("ignored"))
	for want, got := range map[string][]byte{
		"Traceparent": f.Traceparent, "TRACESTATE": f.Tracestate, "b3": f.B3, "X-B3-TraceId": f.TraceID, "x-b3-spanid": f.SpanID,
		"X-B3-ParentSpanId": f.ParentSpanID, "X-B3-Sampled": f.Sampled, "X-B3-Flags": f.Flags,
	} {
		if string(got) != want {
			t.Errorf("%s: got %q", want, got)
		}
	}
}
