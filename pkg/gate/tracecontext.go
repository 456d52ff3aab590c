package gate

import "encoding/hex"

// TraceID identifies a trace. Zero = none. A 64-bit id is padded with leading zeros.
type TraceID [16]byte

// SpanID identifies a span of a trace. Zero = none.
type SpanID [8]byte

// String returns 32 hexadecimal digits in lower case.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// String returns 16 hexadecimal digits in lower case.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Sampling is the decision of the sender whether to record the trace.
type Sampling uint8

// The decisions. Deferred means that the sender did not decide.
const (
	SamplingDeferred Sampling = iota
	Unsampled
	Sampled
)

// TraceFormats is a set of trace context formats.
type TraceFormats uint8

// The formats.
const (
	W3C      TraceFormats = 1 << iota // traceparent
	B3Single                          // b3
	B3Multi                           // X-B3-*
)

// TraceContext is the trace context of a request.
type TraceContext struct {
	TraceID  TraceID // zero = none received
	SpanID   SpanID  // the sender's span; zero = none received
	Short    bool    // the trace id is a 64-bit B3 id
	Debug    bool    // B3's debug flag, which implies Sampled
	Flags    byte    // trace-flags of traceparent
	Sampling Sampling
	Formats  TraceFormats // the formats whose fields were well-formed
}

// Context returns the trace context that the received fields describe. It evaluates the
// formats in the order traceparent, b3, X-B3-*. The ids come from the first format that
// has a trace id. The sampling decision comes from the first format that has a decision.
//
// Malformed fields count as absent. X-B3-TraceId is valid without X-B3-SpanId; SpanID is
// then zero. If t is nil, the result is the zero TraceContext.
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

// adopt completes c with the values of o: the ids if c has no trace id, and the sampling
// decision if c has none. The parameter from is the format in which o was received.
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

// Lengths of identifiers in hexadecimal digits.
const (
	traceDigits = 32
	shortDigits = 16
	spanDigits  = 16
)

// Offsets in the value of traceparent, which has the form version-trace-span-flags.
const (
	atTrace   = 3
	atSpan    = atTrace + traceDigits + 1
	atFlags   = atSpan + spanDigits + 1
	atEnd     = atFlags + 2
	version00 = "00"
)

// readTraceparent parses traceparent (W3C Trace Context section 3.2). Later versions may
// have more parts after the flags. The value always contains a sampling decision.
func (c *TraceContext) readTraceparent(v []byte) bool {
	if len(v) < atEnd || v[atTrace-1] != '-' || v[atSpan-1] != '-' || v[atFlags-1] != '-' {
		return false
	}
	if later := string(v[:2]) != version00; !later && len(v) != atEnd || later && len(v) > atEnd && v[atEnd] != '-' {
		return false
	}
	for _, digit := range v[:atEnd] {
		if digit >= 'A' && digit <= 'F' { // W3C Trace Context section 3.2.2.3: lower case only
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

// readB3 parses the single field of B3. Its forms are trace-span, trace-span-state,
// trace-span-state-parent, and a state alone.
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

// readState parses a sampling state of B3's single field.
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

// readB3Fields parses the X-B3-* fields. A sampling decision may occur without ids, and a
// trace id without a span id.
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

// readIDs parses the trace id and the span id of B3's single field.
func (c *TraceContext) readIDs(traceID, spanID []byte) bool {
	return c.readTraceID(traceID) && unhex(c.SpanID[:], spanID) && c.SpanID != SpanID{}
}

// readTraceID parses a trace id of 64 or 128 bits.
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

// unhex decodes hexadecimal digits of either case into dst. It returns false if a
// character is not a digit, or if the number of digits does not match the length of dst.
func unhex(dst, digits []byte) bool {
	if len(digits) != hex.EncodedLen(len(dst)) {
		return false
	}
	_, err := hex.Decode(dst, digits)
	return err == nil
}
