package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// repair rewrites a response head in the ways that RFC 9112 permits a proxy. It repairs
// three faults: all lines end in a bare LF (section 2.2), white space before the colon of
// a field (section 5.1), and folded lines (section 5.2).
//
// It does not repair a head that another parser could read differently. Such a head mixes
// LF and CRLF line ends, or has a fault in a field that frames the body.
type repair struct {
	clean    []byte // the repaired lines
	size     int    // length of the received head; 0 = incomplete
	scanned  int    // position at which the search for the next line end continues
	line     int    // start of the current line
	checked  int    // position up to which the current line has been checked
	active   bool   // Scan has rejected the head, so the repair has begun
	bareLF   bool   // the first line ended in a bare LF
	lastKind field.Kind
}

// ScanResponse is like Scan, except that it tries to repair a head that Scan rejects as
// malformed. After a repair, r.Raw is the repaired head.
func (r *Response) ScanResponse(b []byte) (bool, error) {
	if !r.repair.active {
		complete, err := r.Scan(b)
		if err != ErrMalformed {
			return complete, err
		}
		r.repair.active = true
	}
	complete, err := r.repair.scan(b)
	if !complete || err != nil {
		return false, err
	}
	r.Head.reset()
	if complete, err = r.Scan(r.repair.clean); !complete && err == nil {
		err = ErrMalformed
	}
	return complete, err
}

// Size returns the length of the head as received.
func (r *Response) Size() int {
	if r.repair.active {
		return r.repair.size
	}
	return len(r.Raw)
}

func (p *repair) scan(b []byte) (bool, error) {
	for {
		i := bytes.IndexByte(b[p.scanned:], '\n')
		if i < 0 {
			p.scanned = len(b)
			return false, p.checkPartial(b)
		}
		end := p.scanned + i + 1
		if end > MaxHeadBytes {
			return false, ErrTooLarge
		}
		line, crlf := bytes.CutSuffix(b[p.line:end-1], []byte{'\r'})
		if p.line == 0 {
			p.bareLF = !crlf
		}
		if p.bareLF == crlf || !field.IsText(line) {
			return false, ErrMalformed
		}
		p.scanned = end
		if len(line) == 0 && p.line > 0 {
			p.clean = append(p.clean, "\r\n"...)
			p.size = end
			return true, nil
		}
		if !p.addLine(line) {
			return false, ErrMalformed
		}
		p.line, p.checked = end, end
	}
}

// checkPartial rejects an incomplete line that cannot become valid.
func (p *repair) checkPartial(b []byte) error {
	rest := b[p.checked:]
	if n := len(rest); n > 0 && rest[n-1] == '\r' {
		rest = rest[:n-1]
	}
	if p.line == 0 && !startsVersion(b) || !field.IsText(rest) {
		return ErrMalformed
	}
	p.checked += len(rest)
	if len(b) >= MaxHeadBytes {
		return ErrTooLarge
	}
	return nil
}

// version is the prefix of every repaired response.
const version = "HTTP/1."

func startsVersion(b []byte) bool {
	n := min(len(b), len(version))
	return string(b[:n]) == version[:n]
}

// addLine repairs and stores a line. line has no line end.
func (p *repair) addLine(line []byte) bool {
	switch {
	case p.line == 0:
		if len(line) < len(version) || !startsVersion(line) {
			return false
		}
	case line[0] == ' ' || line[0] == '\t':
		return p.addFold(bytes.Trim(line, " \t"))
	default:
		name, value := cutName(line)
		if value == nil {
			return false
		}
		p.lastKind = field.Of(name)
		if isFraming(p.lastKind) && len(name)+len(value) < len(line) {
			return false
		}
		p.clean = append(p.clean, name...)
		line = value
	}
	p.clean = append(append(p.clean, line...), "\r\n"...)
	return true
}

// addFold appends a continuation line to the previous value. It rejects an empty
// continuation, which could be read as the end of the head, and a continuation that looks
// like a framing field.
func (p *repair) addFold(text []byte) bool {
	// Only a field can be continued. If there is only one line so far, it is the status
	// line, so the continuation is rejected.
	first := bytes.IndexByte(p.clean, '\n') == len(p.clean)-1
	if name, value := cutName(text); first || len(text) == 0 || isFraming(p.lastKind) || value != nil && isFraming(field.Of(name)) {
		return false
	}
	p.clean = bytes.TrimRight(p.clean, " \t\r\n")
	p.clean = append(p.clean, ' ')
	p.clean = append(append(p.clean, text...), "\r\n"...)
	return true
}

// cutName splits a field line into the name and the rest, and removes white space between
// them. The rest is the result value, and begins with the colon. Both results are nil if
// the line does not begin with a valid name and a colon.
func cutName(line []byte) (name, value []byte) {
	n := 0
	for n < len(line) && field.IsToken(line[n]) {
		n++
	}
	colon := n
	for colon < len(line) && (line[colon] == ' ' || line[colon] == '\t') {
		colon++
	}
	if n == 0 || colon == len(line) || line[colon] != ':' {
		return nil, nil
	}
	return line[:n], line[colon:]
}

func isFraming(k field.Kind) bool { return k == field.ContentLength || k == field.TransferEncoding }
