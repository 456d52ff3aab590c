package tracing

import "encoding/hex"

// Headers are the first values of the fields of trace context; nil when a
// field is absent. The slices are valid during the calls only.
type Headers struct {
	Traceparent, Tracestate                       []byte // W3C Trace Context
	B3                                            []byte // B3, single
	TraceID, SpanID, ParentSpanID, Sampled, Flags []byte // X-B3-*
}

// decision is what a request says of sampling.
type decision uint8

const (
	undecided decision = iota
	unsampled
	sampled
)

// formats is a set of ways to write a trace context.
type formats uint8

const (
	w3c formats = 1 << iota
	b3Single
	b3Multi
)

// parent is what one or all formats say of the sender's span.
type parent struct {
	traceID  TraceID
	spanID   SpanID // zero = there is no parent
	short    bool   // B3 had a trace id of 64 bits
	debug    bool   // B3's, which implies sampled
	flags    byte   // of traceparent
	decision decision
	came     formats // that were well-formed
}

// known is true if there are ids.
func (p *parent) known() bool { return p.spanID != SpanID{} }

// read takes ids, and the decision, from the first of W3C, B3 single and B3
// multi that has them. What is malformed counts as absent.
func (h *Headers) read() (p parent) {
	if h.Traceparent != nil && p.readTraceparent(h.Traceparent) {
		p.came |= w3c
	}
	if h.B3 != nil {
		var single parent
		if single.readB3(h.B3) {
			p.adopt(&single, b3Single)
		}
	}
	if h.TraceID != nil || h.Sampled != nil || h.Flags != nil {
		var multi parent
		if multi.readB3Fields(h) {
			p.adopt(&multi, b3Multi)
		}
	}
	return p
}

// adopt takes from q what p does not know.
func (p *parent) adopt(q *parent, from formats) {
	p.came |= from
	p.debug = p.debug || q.debug
	if !p.known() {
		p.traceID, p.spanID, p.short = q.traceID, q.spanID, q.short
	}
	if p.decision == undecided {
		p.decision = q.decision
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
func (p *parent) readTraceparent(v []byte) bool {
	if len(v) < atEnd || v[atTrace-1] != '-' || v[atSpan-1] != '-' || v[atFlags-1] != '-' {
		return false
	}
	if later := string(v[:2]) != version00; !later && len(v) != atEnd || later && len(v) > atEnd && v[atEnd] != '-' {
		return false
	}
	for _, c := range v[:atEnd] {
		if c >= 'A' && c <= 'F' { // section 3.2.2.3: lower case only
			return false
		}
	}
	var q parent
	var version, flags [1]byte
	if !unhex(version[:], v[:2]) || version[0] == 0xff || !unhex(flags[:], v[atFlags:atEnd]) ||
		!unhex(q.traceID[:], v[atTrace:atSpan-1]) || !unhex(q.spanID[:], v[atSpan:atFlags-1]) {
		return false
	}
	if q.traceID == (TraceID{}) || q.spanID == (SpanID{}) {
		return false
	}
	q.decision = unsampled
	if flags[0]&1 != 0 {
		q.decision = sampled
	}
	if version[0] == 0 {
		q.flags = flags[0]
	}
	*p = q
	return true
}

// readB3 is of B3's single header: trace-span, trace-span-state,
// trace-span-state-parent, or a state alone.
func (p *parent) readB3(v []byte) bool {
	if len(v) == 1 {
		return p.readState(v[0])
	}
	digits := traceDigits
	if len(v) > shortDigits && v[shortDigits] == '-' {
		digits = shortDigits
	}
	if len(v) < digits+1+spanDigits || v[digits] != '-' {
		return false
	}
	var q parent
	if !q.readIDs(v[:digits], v[digits+1:digits+1+spanDigits]) {
		return false
	}
	if v = v[digits+1+spanDigits:]; len(v) > 0 {
		if len(v) < 2 || v[0] != '-' || !q.readState(v[1]) {
			return false
		}
		var grandparent SpanID
		if v = v[2:]; len(v) > 0 && (v[0] != '-' || !unhex(grandparent[:], v[1:])) {
			return false
		}
	}
	*p = q
	return true
}

// readState takes a sampling state of B3's single header.
func (p *parent) readState(c byte) bool {
	switch c {
	case '0':
		p.decision = unsampled
	case '1':
		p.decision = sampled
	case 'd':
		p.decision, p.debug = sampled, true
	default:
		return false
	}
	return true
}

// readB3Fields is of B3's several headers. Ids count as a pair; a decision may
// come without them.
func (p *parent) readB3Fields(h *Headers) bool {
	switch {
	case string(h.Flags) == "1":
		p.decision, p.debug = sampled, true
	case string(h.Sampled) == "1", string(h.Sampled) == "true":
		p.decision = sampled
	case string(h.Sampled) == "0", string(h.Sampled) == "false":
		p.decision = unsampled
	}
	return p.readIDs(h.TraceID, h.SpanID) || p.decision != undecided
}

// readIDs takes a trace id of 64 or 128 bits and a span id, or nothing.
func (p *parent) readIDs(traceID, spanID []byte) bool {
	var t TraceID
	var s SpanID
	short, ok := readB3TraceID(&t, traceID)
	if !ok || !unhex(s[:], spanID) || s == (SpanID{}) {
		return false
	}
	p.traceID, p.spanID, p.short = t, s, short
	return true
}

func readB3TraceID(t *TraceID, v []byte) (short, ok bool) {
	short = len(v) == shortDigits
	if short {
		ok = unhex(t[8:], v)
	} else {
		ok = unhex(t[:], v)
	}
	return short, ok && *t != TraceID{}
}

// unhex fills dst from exactly as many digits, of either case.
func unhex(dst, digits []byte) bool {
	if len(digits) != hex.EncodedLen(len(dst)) {
		return false
	}
	_, err := hex.Decode(dst, digits)
	return err == nil
}

// ReadTraceID is the trace id that a request came with, as 32 digits, whether it
// is sampled or not: that of traceparent, else of b3, else of X-B3-TraceId.
func ReadTraceID(h *Headers) (id [traceDigits]byte, ok bool) {
	if h == nil {
		return id, false
	}
	p := h.read()
	if !p.known() {
		if _, ok := readB3TraceID(&p.traceID, h.TraceID); !ok {
			return id, false
		}
	}
	hex.Encode(id[:], p.traceID[:])
	return id, true
}
