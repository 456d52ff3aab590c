package gate

import "encoding/hex"

// TraceID is shared by all spans of a trace. Zero is no trace. One of 64 bits
// has zeros in front.
type TraceID [16]byte

// SpanID tells the spans of a trace apart. Zero is no span.
type SpanID [8]byte

// String is 32 digits in lower case.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// String is 16 digits in lower case.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Sampling is what a sender decided.
type Sampling uint8

// The decisions.
const (
	SamplingDeferred Sampling = iota
	Unsampled
	Sampled
)

// TraceFormats is a set of ways to write a trace context.
type TraceFormats uint8

// The formats.
const (
	W3C      TraceFormats = 1 << iota // traceparent
	B3Single                          // b3
	B3Multi                           // X-B3-*
)

// TraceContext is the trace that a request belongs to, and what its sender
// decided.
type TraceContext struct {
	TraceID  TraceID // zero = the request brings none
	SpanID   SpanID  // the sender's span; zero = it brings none
	Short    bool    // the trace id is one of B3 with 64 bits
	Debug    bool    // B3's, which implies Sampled
	Flags    byte    // of traceparent
	Sampling Sampling
	Formats  TraceFormats // that were well-formed
}

// Context is the one rule for the trace of a request, sampled or not. Ids are
// those of the first of traceparent, b3 and X-B3-* that has a trace id, the
// decision that of the first that has one. An X-B3-TraceId may stand alone: the
// request is then the first of its trace. What is malformed counts as absent. A
// nil t has nothing.
func (t *TraceFields) Context() (c TraceContext) {
	if t == nil {
		return c
	}
	if t.Traceparent != nil && c.readTraceparent(t.Traceparent) {
		c.Formats = W3C
	}
	if t.B3 != nil {
		var single TraceContext
		if single.readB3(t.B3) {
			c.adopt(&single, B3Single)
		}
	}
	if t.TraceID != nil || t.Sampled != nil || t.Flags != nil {
		var multi TraceContext
		if multi.readB3Fields(t) {
			c.adopt(&multi, B3Multi)
		}
	}
	return c
}

// adopt takes from o what c does not know.
func (c *TraceContext) adopt(o *TraceContext, from TraceFormats) {
	c.Formats |= from
	c.Debug = c.Debug || o.Debug
	if c.TraceID == (TraceID{}) {
		c.TraceID, c.SpanID, c.Short = o.TraceID, o.SpanID, o.Short
	}
	if c.Sampling == SamplingDeferred {
		c.Sampling = o.Sampling
	}
}

// Lengths of the parts in hexadecimal digits.
const (
	traceDigits = 32
	shortDigits = 16
	spanDigits  = 16
)

// Offsets in a traceparent, version-trace-span-flags.
const (
	atTrace   = 3
	atSpan    = atTrace + traceDigits + 1
	atFlags   = atSpan + spanDigits + 1
	atEnd     = atFlags + 2
	version00 = "00"
)

// readTraceparent is of W3C Trace Context section 3.2. Versions to come may
// append fields. There is no form that leaves the decision open.
func (c *TraceContext) readTraceparent(v []byte) bool {
	if len(v) < atEnd || v[atTrace-1] != '-' || v[atSpan-1] != '-' || v[atFlags-1] != '-' {
		return false
	}
	if later := string(v[:2]) != version00; !later && len(v) != atEnd || later && len(v) > atEnd && v[atEnd] != '-' {
		return false
	}
	for _, digit := range v[:atEnd] {
		if digit >= 'A' && digit <= 'F' { // section 3.2.2.3: lower case only
			return false
		}
	}
	var o TraceContext
	var version, flags [1]byte
	if !unhex(version[:], v[:2]) || version[0] == 0xff || !unhex(flags[:], v[atFlags:atEnd]) ||
		!unhex(o.TraceID[:], v[atTrace:atSpan-1]) || !unhex(o.SpanID[:], v[atSpan:atFlags-1]) {
		return false
	}
	if o.TraceID == (TraceID{}) || o.SpanID == (SpanID{}) {
		return false
	}
	o.Sampling = Unsampled
	if flags[0]&1 != 0 {
		o.Sampling = Sampled
	}
	if version[0] == 0 {
		o.Flags = flags[0]
	}
	*c = o
	return true
}

// readB3 is of B3's single header: trace-span, trace-span-state,
// trace-span-state-parent, or a state alone.
func (c *TraceContext) readB3(v []byte) bool {
	if len(v) == 1 {
		return c.readState(v[0])
	}
	digits := traceDigits
	if len(v) > shortDigits && v[shortDigits] == '-' {
		digits = shortDigits
	}
	if len(v) < digits+1+spanDigits || v[digits] != '-' {
		return false
	}
	var o TraceContext
	if !o.readIDs(v[:digits], v[digits+1:digits+1+spanDigits]) {
		return false
	}
	if v = v[digits+1+spanDigits:]; len(v) > 0 {
		if len(v) < 2 || v[0] != '-' || !o.readState(v[1]) {
			return false
		}
		var grandparent SpanID
		if v = v[2:]; len(v) > 0 && (v[0] != '-' || !unhex(grandparent[:], v[1:])) {
			return false
		}
	}
	*c = o
	return true
}

// readState takes a sampling state of B3's single header.
func (c *TraceContext) readState(state byte) bool {
	switch state {
	case '0':
		c.Sampling = Unsampled
	case '1':
		c.Sampling = Sampled
	case 'd':
		c.Sampling, c.Debug = Sampled, true
	default:
		return false
	}
	return true
}

// readB3Fields is of B3's several headers. A decision may come without ids, and
// a trace id without that of a span.
func (c *TraceContext) readB3Fields(t *TraceFields) bool {
	switch {
	case string(t.Flags) == "1":
		c.Sampling, c.Debug = Sampled, true
	case string(t.Sampled) == "1", string(t.Sampled) == "true":
		c.Sampling = Sampled
	case string(t.Sampled) == "0", string(t.Sampled) == "false":
		c.Sampling = Unsampled
	}
	known := c.readTraceID(t.TraceID)
	if known && !unhex(c.SpanID[:], t.SpanID) {
		c.SpanID = SpanID{}
	}
	return known || c.Sampling != SamplingDeferred
}

// readIDs takes both ids of B3's single header, or nothing.
func (c *TraceContext) readIDs(traceID, spanID []byte) bool {
	return c.readTraceID(traceID) && unhex(c.SpanID[:], spanID) && c.SpanID != SpanID{}
}

// readTraceID takes a trace id of 64 or 128 bits, or nothing.
func (c *TraceContext) readTraceID(v []byte) bool {
	var id TraceID
	short := len(v) == shortDigits
	dst := id[:]
	if short {
		dst = id[8:]
	}
	if !unhex(dst, v) || id == (TraceID{}) {
		return false
	}
	c.TraceID, c.Short = id, short
	return true
}

// unhex fills dst from exactly as many digits, of either case.
func unhex(dst, digits []byte) bool {
	if len(digits) != hex.EncodedLen(len(dst)) {
		return false
	}
	_, err := hex.Decode(dst, digits)
	return err == nil
}
