package hostile

import (
	"bytes"
	"strconv"
	"strings"
)

// readBody reads a body by RFC 9112 section 6.3. The parameter side is 0 for a request
// and 1 for a response. The parameter tolerant has two meanings: for a request it allows
// any field as a trailer; for a response it says that the connection has ended, so that a
// body without a length is complete.
func (m *message) readBody(b []byte, side int, tolerant bool) error {
	lengths, codings := 0, 0
	length := ""
	for _, f := range m.fields {
		switch {
		case strings.EqualFold(f.name, "Content-Length"):
			lengths++
			length = f.value
		case strings.EqualFold(f.name, "Transfer-Encoding"):
			codings++
			if !strings.EqualFold(f.value, "chunked") {
				return malformed("transfer coding %.60q", f.value)
			}
		}
	}
	switch {
	case lengths > 1 || codings > 1 || lengths+codings > 1:
		return malformed("%d Content-Length, %d Transfer-Encoding", lengths, codings)
	case codings == 1 && m.version == "HTTP/1.0":
		return malformed("chunked in HTTP/1.0")
	case codings == 1:
		m.framing = frameChunked
		return m.readChunks(b, side == 0 && tolerant)
	case lengths == 1:
		n, err := strconv.Atoi(length)
		if !isDigits(length) || err != nil {
			return malformed("Content-Length %.60q", length)
		}
		m.framing = frameLength
		m.body = b[m.headEnd:]
		m.body = m.body[:min(len(m.body), n)]
		m.end = m.headEnd + len(m.body)
		if len(m.body) < n {
			return errIncomplete
		}
	case side == 1:
		m.framing = frameClose
		m.body = b[m.headEnd:]
		m.end = len(b)
		if !tolerant {
			return errIncomplete
		}
	default:
		m.end = m.headEnd
	}
	return nil
}

func (m *message) readChunks(b []byte, anyTrailer bool) error {
	at := m.headEnd
	for {
		line, next, err := cutLine(b, at)
		if err != nil {
			return err
		}
		size, extension, found := strings.Cut(line, ";")
		if found {
			size = strings.TrimRight(size, " \t")
		}
		n, err := strconv.ParseUint(size, 16, 63)
		if err != nil || strings.ContainsAny(size, "+-_xX") {
			return malformed("chunk size %.60q", line)
		}
		if strings.ContainsFunc(extension, isControl) {
			return malformed("chunk extension %.60q", extension)
		}
		if n == 0 {
			m.trailers, m.end, err = cutFields(b, next)
			if err != nil || anyTrailer {
				return err
			}
			for _, f := range m.trailers {
				if strings.EqualFold(f.name, "Content-Length") || strings.EqualFold(f.name, "Transfer-Encoding") ||
					strings.EqualFold(f.name, "Host") {
					return malformed("%s in a trailer", f.name)
				}
			}
			return nil
		}
		at = next
		if uint64(len(b)-at) < n {
			m.body = append(m.body, b[at:]...)
			return errIncomplete
		}
		m.body = append(m.body, b[at:at+int(n)]...)
		at += int(n)
		end := b[at:min(len(b), at+2)]
		if !bytes.HasPrefix([]byte("\r\n"), end) {
			return malformed("%q after a chunk", end)
		}
		if len(end) < 2 {
			return errIncomplete
		}
		at += 2
	}
}
