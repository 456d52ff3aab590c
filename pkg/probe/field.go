package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// fields parses the fields of a JSON object. Its methods return a default for an absent
// or null field, and record a problem for an invalid field. Names are case-sensitive,
// as in Kubernetes.
type fields struct {
	path     string
	raw      map[string]json.RawMessage
	problems []error
}

func readObject(path string, data []byte) *fields {
	f := &fields{path: path}
	if !json.Valid(data) {
		f.problem("", "is not valid JSON")
		return f
	}
	if data = bytes.TrimSpace(data); data[0] != '{' {
		f.problem("", "is "+jsonType(data)+": an object is needed")
		return f
	}
	if err := json.Unmarshal(data, &f.raw); err != nil {
		f.raw = nil
		f.problem("", "is not valid JSON")
	}
	return f
}

func (f *fields) err() error { return errors.Join(f.problems...) }

// take moves the problems of a nested object to f.
func (f *fields) take(inner *fields) { f.problems = append(f.problems, inner.problems...) }

// problem records an error in the field with the given name. If the name is empty, the
// error concerns the whole object.
func (f *fields) problem(name, text string) {
	f.problems = append(f.problems, fmt.Errorf("%s: %s", f.pathOf(name), text))
}

func (f *fields) pathOf(name string) string {
	if name == "" {
		return f.path
	}
	return f.path + "." + name
}

func (f *fields) has(name string) bool {
	raw, ok := f.raw[name]
	return ok && !isNull(raw)
}

func isNull(data []byte) bool { return string(data) == "null" }

func (f *fields) text(name string) (s string) {
	if f.has(name) && json.Unmarshal(f.raw[name], &s) != nil {
		f.problem(name, "is "+jsonType(f.raw[name])+": a string is needed")
	}
	return s
}

// integer parses a whole number from 0 to 2^31-1, the same range as in Kubernetes.
func (f *fields) integer(name string, otherwise int) int {
	if !f.has(name) {
		return otherwise
	}
	raw := string(f.raw[name])
	n, err := strconv.ParseInt(raw, 10, 64)
	switch {
	case err != nil:
		f.problem(name, fmt.Sprintf("is %s: a whole number is needed", shown(raw)))
	case n < 0:
		f.problem(name, fmt.Sprintf("is %d: it cannot be negative", n))
	case n > math.MaxInt32:
		f.problem(name, fmt.Sprintf("is %d: at most %d is accepted", n, math.MaxInt32))
	default:
		return int(n)
	}
	return otherwise
}

func (f *fields) seconds(name string, otherwise int) time.Duration {
	return time.Duration(f.integer(name, otherwise)) * time.Second
}

// port parses the field "port", which is a number or a string of digits. The parameter
// otherwise is the default, which port returns if the field is absent, 0, "" or invalid.
func (f *fields) port(otherwise int) int {
	port := otherwise
	if f.has("port") {
		raw := strings.TrimSpace(string(f.raw["port"]))
		var s string
		if raw[0] == '"' && json.Unmarshal([]byte(raw), &s) == nil {
			raw = s
			if raw == "" {
				raw = "0"
			}
		}
		n, err := strconv.ParseInt(raw, 10, 32)
		switch {
		case err != nil && raw == s && !errors.Is(err, strconv.ErrRange):
			f.problem("port", fmt.Sprintf("is %s: a named port cannot be resolved here, give its number", shown(raw)))
			return otherwise
		case err != nil || n < 0 || n > 65535:
			f.problem("port", fmt.Sprintf("is %s: a port from 1 to 65535 is needed", shown(raw)))
			return otherwise
		case n > 0:
			port = int(n)
		}
	}
	if port < 1 || port > 65535 {
		f.problem("port", "is absent: a port from 1 to 65535 is needed")
	}
	return port
}

func (f *fields) host() string {
	host := f.text("host")
	if host == "" {
		return defaultHost
	}
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		host = inner[:len(inner)-1]
	}
	_, notAddress := netip.ParseAddr(host)
	odd := strings.ContainsFunc(host, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`/\@?#%[]"<>`, r)
	})
	if host == "" || odd || notAddress != nil && strings.Contains(host, ":") {
		f.problem("host", "is not a host name or an address")
		return defaultHost
	}
	return host
}

func (f *fields) headers(name string) []check.Header {
	if !f.has(name) {
		return nil
	}
	var elements []json.RawMessage
	if json.Unmarshal(f.raw[name], &elements) != nil {
		f.problem(name, "is "+jsonType(f.raw[name])+": an array is needed")
		return nil
	}
	headers := make([]check.Header, 0, len(elements))
	for i, element := range elements {
		h := readObject(fmt.Sprintf("%s[%d]", f.pathOf(name), i), element)
		header := check.Header{Name: h.text("name"), Value: h.text("value")}
		if h.raw != nil && !gate.IsName(header.Name) {
			h.problem("name", "is not a header name")
		}
		if !check.ValidValue(header.Value) {
			h.problem("value", "has a control byte, which no header may have")
		}
		f.take(h)
		headers = append(headers, header)
	}
	return headers
}

// jsonType returns the type of a valid JSON value with an article, for error messages.
func jsonType(data []byte) string {
	switch bytes.TrimSpace(data)[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func shown(s string) string {
	const longest = 40
	if len(s) > longest {
		s = s[:longest] + "…"
	}
	return strconv.Quote(s)
}
