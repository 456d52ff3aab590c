package tracing

// Field lines as they are commonly written, values left out.
const (
	lineTraceparent = "traceparent: 00-"
	lineB3          = "b3: "
	lineTraceID     = "X-B3-TraceId: "
	lineSpanID      = "X-B3-SpanId: "
	lineParentID    = "X-B3-ParentSpanId: "
	lineSampled     = "X-B3-Sampled: 1\r\n"
	lineDebug       = "X-B3-Flags: 1\r\n"
	endOfLine       = "\r\n"
)

// maxLines is the length of all formats together.
const maxLines = len(lineTraceparent+"--01"+endOfLine) + traceDigits + spanDigits +
	len(lineB3+"--1-"+endOfLine) + traceDigits + 2*spanDigits +
	len(lineTraceID+lineSpanID+lineParentID+lineSampled) + 3*len(endOfLine) + traceDigits + 2*spanDigits

const digits = "0123456789abcdef"

func appendHex(dst, src []byte) []byte {
	for _, b := range src {
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return dst
}

// randomFlag of a traceparent says that the id is random; whoever passes the
// trace on must keep it (W3C Trace Context level 2, section 3.2.2.5.2).
const randomFlag = 0x02

// appendLines writes a sampled context with span as the sender and above as
// the span over it.
func (p *parent) appendLines(dst []byte, traceID TraceID, span, above SpanID) []byte {
	in := p.came
	if in == 0 {
		in = w3c
	}
	if in&w3c != 0 {
		dst = appendHex(append(dst, lineTraceparent...), traceID[:])
		dst = appendHex(append(dst, '-'), span[:])
		dst = append(dst, '-', '0', digits[1|p.flags&randomFlag])
		dst = append(dst, endOfLine...)
	}
	b3TraceID := traceID[:]
	if p.short {
		b3TraceID = traceID[8:]
	}
	if in&b3Single != 0 {
		state := byte('1')
		if p.debug {
			state = 'd'
		}
		dst = appendHex(append(dst, lineB3...), b3TraceID)
		dst = appendHex(append(dst, '-'), span[:])
		dst = appendHex(append(dst, '-', state, '-'), above[:])
		dst = append(dst, endOfLine...)
	}
	if in&b3Multi != 0 {
		dst = append(appendHex(append(dst, lineTraceID...), b3TraceID), endOfLine...)
		dst = append(appendHex(append(dst, lineSpanID...), span[:]), endOfLine...)
		dst = append(appendHex(append(dst, lineParentID...), above[:]), endOfLine...)
		if p.debug {
			dst = append(dst, lineDebug...)
		} else {
			dst = append(dst, lineSampled...)
		}
	}
	return dst
}
