package tracing

import (
	"encoding/hex"

	"github.com/queuegate/queuegate/pkg/gate"
)

// The parts of field lines that do not depend on the request.
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

const (
	traceDigits = 2 * len(gate.TraceID{})
	spanDigits  = 2 * len(gate.SpanID{})
)

// maxLines is the maximum number of bytes that appendLines appends. It counts the lines
// of all three formats: traceparent, b3 and X-B3-*.
const maxLines = len(lineTraceparent+"--01"+endOfLine) + traceDigits + spanDigits +
	len(lineB3+"--1-"+endOfLine) + traceDigits + 2*spanDigits +
	len(lineTraceID+lineSpanID+lineParentID+lineSampled) + 3*len(endOfLine) + traceDigits + 2*spanDigits

// randomFlag is the bit in the flags of traceparent that marks a random trace id. A
// proxy must keep it (W3C Trace Context level 2, section 3.2.2.5.2).
const randomFlag = 0x02

// appendLines appends the field lines of a trace context to dst. Its second parameter is
// the set of formats in which it writes the trace context; an empty set means
// traceparent. The parameter c is the received trace context. The last two parameters are
// the id of the span that sends the request to the container, and the id of the parent of
// that span.
func appendLines(dst []byte, in gate.TraceFormats, c *gate.TraceContext, traceID gate.TraceID, span, above gate.SpanID) []byte {
	if in == 0 {
		in = gate.W3C
	}
	if in&gate.W3C != 0 {
		dst = hex.AppendEncode(append(dst, lineTraceparent...), traceID[:])
		dst = hex.AppendEncode(append(dst, '-'), span[:])
		dst = append(dst, '-', '0', '0'|1|c.Flags&randomFlag)
		dst = append(dst, endOfLine...)
	}
	b3TraceID := traceID[:]
	if c.Short {
		b3TraceID = traceID[8:]
	}
	if in&gate.B3Single != 0 {
		state := byte('1')
		if c.Debug {
			state = 'd'
		}
		dst = hex.AppendEncode(append(dst, lineB3...), b3TraceID)
		dst = hex.AppendEncode(append(dst, '-'), span[:])
		dst = hex.AppendEncode(append(dst, '-', state, '-'), above[:])
		dst = append(dst, endOfLine...)
	}
	if in&gate.B3Multi != 0 {
		dst = append(hex.AppendEncode(append(dst, lineTraceID...), b3TraceID), endOfLine...)
		dst = append(hex.AppendEncode(append(dst, lineSpanID...), span[:]), endOfLine...)
		dst = append(hex.AppendEncode(append(dst, lineParentID...), above[:]), endOfLine...)
		if c.Debug {
			dst = append(dst, lineDebug...)
		} else {
			dst = append(dst, lineSampled...)
		}
	}
	return dst
}

// appendOthers appends the received trace context fields whose format is none of the
// given formats. It does not change their values.
func appendOthers(dst []byte, formats gate.TraceFormats, fields *gate.TraceFields) []byte {
	for _, field := range [...]struct {
		format gate.TraceFormats
		name   string
		value  []byte
	}{
		{gate.W3C, "traceparent: ", fields.Traceparent}, {gate.B3Single, lineB3, fields.B3},
		{gate.B3Multi, lineTraceID, fields.TraceID}, {gate.B3Multi, lineSpanID, fields.SpanID}, {gate.B3Multi, lineParentID, fields.ParentSpanID},
		{gate.B3Multi, "X-B3-Sampled: ", fields.Sampled}, {gate.B3Multi, "X-B3-Flags: ", fields.Flags},
	} {
		if formats&field.format == 0 && field.value != nil {
			dst = append(append(append(dst, field.name...), field.value...), endOfLine...)
		}
	}
	return dst
}
