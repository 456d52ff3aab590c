package h2

// Message tracks one direction of a stream. It checks the sequence of HEADERS, and the
// length of DATA against Content-Length (RFC 9113 sections 8.1 and 8.1.1). The zero value
// expects a head.
type Message struct {
	phase    phase
	noBody   bool  // the body is empty regardless of Content-Length (response to HEAD, 204, 304)
	declared int64 // Content-Length; -1 = none
	received int64
}

type phase uint8

const (
	awaitHead phase = iota
	inBody
	atEnd
)

var (
	errInterimEnds   = malformed("interim response with END_STREAM")
	errTrailersGoOn  = malformed("trailers without END_STREAM")
	errDataNoHead    = malformed("DATA before the head")
	errAfterEnd      = malformed("frame after the end of the message")
	errBodyTooLong   = malformed("more DATA than Content-Length")
	errBodyTooShort  = malformed("less DATA than Content-Length")
	errBodyUnwelcome = malformed("DATA in a response without a body")
)

// ExpectsHead reports whether the next HEADERS frame is a head. Otherwise it is trailers.
func (m *Message) ExpectsHead() bool { return m.phase == awaitHead }

// Ended reports whether the message is complete.
func (m *Message) Ended() bool { return m.phase == atEnd }

// Interim processes an interim response.
func (m *Message) Interim(end bool) *Error {
	if end {
		return errInterimEnds
	}
	return nil
}

// Head processes the head. length is its Content-Length; -1 = none. If noBody is true,
// the body is empty regardless of length.
func (m *Message) Head(length int64, noBody, end bool) *Error {
	m.phase, m.declared, m.noBody = inBody, length, noBody
	return m.endIf(end)
}

// Data processes n octets of DATA, without padding.
func (m *Message) Data(n int, end bool) *Error {
	switch {
	case m.phase == awaitHead:
		return errDataNoHead
	case m.phase == atEnd:
		return errAfterEnd
	case m.noBody && n > 0:
		return errBodyUnwelcome
	}
	if m.received += int64(n); m.received > m.declared && m.declared >= 0 {
		return errBodyTooLong
	}
	return m.endIf(end)
}

// Trailers processes HEADERS after the head.
func (m *Message) Trailers(end bool) *Error {
	switch {
	case m.phase == atEnd:
		return errAfterEnd
	case !end:
		return errTrailersGoOn
	}
	return m.endIf(true)
}

func (m *Message) endIf(end bool) *Error {
	if !end {
		return nil
	}
	m.phase = atEnd
	if !m.noBody && m.received < m.declared {
		return errBodyTooShort
	}
	return nil
}
