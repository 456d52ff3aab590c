package h2

import (
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// headOf returns lines as a decoded Head.
func headOf(t testing.TB, lines []line) *Head {
	t.Helper()
	var b []byte
	for _, l := range lines {
		b = append(b, 0)
		b = append(append(appendInt(b, 0, 7, len(l.name)), l.name...), appendInt(nil, 0, 7, len(l.value))...)
		b = append(b, l.value...)
	}
	h := new(Head)
	if err := new(Decoder).Decode(b, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// with returns the lines of a GET request, changed as follows. A pseudo-field in the
// parameter more replaces the line with the same name. If its value is "-", that line is
// removed. Other lines are added.
func with(more ...line) []line {
	lines := []line{{":method", "GET"}, {":scheme", "http"}, {":authority", "a.example"}, {":path", "/"}}
	for _, m := range more {
		i := slices.IndexFunc(lines, func(l line) bool { return l.name == m.name && m.name[0] == ':' })
		switch {
		case i >= 0 && m.value == "-":
			lines = slices.Delete(lines, i, i+1)
		case i >= 0:
			lines[i] = m
		case strings.HasPrefix(m.name, ":"):
			lines = slices.Insert(lines, 0, m)
		default:
			lines = append(lines, m)
		}
	}
	return lines
}

func TestInvalidRequestHeadsAreRejected(t *testing.T) {
	for _, c := range []struct {
		what  string
		lines []line
		want  *Error
	}{
		{"a GET", with(), nil},
		{"pseudo-fields in another order", []line{{":path", "/"}, {":authority", "a"}, {":method", "GET"}, {":scheme", "https"}}, nil},
		{"no :method", with(line{":method", "-"}), errMethod},
		{"empty :method", with(line{":method", ""}), errMethod},
		{":method with a space", with(line{":method", "GET /x"}), errMethod},
		{"no :scheme", with(line{":scheme", "-"}), errScheme},
		{"empty :scheme", with(line{":scheme", ""}), errScheme},
		{":scheme with a colon", with(line{":scheme", "http:"}), errScheme},
		{":scheme that begins with a digit", with(line{":scheme", "1http"}), errScheme},
		{"another scheme", with(line{":scheme", "coap+tcp"}), nil},
		{"no :path", with(line{":path", "-"}), errPath},
		{"empty :path", with(line{":path", ""}), errPath},
		{":path without a slash", with(line{":path", "x"}), errPath},
		{":path in absolute form", with(line{":path", "http://a/"}), errPath},
		{":path with a space", with(line{":path", "/?a HTTP/1.1"}), errPath},
		{":path with a tab", with(line{":path", "/\ta"}), errPath},
		{":path with a line end", with(line{":path", "/\r\nX: y"}), errValue},
		{":path with DEL", with(line{":path", "/\x7f"}), errValue},
		{":path with a fragment", with(line{":path", "/a#b"}), errPath},
		{":path with a fragment after the query", with(line{":path", "/a?b#c"}), errPath},
		{":path with half a triplet", with(line{":path", "/%4"}), errPath},
		{":path with a triplet that is none", with(line{":path", "/%4g"}), errPath},
		{":path with triplets", with(line{":path", "/%2F%00%e2"}), nil},
		{":path with a percent sign in its query", with(line{":path", "/?100%&%zz"}), nil},
		{":path with what should have been encoded", with(line{":path", "/\"<>^{}\\|\xc3\xa9"}), nil},
		{":path with two question marks, dots and slashes", with(line{":path", "//../a;b?c??d=/?"}), nil},
		{"asterisk of OPTIONS", with(line{":method", "OPTIONS"}, line{":path", "*"}), nil},
		{"asterisk of GET", with(line{":path", "*"}), errPath},
		{"two asterisks", with(line{":method", "OPTIONS"}, line{":path", "**"}), errPath},
		{"an asterisk in a path", with(line{":path", "/*"}), nil},
		{"no :authority", with(line{":authority", "-"}), nil},
		{"empty :authority", with(line{":authority", ""}), nil},
		{":authority with a port", with(line{":authority", "[::1]:8080"}), nil},
		{":authority with a user", with(line{":authority", "u@a.example"}), errAuthority},
		{":authority with a path", with(line{":authority", "a.example/x"}), errAuthority},
		{":authority with a space", with(line{":authority", "a b"}), errAuthority},
		{"Host alone", with(line{":authority", "-"}, line{"host", "b.example"}), nil},
		{"empty Host alone", with(line{":authority", "-"}, line{"host", ""}), nil},
		{"Host alone that is none", with(line{":authority", "-"}, line{"host", "b/x"}), errAuthority},
		{"the same Host", with(line{"host", "a.example"}), nil},
		{"the same Host in another case", with(line{"host", "A.Example"}), nil},
		{"the same Host with the port of the scheme", with(line{"host", "a.example:80"}), nil},
		{"the same Host with a colon", with(line{"host", "a.example:"}), nil},
		{"the same Host with the port of another scheme", with(line{"host", "a.example:443"}), errTwoHosts},
		{"the same Host with the port of https", with(line{":scheme", "https"}, line{"host", "a.example:443"}), nil},
		{"the same Host with a Kelvin sign", with(line{":authority", "k"}, line{"host", "\u212a"}), errAuthority},
		{"another Host", with(line{"host", "b.example"}), errTwoHosts},
		{"empty Host with :authority", with(line{"host", ""}), errTwoHosts},
		{"Host with empty :authority", with(line{":authority", ""}, line{"host", "a.example"}), errTwoHosts},
		{"Host twice", with(line{"host", "a.example"}, line{"host", "a.example"}), errTwoHosts},
		{":method twice", append([]line{{":method", "GET"}}, with()...), errPseudoTwice},
		{":authority twice", append([]line{{":authority", "a.example"}}, with()...), errPseudoTwice},
		{":status", with(line{":status", "200"}), errPseudo},
		{"unknown pseudo-field", with(line{":version", "1"}), errName},
		{"unknown pseudo-field at the end", append(with(), line{":version", "1"}), errName},
		{"colon alone", append(with(), line{":", "1"}), errName},
		{"pseudo-field behind a field", append([]line{{"accept", "*/*"}}, with()...), errPseudoLate},
		{"name in upper case", with(line{"Accept", "*/*"}), errName},
		{"unknown name in upper case", with(line{"x-A", "*/*"}), errName},
		{"empty name", with(line{"", "x"}), errName},
		{"name with a space", with(line{"x ", "x"}), errName},
		{"name with a colon", with(line{"x:", "x"}), errName},
		{"name with a line end", with(line{"x\n", "x"}), errName},
		{"name with a byte beyond ASCII", with(line{"x\xe9", "x"}), errName},
		{"value with NUL", with(line{"x", "a\x00b"}), errValue},
		{"value with CR", with(line{"x", "a\rb"}), errValue},
		{"value with LF in the second eight", with(line{"x", "0123456789\n0"}), errValue},
		{"value with DEL", with(line{"x", "0123\x7f567"}), errValue},
		{"value with a control byte", with(line{"x", "\x01"}), errValue},
		{"value with a tab and bytes beyond ASCII", with(line{"x", "a\tb \x80\xff"}), nil},
		{"value that begins with a space", with(line{"x", " a"}), errValue},
		{"value that ends in a tab", with(line{"x", "a\t"}), errValue},
		{"empty value", with(line{"x", ""}), nil},
		{"connection", with(line{"connection", "close"}), errConnection},
		{"keep-alive", with(line{"keep-alive", "1"}), errConnection},
		{"proxy-connection", with(line{"proxy-connection", "close"}), errConnection},
		{"transfer-encoding", with(line{"transfer-encoding", "chunked"}), errConnection},
		{"upgrade", with(line{"upgrade", "websocket"}), errConnection},
		{"proxy-authorization", with(line{"proxy-authorization", "x"}), nil},
		{"te: trailers", with(line{"te", "trailers"}), nil},
		{"te: Trailers", with(line{"te", "Trailers"}), nil},
		{"te: gzip", with(line{"te", "gzip"}), errTE},
		{"te: trailers, gzip", with(line{"te", "trailers, gzip"}), errTE},
		{"Content-Length", with(line{"content-length", "9223372036854775807"}), nil},
		{"Content-Length of 2^63", with(line{"content-length", "9223372036854775808"}), errLength},
		{"Content-Length of 20 digits", with(line{"content-length", "00000000000000000003"}), errLength},
		{"Content-Length with a sign", with(line{"content-length", "+3"}), errLength},
		{"negative Content-Length", with(line{"content-length", "-1"}), errLength},
		{"hexadecimal Content-Length", with(line{"content-length", "0x3"}), errLength},
		{"empty Content-Length", with(line{"content-length", ""}), errLength},
		{"Content-Length in a list", with(line{"content-length", "3, 3"}), errLength},
		{"Content-Length twice", with(line{"content-length", "3"}, line{"content-length", "3"}), nil},
		{"two Content-Lengths", with(line{"content-length", "3"}, line{"content-length", "4"}), errLength},
		{"CONNECT", []line{{":method", "CONNECT"}, {":authority", "a:443"}}, nil},
		{"CONNECT without :authority", []line{{":method", "CONNECT"}}, errConnect},
		{"CONNECT with :path", []line{{":method", "CONNECT"}, {":authority", "a:443"}, {":path", "/"}}, errConnect},
		{"CONNECT with :scheme", []line{{":method", "CONNECT"}, {":authority", "a:443"}, {":scheme", "http"}}, errConnect},
		{"extended CONNECT", with(line{":method", "CONNECT"}, line{":protocol", "websocket"}), nil},
		{":protocol of GET", with(line{":protocol", "websocket"}), errProtocol},
		{":protocol that is no token", with(line{":method", "CONNECT"}, line{":protocol", "web socket"}), errProtocol},
		{"empty :protocol", with(line{":method", "CONNECT"}, line{":protocol", ""}), errProtocol},
		{"extended CONNECT without :authority", with(line{":method", "CONNECT"}, line{":protocol", "x"}, line{":authority", "-"}), errAuthority},
		{"extended CONNECT without :path", with(line{":method", "CONNECT"}, line{":protocol", "x"}, line{":path", "-"}), errPath},
		{"extended CONNECT without :scheme", with(line{":method", "CONNECT"}, line{":protocol", "x"}, line{":scheme", "-"}), errScheme},
		{"nothing", nil, errMethod},
	} {
		if got := headOf(t, c.lines).CheckRequest(); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestInvalidResponseHeadsAndTrailersAreRejected(t *testing.T) {
	for _, c := range []struct {
		what  string
		lines []line
		want  *Error
	}{
		{"200", []line{{":status", "200"}, {"x", "y"}}, nil},
		{"100", []line{{":status", "100"}}, nil},
		{"999", []line{{":status", "999"}}, nil},
		{"101", []line{{":status", "101"}}, errSwitching},
		{"099", []line{{":status", "099"}}, errStatus},
		{"20", []line{{":status", "20"}}, errStatus},
		{"2000", []line{{":status", "2000"}}, errStatus},
		{"2x0", []line{{":status", "2x0"}}, errStatus},
		{"no status", []line{{"x", "y"}}, errStatus},
		{"two of them", []line{{":status", "200"}, {":status", "200"}}, errPseudoTwice},
		{"status behind a field", []line{{"x", "y"}, {":status", "200"}}, errPseudoLate},
		{":path", []line{{":status", "200"}, {":path", "/"}}, errPseudo},
		{"connection", []line{{":status", "200"}, {"connection", "close"}}, errConnection},
		{"value with LF", []line{{":status", "200"}, {"x", "a\nb"}}, errValue},
		{"lengths", []line{{":status", "200"}, {"content-length", "1"}, {"content-length", "2"}}, errLength},
		{"Content-Length", []line{{":status", "200"}, {"content-length", "7"}}, nil},
	} {
		h := headOf(t, c.lines)
		if got := h.CheckResponse(); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		} else if got == nil && (h.Status < 100 || h.Regular != 1) {
			t.Errorf("%s: status %d, first field %d", c.what, h.Status, h.Regular)
		}
	}
	for _, c := range []struct {
		what  string
		lines []line
		want  *Error
	}{
		{"grpc-status", []line{{"grpc-status", "0"}}, nil},
		{"none", nil, nil},
		{":status", []line{{"x", "y"}, {":status", "200"}}, errPseudoLate},
		{":path", []line{{":path", "/"}}, errPseudo},
		{"transfer-encoding", []line{{"transfer-encoding", "chunked"}}, errConnection},
		{"upper case", []line{{"X", "y"}}, errName},
	} {
		if got := headOf(t, c.lines).CheckTrailers(); got != c.want {
			t.Errorf("trailers with %s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestTheAccessorsOfAHeadReturnItsFields(t *testing.T) {
	h := headOf(t, []line{{":method", "POST"}, {":path", "/a?b"}, {":scheme", "https"}, {":authority", "a.example:8443"},
		{"b", "1"}, {"content-length", "12"}, {"k-gate-outcome", "x"}, {"a", ""}, {"x-forwarded-for", "::1"}, {"b", "2"}})
	if err := h.CheckRequest(); err != nil {
		t.Fatal(err)
	}
	var kept Head
	kept.CopyFrom(h)
	h.Reset()
	h = &kept
	for what, c := range map[string][2]string{
		"method": {string(h.Method()), "POST"}, "path": {string(h.Path()), "/a?b"}, "scheme": {string(h.Scheme()), "https"},
		"authority": {string(h.Authority()), "a.example:8443"}, "protocol": {string(h.Protocol()), ""},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %q, want %q", what, c[0], c[1])
		}
	}
	if h.Length != 12 || h.Regular != 4 || h.Size != 43+41+44+56+34+48+47+33+50+34 {
		t.Errorf("length %d, first field %d, size %d", h.Length, h.Regular, h.Size)
	}
	want := []line{{"b", "1"}, {"content-length", "12"}, {"k-gate-outcome", "x"}, {"a", ""}, {"x-forwarded-for", "::1"}, {"b", "2"}}
	var got []line
	h.Each(func(name, value []byte) bool {
		got = append(got, line{string(name), string(value)})
		return true
	})
	if !slices.Equal(got, want) {
		t.Errorf("fields are %q, want %q", got, want)
	}
	for i, kind := range []field.Kind{field.Other, field.Other, field.Other, field.Other, field.Other, field.ContentLength,
		field.Gate, field.Other, field.ForwardedFor, field.Other} {
		if h.Fields[i].Kind != kind {
			t.Errorf("kind of field %d is %d, want %d", i, h.Fields[i].Kind, kind)
		}
	}
	h = headOf(t, with(line{":authority", "-"}, line{"host", "b.example"}))
	if err := h.CheckRequest(); err != nil || string(h.Authority()) != "b.example" || h.Length != -1 {
		t.Errorf("%v, host %q, length %d", err, h.Authority(), h.Length)
	}
}

func TestHeaderListsAboveTheLimitAreRejected(t *testing.T) {
	h := headOf(t, with(line{"x", strings.Repeat("v", DefaultMaxList)}))
	if !h.TooLarge || h.CheckRequest() != errListTooLarge || h.CheckResponse() != errListTooLarge || h.CheckTrailers() != errListTooLarge {
		t.Errorf("too large %v, %v", h.TooLarge, h.CheckRequest())
	}
}

func TestInvalidFieldsAreRejectedEvenFromTheDynamicTable(t *testing.T) {
	var d Decoder
	var h Head
	for _, block := range []string{"\x40\x01X\x01v", "\x40\x01x\x01\n", "\x40\x02te\x01\n"} {
		if err := d.Decode([]byte(block), &h); err != nil {
			t.Fatal(err)
		}
		want := h.CheckTrailers()
		if err := d.Decode([]byte{0xbe}, &h); err != nil || want == nil || h.CheckTrailers() != want {
			t.Errorf("%q from the table: %v, %v, want %v", block, err, h.CheckTrailers(), want)
		}
	}
	// Here a field takes only its name from an entry of the dynamic table. It is invalid
	// if that name is invalid. The value of the entry does not matter.
	for _, c := range []struct {
		block string
		want  *Error
	}{{"\x40\x01X\x01v", errName}, {"\x40\x01x\x01\n", nil}} {
		d = Decoder{}
		d.Decode([]byte(c.block), &h)
		if err := d.Decode([]byte("\x0f\x2f\x01w"), &h); err != nil || h.CheckTrailers() != c.want {
			t.Errorf("name of %q: %v, %v, want %v", c.block, err, h.CheckTrailers(), c.want)
		}
	}
}

func TestATooLongTargetIsDistinguishedFromATooLargeHeaderList(t *testing.T) {
	long := strings.Repeat("v", DefaultMaxList)
	for what, c := range map[string]struct {
		lines []line
		want  bool
	}{
		"a target":                      {[]line{{":method", "GET"}, {":path", "/" + long}, {"x", "y"}}, true},
		"a target just beyond the rest": {[]line{{":authority", long[:DefaultMaxList/2]}, {":path", "/" + long[:DefaultMaxList/2]}}, true},
		"a field behind a target":       {[]line{{":path", "/" + long[:DefaultMaxList/2]}, {"x", long}}, false},
		"a target behind a field":       {[]line{{"x", long}, {":path", "/" + long}}, false},
	} {
		if h := headOf(t, c.lines); !h.TooLarge || h.TargetTooLong != c.want {
			t.Errorf("%s: too large %v, the target %v", what, h.TooLarge, h.TargetTooLong)
		}
	}
}
