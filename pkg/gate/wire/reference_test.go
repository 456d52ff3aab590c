package wire

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The reference parses complete messages in the simplest way, from the grammars of RFC
// 9110, 9112 and 3986. It shares no code with the engine and has no size limits.

type parseResult uint8

const (
	incomplete parseResult = iota // a continuation may be accepted
	rejected
	accepted
)

func (v parseResult) String() string { return [...]string{"incomplete", "rejected", "accepted"}[v] }

type refField struct{ name, value, line string } // name in lower case, line with its CRLF

type refHead struct {
	start  string
	fields []refField
	size   int
}

func (h *refHead) values(name string) (all []string) {
	for _, f := range h.fields {
		if f.name == name {
			all = append(all, f.value)
		}
	}
	return all
}

// elements splits the comma-separated values of all lines of a field.
func (h *refHead) elements(name string) (all []string) {
	for _, v := range h.values(name) {
		for e := range strings.SplitSeq(v, ",") {
			if e = strings.Trim(e, " \t"); e != "" {
				all = append(all, e)
			}
		}
	}
	return all
}

// listed counts the elements in the comma-separated values of the fields with these
// names. It also counts empty elements.
func (h *refHead) listed(names ...string) (n int) {
	for _, name := range names {
		for _, v := range h.values(name) {
			n += 1 + strings.Count(v, ",")
		}
	}
	return n
}

func (h *refHead) has(name, element string) bool {
	for _, e := range h.elements(name) {
		if asciiLower(e) == element {
			return true
		}
	}
	return false
}

// readReferenceHead checks only the syntax of lines.
func readReferenceHead(in string) (h refHead, v parseResult) {
	rest := in
	for first := true; ; first = false {
		line, after, found := strings.Cut(rest, "\n")
		if !found {
			return h, partial(rest, first)
		}
		rest = after
		line, crlf := strings.CutSuffix(line, "\r")
		switch {
		case !crlf:
			return h, rejected
		case first:
			if line == "" || !isRefToken(line[:1]) || !isRefText(line) {
				return h, rejected
			}
			h.start = line
		case line == "":
			h.size = len(in) - len(rest)
			return h, accepted
		default:
			f, ok := readRefField(line)
			if !ok {
				return h, rejected
			}
			h.fields = append(h.fields, f)
		}
	}
}

func readRefField(line string) (refField, bool) {
	name, value, colon := strings.Cut(line, ":")
	if !colon || !isRefToken(name) || !isRefText(value) {
		return refField{}, false
	}
	return refField{asciiLower(name), strings.Trim(value, " \t"), line + "\r\n"}, true
}

// repairReference repairs a complete head that readReferenceHead rejects, if RFC 9112
// permits it and the result is unambiguous.
func repairReference(in string) (clean, rest string, v parseResult) {
	var lines []string
	framing := func(name string) bool {
		name = asciiLower(name)
		return name == "content-length" || name == "transfer-encoding"
	}
	ending := "\n"
	if first, _, found := strings.Cut(in, "\n"); found && strings.HasSuffix(first, "\r") {
		ending = "\r\n"
	}
	for rest = in; ; {
		line, after, found := strings.Cut(rest, "\n")
		if !found {
			return "", "", incomplete
		}
		line, crlf := strings.CutSuffix(line, "\r")
		if crlf != (ending == "\r\n") || !isRefText(line) {
			return "", "", rejected
		}
		rest = after
		name, value, colon := strings.Cut(line, ":")
		name = strings.TrimRight(name, " \t")
		switch {
		case len(lines) == 0:
			if !strings.HasPrefix(line, "HTTP/1.") {
				return "", "", rejected
			}
		case line == "":
			return strings.Join(lines, "\r\n") + "\r\n\r\n", rest, accepted
		case line[0] == ' ' || line[0] == '\t':
			line = strings.Trim(line, " \t")
			last, _, _ := strings.Cut(lines[len(lines)-1], ":")
			if len(lines) == 1 || line == "" || framing(last) || colon && framing(strings.TrimLeft(name, " \t")) {
				return "", "", rejected
			}
			line = strings.TrimRight(lines[len(lines)-1], " \t") + " " + line
			lines = lines[:len(lines)-1]
		case !colon || !isRefToken(name) || framing(name) && line[len(name)] != ':':
			return "", "", rejected
		default:
			line = name + ":" + value
		}
		lines = append(lines, line)
	}
}

// partial reports whether an incomplete line could still become a start line or a field
// line.
func partial(line string, start bool) parseResult {
	text, _ := strings.CutSuffix(line, "\r")
	name, _, colon := strings.Cut(line, ":")
	switch {
	case text == "":
		return incomplete
	case !isRefText(text), start && !isRefToken(line[:1]), !start && name == "":
		return rejected
	case !start && !isRefToken(name), !start && !colon && text != line:
		return rejected
	}
	return incomplete
}

type refMessage struct {
	refHead
	// The request target is in two fields: sent is the target that the gate receives, and
	// target is the target that it forwards. The forwarded target is never in
	// absolute-form.
	method, sent, target, authority string
	host                            string // of the forwarded request; "" = the container's address
	minor, status                   int
	kind                            BodyKind
	length                          int64
	persistent                      bool
	upgrade                         bool
	repeated                        bool // Content-Length of a response was repeated
}

func readReferenceRequest(in string) (m refMessage, v parseResult) {
	m.refHead, v = readReferenceHead(in)
	if v != accepted {
		return m, v
	}
	parts := strings.Split(m.start, " ")
	if len(parts) != 3 || !isRefToken(parts[0]) || !m.readVersion(parts[2]) {
		return m, rejected
	}
	m.method, m.sent = parts[0], parts[1]
	if m.listed("connection") > 64 || m.listed("te", "upgrade") > 64 {
		return m, rejected
	}
	if m.method == "CONNECT" || !m.readTarget() || !m.readHost() || !m.readFraming() {
		return m, rejected
	}
	for _, e := range m.values("expect") {
		if m.minor > 0 && e != "" && asciiLower(e) != "100-continue" {
			return m, rejected
		}
	}
	if m.kind == BodyUntilClose {
		// A request without framing fields has no body. Only the body of a response can
		// end with the connection.
		m.kind = NoBody
	}
	m.persistence()
	for _, e := range m.elements("upgrade") {
		m.upgrade = m.upgrade || asciiLower(e) != "h2c" && m.minor > 0 && m.has("connection", "upgrade")
	}
	return m, accepted
}

func readReferenceResponse(in, method string) (m refMessage, v parseResult) {
	m.refHead, v = readReferenceHead(in)
	if v != accepted {
		return m, v
	}
	version, rest, _ := strings.Cut(m.start, " ")
	code, _, _ := strings.Cut(rest, " ")
	if !m.readVersion(version) || len(code) != 3 || !allBytes(code, isRefDigit) || code[0] == '0' || !m.readResponseFraming() {
		return m, rejected
	}
	if m.listed("connection") > 64 {
		return m, rejected
	}
	m.status, _ = strconv.Atoi(code)
	if method == "HEAD" || m.status < 200 || m.status == 204 || m.status == 304 {
		m.kind = NoBody
	}
	m.persistence()
	return m, accepted
}

// readVersion accepts HTTP/1.x.
func (m *refMessage) readVersion(s string) bool {
	minor, ok := strings.CutPrefix(s, "HTTP/1.")
	if !ok || len(minor) != 1 || !isRefDigit(minor[0]) {
		return false
	}
	if minor != "0" {
		m.minor = 1
	}
	return true
}

// readTarget parses the target in one of the forms of RFC 9112 section 3.2. It rejects
// the authority-form. It accepts bytes that RFC 3986 requires to be percent-encoded.
func (m *refMessage) readTarget() bool {
	t := m.sent
	if t == "" || strings.Contains(t, "\t") {
		return false
	}
	if t == "*" {
		m.target = t
		return m.method == "OPTIONS"
	}
	for _, scheme := range []string{"http://", "https://"} {
		if strings.HasPrefix(asciiLower(t), scheme) {
			t = t[len(scheme):]
			end := len(t)
			if i := strings.IndexAny(t, "/?"); i >= 0 {
				end = i
			}
			m.authority, t = t[:end], t[end:]
			if !isRefHost(m.authority) {
				return false
			}
			if t == "" || t[0] == '?' {
				t = "/" + t
			}
			break
		}
	}
	m.target = t
	path, _, _ := strings.Cut(t, "?")
	return t[0] == '/' && validEscapes(path)
}

// readHost evaluates Host and K-Original-Host.
func (m *refMessage) readHost() bool {
	hosts := m.values("host")
	if len(hosts) > 1 || len(hosts) == 0 && m.minor > 0 {
		return false
	}
	if len(hosts) == 1 {
		if m.host = hosts[0]; m.host != "" && !isRefHost(m.host) {
			return false
		}
	}
	if m.authority != "" {
		m.host = m.authority
	}
	for _, h := range m.values("k-original-host") {
		if h != "" {
			m.host = h
			return isRefHost(h)
		}
	}
	return true
}

// readFraming determines the framing of a request (RFC 9112 section 6.3). It rejects a
// repeated Content-Length, although a recipient may accept one with equal values.
func (m *refMessage) readFraming() bool { return m.frameBy(m.values("content-length")) }

// readResponseFraming determines the framing of a response (RFC 9112 section 6.3). It
// accepts a repeated Content-Length if all values are equal.
func (m *refMessage) readResponseFraming() bool {
	var lengths []string
	for _, v := range m.values("content-length") {
		for one := range strings.SplitSeq(v, ",") {
			lengths = append(lengths, strings.Trim(one, " \t"))
		}
	}
	m.repeated = len(lengths) > 1
	return m.frameBy(slices.Compact(lengths))
}

func (m *refMessage) frameBy(lengths []string) bool {
	codings := m.values("transfer-encoding")
	switch {
	case len(codings) > 0:
		m.kind = BodyChunked
		return len(codings) == 1 && len(lengths) == 0 && m.minor > 0 && asciiLower(codings[0]) == "chunked"
	case len(lengths) > 0:
		m.kind = BodyLength
		if len(lengths) > 1 || len(lengths[0]) > 19 || !allBytes(lengths[0], isRefDigit) {
			return false
		}
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		m.length = int64(n)
		return err == nil
	}
	m.kind = BodyUntilClose
	return true
}

// persistence follows RFC 9112 section 9.3.
func (m *refMessage) persistence() {
	m.persistent = m.kind != BodyUntilClose && !m.has("connection", "close") &&
		(m.minor > 0 || m.has("connection", "keep-alive"))
}

type refBody struct {
	payload  string
	trailers []refField
	size     int
	// The next fields describe input that net/http rejects although RFC 9112 section
	// 7.1.1 allows it.
	blanks  []int // positions of white space before a chunk extension
	longest int   // length of the longest line with a chunk size
	// excess is the number of framing bytes that net/http considers excessive. For each
	// chunk, net/http adds the length of the line with the chunk size. Then it subtracts
	// 16, and 2 for each byte of payload. The number is never negative.
	excess int
}

// readReferenceChunked parses chunked-body (RFC 9112 section 7.1). Extensions may be any
// text.
func readReferenceChunked(in string) (b refBody, v parseResult) {
	rest := in
	for {
		line, after, found := strings.Cut(rest, "\n")
		if !found {
			return b, partialSize(rest)
		}
		line, crlf := strings.CutSuffix(line, "\r")
		digits := line[:hexPrefix(line)]
		behind := strings.TrimLeft(line[len(digits):], " \t")
		if !crlf || digits == "" || len(digits) > 15 || !isRefText(line) ||
			behind == "" && len(digits) < len(line) || behind != "" && behind[0] != ';' {
			return b, rejected
		}
		if len(digits)+len(behind) < len(line) {
			b.blanks = append(b.blanks, len(in)-len(rest)+len(digits))
		}
		size, _ := strconv.ParseInt(digits, 16, 64)
		b.longest = max(b.longest, len(line))
		b.excess = max(0, b.excess+len(line)+2-16-2*int(min(size, 1<<40)))
		rest = after
		if size == 0 {
			break
		}
		n := int(min(size, int64(len(rest))))
		b.payload += rest[:n]
		switch rest = rest[n:]; {
		case int64(n) < size, rest == "", rest == "\r":
			return b, incomplete
		case rest[0] != '\r' || rest[1] != '\n':
			return b, rejected
		}
		rest = rest[2:]
	}
	for {
		line, after, found := strings.Cut(rest, "\n")
		if !found {
			return b, partial(rest, false)
		}
		line, crlf := strings.CutSuffix(line, "\r")
		if rest = after; crlf && line == "" {
			b.size = len(in) - len(rest)
			return b, accepted
		}
		f, ok := readRefField(line)
		if !crlf || !ok {
			return b, rejected
		}
		b.trailers = append(b.trailers, f)
	}
}

// partialSize reports whether an incomplete line could still become the first line of a
// chunk.
func partialSize(line string) parseResult {
	digits := line[:hexPrefix(line)]
	behind := line[len(digits):]
	ext := strings.TrimLeft(behind, " \t")
	extText, _ := strings.CutSuffix(ext, "\r")
	switch {
	case len(digits) > 15, digits == "" && behind != "":
		return rejected
	case behind == "", behind == "\r", ext == "":
		return incomplete
	case ext[0] != ';', !isRefText(extText):
		return rejected
	}
	return incomplete
}

func hexPrefix(s string) int {
	for i := range len(s) {
		if !isRefHex(s[i]) {
			return i
		}
	}
	return len(s)
}

// isRefHost reports whether s is a host with an optional port (uri-host [ ":" port ]).
// The host must not be empty. Its syntax is that of RFC 3986 section 3.2.2, and the
// syntax of IPv6 zones is that of RFC 6874.
func isRefHost(s string) bool {
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !isRefLiteral(s[1:end]) {
			return false
		}
		if port = s[end+1:]; port == "" {
			return true
		}
		if port[0] != ':' {
			return false
		}
		return allBytes(port[1:], isRefDigit)
	}
	host, port, _ = strings.Cut(s, ":")
	return host != "" && allBytes(port, isRefDigit) && validEscapes(host) &&
		allBytes(host, func(c byte) bool { return c == '%' || isRefHostByte(c) })
}

func isRefLiteral(s string) bool {
	if s != "" && s[0]|0x20 == 'v' {
		version, rest, dot := strings.Cut(s[1:], ".")
		return dot && version != "" && rest != "" && allBytes(version, isRefHex) &&
			allBytes(rest, func(c byte) bool { return c == ':' || isRefHostByte(c) })
	}
	address, zone, zoned := strings.Cut(s, "%25")
	a, err := netip.ParseAddr(address)
	return err == nil && a.Is6() && a.Zone() == "" &&
		(!zoned || zone != "" && validEscapes(zone) && allBytes(zone, func(c byte) bool {
			return c == '%' || isRefHostByte(c) && !strings.ContainsRune("!$&'()*+,;=", rune(c))
		}))
}

func isRefHostByte(c byte) bool {
	return isRefDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("-._~!$&'()*+,;=", c) >= 0
}

func validEscapes(s string) bool {
	for i, part := range strings.Split(s, "%") {
		if i > 0 && (len(part) < 2 || !isRefHex(part[0]) || !isRefHex(part[1])) {
			return false
		}
	}
	return true
}

func isRefToken(s string) bool {
	return s != "" && allBytes(s, func(c byte) bool {
		return isRefDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
	})
}

func isRefText(s string) bool {
	return allBytes(s, func(c byte) bool { return c == '\t' || c >= 0x20 && c != 0x7f })
}

func isRefDigit(c byte) bool { return c >= '0' && c <= '9' }

func isRefHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

func allBytes(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

// asciiLower converts only A to Z. strings.ToLower would turn the Kelvin sign into a k.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// Lists of field names. A name that ends in * is a prefix. The fields in refHopByHop are
// valid for one connection only. Connection cannot remove the fields in refProtected. The
// fields in refUntimely are not allowed as trailers.
var (
	refHopByHop = []string{"connection", "keep-alive", "proxy-connection", "proxy-authenticate",
		"proxy-authorization", "te", "transfer-encoding", "upgrade"}
	refProtected = []string{"host", "forwarded", "x-forwarded-*", "k-*", "content-*"}
	refUntimely  = []string{"host", "forwarded", "x-forwarded-*", "k-*", "content-*", "knative-serving-*",
		"trailer", "expect", "authorization", "connection", "keep-alive", "proxy-connection",
		"proxy-authenticate", "proxy-authorization", "te", "transfer-encoding", "upgrade"}
)

// refTrustedOnly lists fields that an application trusts, because it assumes that the
// platform has set them. A name that ends in * is a prefix.
var refTrustedOnly = []string{"forwarded", "x-forwarded-*", "x-real-ip", "x-request-start", "knative-serving-*", "k-proxy-request", "k-original-host"}

// trustedOnly reports whether a lower-case name is in refTrustedOnly. Each byte that is
// not a letter or a digit counts as a hyphen, because an application behind CGI cannot
// distinguish such bytes.
func trustedOnly(name string) bool {
	return among(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name), refTrustedOnly)
}

func among(name string, list []string) bool {
	for _, l := range list {
		if prefix, ok := strings.CutSuffix(l, "*"); name == l || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// named reports whether Connection removes the field.
func (h *refHead) named(name string) bool {
	return !among(name, refProtected) && !trustedOnly(name) && h.has("connection", name)
}
