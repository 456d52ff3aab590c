package gate

// TraceFields holds the received trace context fields: the first value of each; nil =
// absent.
type TraceFields struct {
	Traceparent, Tracestate                       []byte // W3C Trace Context
	B3                                            []byte // the single field of B3
	TraceID, SpanID, ParentSpanID, Sampled, Flags []byte // the fields of B3 whose names begin with X-B3-
}

// Note stores the value of a trace context field, unless a value of that field is stored
// already. The caller must pass only trace context fields, because Note does not compare
// whole names. Names are case-insensitive.
func (t *TraceFields) Note(name, value []byte) {
	p := t.fieldFor(name)
	if p != nil && *p == nil {
		*p = value
	}
}

func (t *TraceFields) fieldFor(name []byte) *[]byte {
	switch len(name) {
	case len("b3"):
		return &t.B3
	case len("tracestate"): // or x-b3-flags, which differs in the first byte
		if name[0]|0x20 == 'x' {
			return &t.Flags
		}
		return &t.Tracestate
	case len("traceparent"): // or x-b3-spanid, which differs in the first byte
		if name[0]|0x20 == 'x' {
			return &t.SpanID
		}
		return &t.Traceparent
	case len("x-b3-traceid"): // or x-b3-sampled, which differs in byte 5
		if name[5]|0x20 == 't' {
			return &t.TraceID
		}
		return &t.Sampled
	case len("x-b3-parentspanid"):
		return &t.ParentSpanID
	}
	return nil
}
