package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// errIncomplete reports the beginning of a valid message.
var errIncomplete = errors.New("incomplete message")

// errMalformed is wrapped by the other errors of the strict parser.
var errMalformed = errors.New("malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
}

type framing uint8

const (
	frameNone framing = iota
	frameLength
	frameChunked
	frameClose // the body ends with the connection
)

type field struct{ name, value string }

// message is a request or response of the strict parser. headEnd is 0 if the head is
// incomplete.
type message struct {
	method, target string // of a request
	status         int    // of a response
	reason         string
	version        string
	fields         []field
	trailers       []field
	framing        framing
	body           []byte
	headEnd        int // offset after the head
	end            int // offset after the message
}

// get returns the first value of a field.
func (m *message) get(name string) (string, bool) { return getField(m.fields, name) }

func getField(fields []field, name string) (string, bool) {
	for _, f := range fields {
		if strings.EqualFold(f.name, name) {
			return f.value, true
		}
	}
	return "", false
}

// tokens returns the list members of all lines of a field, in lower case.
func (m *message) tokens(name string) []string {
	var all []string
	for _, f := range m.fields {
		if !strings.EqualFold(f.name, name) {
			continue
		}
		for _, t := range strings.Split(f.value, ",") {
			if t = strings.ToLower(strings.Trim(t, " \t")); t != "" {
				all = append(all, t)
			}
		}
	}
	return all
}

func (m *message) has(name, token string) bool {
	for _, t := range m.tokens(name) {
		if t == token {
			return true
		}
	}
	return false
}

// parseRequest parses the request at the start of b by RFC 9112. It is strict about bytes
// that the gate sends. For bytes that a client sends, asClient is set. It then also
// accepts empty lines before the request line, HTTP/1.0 without Host, the versions
// HTTP/1.2 to 1.9, and any field as a trailer.
func parseRequest(b []byte, asClient bool) (message, error) {
	var m message
	at := 0
	for asClient && bytes.HasPrefix(b[at:], []byte("\r\n")) {
		at += 2
	}
	line, at, err := cutLine(b, at)
	if err != nil {
		return m, err
	}
	parts := strings.Split(line, " ")
	if len(parts) != 3 {
		return m, malformed("request line %.60q", line)
	}
	m.method, m.target, m.version = parts[0], parts[1], parts[2]
	if !isToken(m.method) {
		return m, malformed("method %.60q", m.method)
	}
	if m.target == "" || strings.ContainsFunc(m.target, func(r rune) bool { return r < '!' || r == 0x7f }) {
		return m, malformed("target %.60q", m.target)
	}
	if len(m.version) != 8 || !strings.HasPrefix(m.version, "HTTP/1.") || m.version[7] < '0' || m.version[7] > '9' ||
		m.version[7] > '1' && !asClient {
		return m, malformed("version %.60q", m.version)
	}
	if m.fields, at, err = cutFields(b, at); err != nil {
		return m, err
	}
	hosts := 0
	for _, f := range m.fields {
		if strings.EqualFold(f.name, "Host") {
			hosts++
		}
	}
	if hosts != 1 && !(asClient && hosts == 0 && m.version == "HTTP/1.0") {
		return m, malformed("%d Host fields", hosts)
	}
	m.headEnd = at
	return m, m.readBody(b, 0, asClient)
}

// parseResponse parses the response at the start of b, interim or final. connClosed says
// that the connection was closed after b in an orderly way.
func parseResponse(b []byte, method string, connClosed bool) (message, error) {
	var m message
	line, at, err := cutLine(b, 0)
	if err != nil {
		return m, err
	}
	version, rest, _ := strings.Cut(line, " ")
	code, reason, _ := strings.Cut(rest, " ")
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return m, malformed("status line %.60q", line)
	}
	if len(code) != 3 || !isDigits(code) || code[0] < '1' || code[0] > '9' {
		return m, malformed("status %.60q", line)
	}
	m.version, m.reason = version, reason
	m.status, _ = strconv.Atoi(code)
	if m.fields, at, err = cutFields(b, at); err != nil {
		return m, err
	}
	m.headEnd = at
	bodiless := 0
	if m.status < 200 || m.status == 204 || m.status == 304 {
		bodiless = m.status
	} else if method == "HEAD" || method == "CONNECT" && m.status < 300 {
		bodiless = 1
	}
	if bodiless != 0 {
		_, hasLength := m.get("Content-Length")
		_, hasCoding := m.get("Transfer-Encoding")
		if bodiless >= 100 && bodiless <= 204 && (hasLength || hasCoding) {
			return m, malformed("framing fields in a %d", m.status)
		}
		if hasLength && hasCoding {
			return m, malformed("both framings")
		}
		m.end = at
		return m, nil
	}
	return m, m.readBody(b, 1, connClosed)
}

// cutLine returns the line at offset at, without CRLF, and the offset after the CRLF.
func cutLine(b []byte, at int) (string, int, error) {
	n := bytes.IndexByte(b[at:], '\n')
	line := b[at:]
	if n >= 0 {
		line = b[at : at+n]
		if n == 0 || line[n-1] != '\r' {
			return "", 0, malformed("bare LF after %.60q", line)
		}
		line = line[:n-1]
	} else if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	if bytes.ContainsAny(line, "\r\x00") {
		return "", 0, malformed("bare CR or NUL in %.60q", line)
	}
	if n < 0 {
		return "", 0, errIncomplete
	}
	return string(line), at + n + 1, nil
}

// cutFields returns the field lines up to the empty line.
func cutFields(b []byte, at int) ([]field, int, error) {
	var all []field
	for {
		line, next, err := cutLine(b, at)
		if err != nil || line == "" {
			return all, next, err
		}
		at = next
		name, value, found := strings.Cut(line, ":")
		if !found || !isToken(name) {
			return nil, 0, malformed("field line %.60q", line)
		}
		all = append(all, field{name, strings.Trim(value, " \t")})
	}
}

func isToken(s string) bool {
	for _, c := range []byte(s) {
		alnum := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func isDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
