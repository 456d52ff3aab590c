package gate

// TraceFields holds the received trace context: the first value of each field; nil =
// absent.
type TraceFields struct {
	Traceparent, Tracestate                       []byte // W3C Trace Context
	B3                                            []byte // B3, single
	TraceID, SpanID, ParentSpanID, Sampled, Flags []byte // X-B3-*
}

// Note stores a trace context field and ignores others. Names are case-insensitive.
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
	case len("tracestate"): // or x-b3-flags
		if name[0]|0x20 == 'x' {
			return &t.Flags
		}
		return &t.Tracestate
	case len("traceparent"): // or x-b3-spanid
		if name[0]|0x20 == 'x' {
			return &t.SpanID
		}
		return &t.Traceparent
	case len("x-b3-traceid"): // or x-b3-sampled
		if name[5]|0x20 == 't' {
			return &t.TraceID
		}
		return &t.Sampled
	case len("x-b3-parentspanid"):
		return &t.ParentSpanID
	}
	return nil
}
