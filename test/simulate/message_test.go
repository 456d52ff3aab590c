package simulate

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// message parses an HTTP/1 message as strictly as the RFC allows.
type message struct {
	buf       []byte
	base      []byte // allocation that contains buf
	line      string
	fields    [][2]string
	trailers  [][2]string
	mode      framing
	remaining int
	chunk     bool // remaining counts the bytes of a chunk
	inTrail   bool
}

// framing says how a body ends.
type framing uint8

const (
	noBody framing = iota
	length
	chunked
	untilClose
)

var errStrict = errors.New("not a well-formed message")

func (m *message) reset() {
	m.line, m.fields, m.trailers, m.mode, m.remaining, m.chunk, m.inTrail = "", m.fields[:0], nil, noBody, 0, false, false
}

func (m *message) add(b []byte) {
	if len(m.buf) == 0 {
		m.buf = m.base[:0]
	}
	m.buf = append(m.buf, b...)
	if cap(m.buf) > cap(m.base) {
		m.base = m.buf
	}
}

// clear resets m and keeps its buffers.
func (m *message) clear() {
	m.reset()
	m.buf = m.base[:0]
}

// head parses the head once it is complete.
func (m *message) head() (complete bool, err error) {
	i := bytes.Index(m.buf, []byte("\r\n\r\n"))
	if i < 0 {
		return false, nil
	}
	text := string(m.buf[:i+2])
	m.buf = m.buf[i+4:]
	m.line, text, _ = strings.Cut(text, "\r\n")
	m.fields, err = fieldsOf(m.fields[:0], text)
	return true, err
}

func fieldsOf(dst [][2]string, text string) ([][2]string, error) {
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n\x00") {
			return dst, errStrict
		}
		dst = append(dst, [2]string{name, strings.Trim(value, " \t")})
	}
	return dst, nil
}

// get returns the value of a field, and the number of its lines.
func get(fields [][2]string, name string) (value string, n int) {
	for _, f := range fields {
		if strings.EqualFold(f[0], name) {
			if n++; n == 1 {
				value = f[1]
			}
		}
	}
	return value, n
}

// frame derives the framing of the body from the head.
func (m *message) frame(bodyless, response bool) error {
	size, sizes := get(m.fields, "Content-Length")
	coding, codings := get(m.fields, "Transfer-Encoding")
	switch {
	case sizes > 1 || codings > 1 || sizes > 0 && codings > 0:
		return errStrict
	case bodyless:
		m.mode = noBody
	case codings > 0:
		if coding != "chunked" {
			return errStrict
		}
		m.mode = chunked
	case sizes > 0:
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || strconv.Itoa(n) != size {
			return errStrict
		}
		m.mode, m.remaining = length, n
	case response:
		m.mode = untilClose
	default:
		m.mode = noBody
	}
	return nil
}

// body passes available body bytes to take.
func (m *message) body(take func([]byte)) (done bool, err error) {
	switch m.mode {
	case noBody:
		return true, nil
	case untilClose:
		if len(m.buf) > 0 {
			take(m.buf)
			m.buf = m.buf[:0]
		}
		return false, nil
	case length:
		if n := min(m.remaining, len(m.buf)); n > 0 {
			take(m.buf[:n])
			m.buf = m.buf[n:]
			m.remaining -= n
		}
		return m.remaining == 0, nil
	}
	for {
		if m.inTrail {
			i := bytes.Index(m.buf, []byte("\r\n"))
			if i < 0 {
				return false, nil
			}
			line := string(m.buf[:i+2])
			m.buf = m.buf[i+2:]
			if i == 0 {
				return true, nil
			}
			if m.trailers, err = fieldsOf(m.trailers, line); err != nil {
				return false, err
			}
			continue
		}
		if !m.chunk {
			i := bytes.Index(m.buf, []byte("\r\n"))
			if i < 0 {
				return false, nil
			}
			n, err := strconv.ParseUint(string(m.buf[:i]), 16, 31)
			if err != nil {
				return false, errStrict
			}
			m.buf = m.buf[i+2:]
			if n == 0 {
				m.inTrail = true
				continue
			}
			m.remaining, m.chunk = int(n), true
		}
		if n := min(m.remaining, len(m.buf)); n > 0 {
			take(m.buf[:n])
			m.buf = m.buf[n:]
			m.remaining -= n
		}
		if m.remaining > 0 || len(m.buf) < 2 {
			return false, nil
		}
		if m.buf[0] != '\r' || m.buf[1] != '\n' {
			return false, errStrict
		}
		m.buf, m.chunk = m.buf[2:], false
	}
}

// pattern is the random text of all bodies.
var pattern = func() []byte {
	b := make([]byte, 1<<21)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = 'a' + byte(x>>33)%26
	}
	return b
}()

// bodyOf returns the body of a request (way 0) or response (way 1). All bodies differ.
func bodyOf(id, variant, n int) []byte {
	at := (id*2+variant)*977%(1<<19) + variant
	return pattern[at : at+n]
}

// appendChunks appends a body in chunks of random sizes.
func (w *world) appendChunks(dst, body []byte, trailers string) []byte {
	for len(body) > 0 {
		n := len(body)
		if n > 1 && w.rng.IntN(2) == 0 {
			n = 1 + w.rng.IntN(n)
		}
		dst = strconv.AppendInt(dst, int64(n), 16)
		dst = append(dst, "\r\n"...)
		dst = append(append(dst, body[:n]...), "\r\n"...)
		body = body[n:]
	}
	return append(append(append(dst, "0\r\n"...), trailers...), "\r\n"...)
}
