package gate

// TraceFields holds the received trace context fields: the first value of each; nil =
// absent.
type TraceFields struct {
	Traceparent, Tracestate                       []byte // W3C Trace Context
	B3                                            []byte // the single field of B3
	TraceID, SpanID, ParentSpanID, Sampled, Flags []byte // the fields of B3 whose names begin with X-B3-
}

// Note stores the value of a trace context field, unless an earlier line had one. It
// ignores other fields. Names are case-insensitive.
func (t *TraceFields) Note(name, value []byte) {
	p := t.place(name)
	if p != nil && *p == nil {
		*p = value
	}
}

func (t *TraceFields) place(name []byte) *[]byte {
	switch len(name) {
	case len("b3"):
		return &t.B3
	case len("tracestate"): // x-b3-flags has the same length
		if name[0]|0x20 == 'x' {
			return &t.Flags
		}
		return &t.Tracestate
	case len("traceparent"): // x-b3-spanid has the same length
		if name[0]|0x20 == 'x' {
			return &t.SpanID
		}
		return &t.Traceparent
	case len("x-b3-traceid"): // x-b3-sampled has the same length
		if name[5]|0x20 == 't' {
			return &t.TraceID
		}
		return &t.Sampled
	case len("x-b3-parentspanid"):
		return &t.ParentSpanID
	}
	return nil
}
