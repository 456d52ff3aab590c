package gate

import (
	"fmt"
	"strings"
	"testing"
)

func TestForwardedIsGeneratedFromTheXForwardedFields(t *testing.T) {
	for _, c := range []struct {
		name        string
		lines       []string
		proto, host string
		want        string
	}{
		{"nothing from nothing", nil, "", "", ""},
		{"nothing from empty lines", []string{"", " \t", ",", " , "}, " ", "\t", ""},
		{"an address", []string{"192.0.2.1"}, "", "", "for=192.0.2.1"},
		{"each address of a line", []string{"192.0.2.1, 192.0.2.2,192.0.2.3"}, "", "", "for=192.0.2.1, for=192.0.2.2, for=192.0.2.3"},
		{"each line", []string{"192.0.2.1", "192.0.2.2, 192.0.2.3"}, "", "", "for=192.0.2.1, for=192.0.2.2, for=192.0.2.3"},
		{"without the empty ones", []string{"", ", 192.0.2.1 ,,", " "}, "", "", "for=192.0.2.1"},
		{"host and proto with the first address", []string{"1, 2"}, "https", "h", "for=1;host=h;proto=https, for=2"},
		{"host alone", nil, "", "h", "host=h"},
		{"proto alone", nil, "https", "", "proto=https"},
		{"host and proto without an address", []string{","}, "https", "h", "host=h;proto=https"},
		{"values without the white space around", nil, " https\t", "\th ", "host=h;proto=https"},
		{"IPv6 in brackets and quotes", []string{"2001:db8::1, ::1"}, "", "", `for="[2001:db8::1]", for="[::1]"`},
		{"IPv6 that has its brackets", []string{"[2001:db8::1]"}, "", "", `for="[2001:db8::1]"`},
		{"IPv6 with a port", []string{"[2001:db8::1]:443"}, "", "", `for="[2001:db8::1]:443"`},
		{"IPv6 with an address of IPv4 in it", []string{"::ffff:192.0.2.1"}, "", "", `for="[::ffff:192.0.2.1]"`},
		{"IPv4 with a port in quotes", []string{"192.0.2.1:80"}, "", "", `for="192.0.2.1:80"`},
		{"names that hide and names that are unknown", []string{"unknown, _hidden"}, "", "", "for=unknown, for=_hidden"},
		{"a host with a port in quotes", nil, "", "h:80", `host="h:80"`},
		{"a host that is an address in quotes", nil, "", "[::1]:80", `host="[::1]:80"`},
		{"quotes and backslashes escaped", nil, `a\b`, `h"x"`, `host="h\"x\"";proto="a\\b"`},
		{"an injection stays inside its quotes", []string{`1;proto=https`}, "", `h";for=evil;x="`, `for="1;proto=https";host="h\";for=evil;x=\""`},
		{"bytes beyond ASCII in quotes", nil, "", "h\xc3\xa9", "host=\"h\xc3\xa9\""},
		{"nothing that cannot be quoted", []string{"1\x00, 2, \x7f"}, "a\x01", "h\x1f", "for=2"},
		{"a first address that cannot be quoted passes host on", []string{"\x01", "2"}, "", "h", "for=2;host=h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := ForwardedInput{Proto: []byte(c.proto), Host: []byte(c.host)}
			for _, l := range c.lines {
				in.For = append(in.For, []byte(l))
			}
			if got := string(AppendForwarded([]byte("before "), in)); got != "before "+c.want {
				t.Errorf("got %q, want %q", got, "before "+c.want)
			}
		})
	}
}

// readForwarded parses a Forwarded value (RFC 7239 section 4). It returns the unquoted pairs
// of each element.
func readForwarded(s string) (elements [][]string, ok bool) {
	for s != "" {
		var pairs []string
		for more := true; more; {
			name, rest, found := strings.Cut(s, "=")
			if !found || name != "for" && name != "host" && name != "proto" {
				return nil, false
			}
			value := ""
			if strings.HasPrefix(rest, `"`) {
				i := 1
				for ; i < len(rest) && rest[i] != '"'; i++ {
					if rest[i] == '\\' {
						i++
					}
					if i < len(rest) {
						value += rest[i : i+1]
					}
				}
				if i >= len(rest) {
					return nil, false
				}
				s = rest[i+1:]
			} else {
				end := strings.IndexAny(rest, ",;")
				if end < 0 {
					end = len(rest)
				}
				for _, b := range []byte(rest[:end]) {
					if !strings.ContainsRune("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", rune(b)) {
						return nil, false
					}
				}
				if end == 0 {
					return nil, false
				}
				value, s = rest[:end], rest[end:]
			}
			pairs = append(pairs, name+"="+value)
			s, more = strings.CutPrefix(s, ";")
		}
		elements = append(elements, pairs)
		if s == "" {
			break
		}
		if s, ok = strings.CutPrefix(s, ", "); !ok || s == "" {
			return nil, false
		}
	}
	return elements, true
}

// FuzzForwarded checks that any value in the X-Forwarded fields appears in Forwarded as
// the same value and nothing else.
func FuzzForwarded(f *testing.F) {
	f.Add("192.0.2.1, ::1", "[::1]:80", "https", "h:80")
	f.Add(`1;for=2, "3"`, `a"b\`, `x", for="y`, "\x00")
	f.Add(`\`, `"`, `\"`, ` " `)
	f.Fuzz(func(t *testing.T, one, two, proto, host string) {
		got := string(AppendForwarded(nil, ForwardedInput{For: [][]byte{[]byte(one), []byte(two)}, Proto: []byte(proto), Host: []byte(host)}))
		elements, ok := readForwarded(got)
		if !ok {
			t.Fatalf("not a Forwarded value: %q", got)
		}
		var want []string
		for node := range strings.SplitSeq(one+","+two, ",") {
			node = strings.Trim(node, " \t")
			if node == "" || !printable(node) {
				continue
			}
			if strings.Count(node, ":") >= 2 && node[0] != '[' && node[0] != '"' {
				node = "[" + node + "]"
			}
			want = append(want, "for="+node)
		}
		var origin []string
		if h := strings.Trim(host, " \t"); h != "" && printable(h) {
			origin = append(origin, "host="+h)
		}
		if p := strings.Trim(proto, " \t"); p != "" && printable(p) {
			origin = append(origin, "proto="+p)
		}
		for i, e := range elements {
			switch {
			case i == 0 && len(want) == 0:
				e = append([]string{""}, e...)
			case i >= max(1, len(want)) || e[0] != want[i]:
				t.Fatalf("element %d of %q: %q, want %q", i, got, e, want)
			}
			if rest := strings.Join(e[1:], "|"); i == 0 && rest != strings.Join(origin, "|") || i > 0 && rest != "" {
				t.Fatalf("element %d of %q: %q, want %q", i, got, rest, origin)
			}
		}
		if len(want)+len(origin) > 0 && len(elements) != max(1, len(want)) {
			t.Fatalf("%d elements in %q, want %q, %q", len(elements), got, want, origin)
		}
	})
}

func printable(s string) bool {
	for _, b := range []byte(s) {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

func TestForwardedContainsTheLast256Addresses(t *testing.T) {
	var lines [][]byte
	var want []string
	for i := range 1000 {
		if node := fmt.Sprintf("10.0.%d.%d", i/250, i%250); i%3 == 0 {
			lines = append(lines, []byte(node))
		} else {
			last := len(lines) - 1
			lines[last] = append(append(lines[last], ", "...), node...)
		}
		if i >= 1000-256 {
			want = append(want, fmt.Sprintf("for=10.0.%d.%d", i/250, i%250))
		}
	}
	want[0] += ";host=h"
	long := []byte(strings.Repeat("x", 2000))
	got := string(AppendForwarded(nil, ForwardedInput{For: lines, Host: []byte("h"), Proto: long}))
	if got != strings.Join(want, ", ") {
		t.Errorf("got  %s\nwant %s", got, strings.Join(want, ", "))
	}
	if got := string(AppendForwarded(nil, ForwardedInput{For: [][]byte{long, []byte("a")}})); got != "for=a" {
		t.Errorf("with an address of 2,000 bytes: %.80s", got)
	}
}
