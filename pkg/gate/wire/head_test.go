package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// fieldsOf returns a scanned head with the given field lines.
func fieldsOf(t *testing.T, lines ...string) *Head {
	t.Helper()
	h := new(Head)
	in := "GET / HTTP/1.1\r\n" + strings.Join(append(lines, "", ""), "\r\n")
	if complete, err := h.Scan([]byte(in)); !complete || err != nil {
		t.Fatalf("scanning %q: %v %v", in, complete, err)
	}
	return h
}

func TestAHeadEndsWithTheFirstEmptyLine(t *testing.T) {
	const in = "GET / HTTP/1.1\r\nA: b\r\n\r\nC: d\r\n\r\n"
	h := new(Head)
	complete, err := h.Scan([]byte(in))
	if !complete || err != nil || string(h.Raw) != in[:len("GET / HTTP/1.1\r\nA: b\r\n\r\n")] {
		t.Fatalf("got %v, %v, %q", complete, err, h.Raw)
	}
}

func TestWhiteSpaceAroundAValueIsNotPartOfIt(t *testing.T) {
	h := fieldsOf(t, "A: \t b \t c\t ", "B:", "C: ", "D:e", "E:\t\t")
	for i, want := range []string{"b \t c", "", "", "e", ""} {
		if got := string(h.value(&h.Fields[i])); got != want {
			t.Errorf("field %d: got %q, want %q", i, got, want)
		}
	}
}

// invalidFieldLines are field lines without their CRLF.
var invalidFieldLines = map[string]string{
	"a space before the colon":     "A : b",
	"a tab before the colon":       "A\t: b",
	"a folded line":                " b",
	"a line folded with a tab":     "\tb",
	"no name":                      ": b",
	"no colon":                     "A b",
	"no colon and no space":        "A",
	"a NUL in the value":           "A: b\x00",
	"a bare CR in the value":       "A: b\rc",
	"a CR at the end of the value": "A: b\r",
	"a CR instead of the value":    "A:\r",
	"a form feed":                  "A: \x0c",
	"a DEL in the value":           "A: b\x7f",
	"a byte of UTF-8 in the name":  "\xc3\xa9: b",
	"a quote in the name":          "\"A\": b",
	"a NUL in the name":            "A\x00: b",
}

func TestAnInvalidFieldLineIsRejected(t *testing.T) {
	for name, line := range invalidFieldLines {
		t.Run(name, func(t *testing.T) {
			h := new(Head)
			if complete, err := h.Scan([]byte("GET / HTTP/1.1\r\n" + line + "\r\n")); complete || err != ErrMalformed {
				t.Errorf("got %v, %v", complete, err)
			}
		})
	}
}

func TestABareLineFeedIsRejectedAnywhere(t *testing.T) {
	for _, in := range []string{"\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\n\n", "GET / HTTP/1.1\r\nA: b\n", "GET / HTTP/1.1\r\nA:\nb: c\r\n"} {
		if complete, err := new(Head).Scan([]byte(in)); complete || err != ErrMalformed {
			t.Errorf("%q: got %v, %v", in, complete, err)
		}
	}
}

func TestAnInvalidPartialHeadIsRejectedImmediately(t *testing.T) {
	for _, in := range []string{
		"\x16\x03\x01", "(", " ", "GET /\x00", "GET /\rx", "GET /\x7f", "GET /\x01 HTTP/1.1\r\nA",
		"GET / HTTP/1.1\r\nA: \x00", "GET / HTTP/1.1\r\nA: \rx", "GET / HTTP/1.1\r\n\rx", "GET / HTTP/1.1\r\nA: b\r\r",
		"GET / HTTP/1.1\r\n x", "GET / HTTP/1.1\r\nA ", "GET / HTTP/1.1\r\n:", "GET / HTTP/1.1\r\nA\r",
	} {
		for _, cuts := range [][]byte{nil, {1}} {
			if v, err := read(new(Request), in, cuts); v != rejected || err != ErrMalformed {
				t.Errorf("%q delivered by %v: %v, %v", in, cuts, v, err)
			}
		}
	}
}

func TestAValidPartialHeadIsIncomplete(t *testing.T) {
	for _, in := range []string{
		"", "G", "GET", "GET /", "GET / HTTP/1.1", "GET / HTTP/1.1\r", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n\r",
		"GET / HTTP/1.1\r\nA", "GET / HTTP/1.1\r\nA:", "GET / HTTP/1.1\r\nA:\r", "GET / HTTP/1.1\r\nA: b\tc\xff\r",
	} {
		for _, cuts := range [][]byte{nil, {1}} {
			if v, err := read(new(Request), in, cuts); v != incomplete {
				t.Errorf("%q delivered by %v: %v, %v", in, cuts, v, err)
			}
		}
	}
}

func padded(n int) string {
	const begin, end = "GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n"
	return begin + strings.Repeat("x", n-len(begin)-len(end)) + end
}

func TestAHeadOfOneMiBIsAcceptedAndOneByteMoreIsNot(t *testing.T) {
	for _, step := range [][]byte{nil, {255}} {
		if v, err := read(new(Request), padded(MaxHeadBytes)[:4<<10], step); v != incomplete {
			t.Fatalf("the beginning: %v, %v", v, err)
		}
	}
	if v, err := read(new(Request), padded(MaxHeadBytes)+"body", nil); v != accepted {
		t.Errorf("%d bytes: %v, %v", MaxHeadBytes, v, err)
	}
	for _, in := range []string{padded(MaxHeadBytes + 1), padded(MaxHeadBytes + 1)[:MaxHeadBytes]} {
		if v, err := read(new(Request), in, nil); v != rejected || err != ErrTooLarge {
			t.Errorf("%d bytes of a longer head: %v, %v", len(in), v, err)
		}
	}
	h := new(Head)
	in := []byte(padded(MaxHeadBytes))
	for _, n := range []int{1, MaxHeadBytes / 2, MaxHeadBytes - 1, MaxHeadBytes} {
		complete, err := h.Scan(in[:n])
		if complete != (n == MaxHeadBytes) || err != nil {
			t.Errorf("%d bytes: %v, %v", n, complete, err)
		}
	}
}

func TestAStartLineAboveTheLimitIsRejectedAsATooLongTarget(t *testing.T) {
	target := "GET /" + strings.Repeat("x", MaxHeadBytes)
	for _, in := range []string{target, target[:MaxHeadBytes], target + " HTTP/1.1\r\n"} {
		if v, err := read(new(Request), in, nil); v != rejected || err != ErrLongTarget {
			t.Errorf("%d bytes: %v, %v", len(in), v, err)
		}
	}
}

func Test4096FieldsAreAcceptedAndOneMoreIsNot(t *testing.T) {
	head := "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("a:\r\n", MaxFields-1)
	if v, err := read(new(Request), head+"\r\n", nil); v != accepted {
		t.Errorf("%d fields: %v, %v", MaxFields, v, err)
	}
	if v, err := read(new(Request), head+"a:\r\n", nil); v != rejected || err != ErrTooLarge {
		t.Errorf("%d fields: %v, %v", MaxFields+1, v, err)
	}
}

func TestResettingAHeadReleasesTheMemoryOfManyFields(t *testing.T) {
	h := fieldsOf(t, strings.Split(strings.Repeat("a:\n", 1000)+"a:", "\n")...)
	if h.reset(); cap(h.Fields) > 256 {
		t.Errorf("capacity for %d fields is kept", cap(h.Fields))
	}
	h = fieldsOf(t, "a:")
	if h.reset(); cap(h.Fields) == 0 || len(h.Fields) != 0 {
		t.Errorf("after a small head, capacity for %d fields, %d in use", cap(h.Fields), len(h.Fields))
	}
}

func naiveIsText(b []byte) bool {
	for _, c := range b {
		if c != 9 && (c < 32 || c == 127) {
			return false
		}
	}
	return true
}

func TestIsTextMatchesANaiveImplementationAtEachPosition(t *testing.T) {
	for size := range 26 {
		for _, filler := range []byte{'a', ' ', '\t', 0x80, 0xff, 0x7e, 0x20, 0x21} {
			b := bytes.Repeat([]byte{filler}, size)
			for at := range size {
				for c := range 256 {
					b[at] = byte(c)
					if got, want := field.IsText(b), naiveIsText(b); got != want {
						t.Fatalf("field.IsText(%q) = %v", b, got)
					}
				}
				b[at] = filler
			}
		}
	}
}

func TestIsTextMatchesANaiveImplementationForPairsOfBytes(t *testing.T) {
	// IsText subtracts from eight bytes at once. A borrow must neither hide an invalid
	// byte nor reject a valid one.
	b := []byte("xxxxxxxx")
	for i := range 1 << 16 {
		for _, at := range []int{0, 3, 6} {
			b[at], b[at+1] = byte(i), byte(i>>8)
			if got, want := field.IsText(b), naiveIsText(b); got != want {
				t.Fatalf("field.IsText(%q) = %v", b, got)
			}
			b[at], b[at+1] = 'x', 'x'
		}
	}
}

func TestEmptyElementsOfConnectionAreNotOptions(t *testing.T) {
	for in, want := range map[string]string{
		"": "", ",": "", " , ,\t": "", "a": "a", " a ": "a", "a,b": "a|b", ",a ,, b c\t,": "a|b c", "a;q=1,b": "a;q=1|b",
	} {
		var got []string
		eachOption([]byte(in), func(e []byte) bool { got = append(got, string(e)); return true })
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%q: got %q, want %q", in, s, want)
		}
	}
}

func TestConnectionOptionsAreParsedInAnyCaseAndOverSeveralLines(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  Connection
	}{
		{nil, Connection{}},
		{[]string{"Connection:"}, Connection{}},
		{[]string{"Connection: close"}, Connection{Close: true}},
		{[]string{"connection: CLOSE"}, Connection{Close: true}},
		{[]string{"Connection: Keep-Alive"}, Connection{KeepAlive: true}},
		{[]string{"Connection: keep-alive, Upgrade"}, Connection{KeepAlive: true, Upgrade: true}},
		{[]string{"Connection: keep-alive", "CONNECTION: ,close"}, Connection{KeepAlive: true, Close: true}},
		{[]string{"Connection: x,\ty , close"}, Connection{Close: true}},
		{[]string{"Connection: closed, xclose, close x, c\u017fose"}, Connection{}},
		{[]string{"Connection: \"close\""}, Connection{}},
	} {
		h := fieldsOf(t, c.lines...)
		if got, _ := h.readConnection(); got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.lines, got, c.want)
		}
	}
}

func TestFieldsNamedInTheConnectionFieldAreRemovedUnlessProtected(t *testing.T) {
	for _, c := range []struct {
		name, names, field string
		drop               bool
	}{
		{"a named field goes", "x-once", "X-Once: 1", true},
		{"in any case", "X-ONCE", "x-oncE: 1", true},
		{"wherever the name stands", "close, a ,x-once\t,", "X-Once: 1", true},
		{"a field that is not named stays", "x-onc, x-once2", "X-Once: 1", false},
		{"a quoted name is no name", `"x-once"`, "X-Once: 1", false},
		{"Cookie can be named", "cookie", "Cookie: a", true},
		{"Authorization can be named", "authorization", "Authorization: a", true},
		{"Host cannot", "Host", "Host: a", false},
		{"Forwarded cannot", "forwarded", "Forwarded: a", false},
		{"X-Forwarded-For cannot", "x-forwarded-for", "X-Forwarded-For: a", false},
		{"X-Forwarded-Proto cannot", "X-FORWARDED-PROTO", "X-Forwarded-Proto: a", false},
		{"K-Network-Probe cannot", "k-network-probe", "K-Network-Probe: a", false},
		{"K-Proxy-Request cannot", "K-Proxy-Request", "K-Proxy-Request: a", false},
		{"Content-Length cannot", "content-length", "Content-Length: 1", false},
		{"Content-Type cannot", "content-type", "Content-Type: a/b", false},
		{"Host cannot with a long s", "Ho\u017ft", "Host: a", false},
		{"K fields cannot with a Kelvin sign", "\u212a-network-probe", "K-Network-Probe: a", false},
		{"no other field can with a Kelvin sign", "coo\u212aie", "Cookie: a", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			few := fieldsOf(t, c.field, "Connection: "+c.names)
			many := fieldsOf(t, "Connection: 1, 2, 3, 4, 5, 6, 7, 8, 9", "Connection: "+c.names, c.field)
			few.readConnection()
			many.readConnection()
			wantSame(t, "drop", few.Fields[0].out == dropped, c.drop)
			wantSame(t, "drop, named among many", many.Fields[2].out == dropped, c.drop)
		})
	}
}

func Test64ConnectionOptionsAreAcceptedAndOneMoreIsNot(t *testing.T) {
	lines := []string{"A: x", "Connection: close"}
	for i := range 63 {
		lines[1] += fmt.Sprintf(",x-%d", i)
		lines = append(lines, fmt.Sprintf("X-%d: y", i), fmt.Sprintf("X-%dx: y", i))
	}
	h := fieldsOf(t, lines...)
	if _, ok := h.readConnection(); !ok {
		t.Fatal("64 options are too many")
	}
	for i := range h.Fields {
		if want := i > 1 && i%2 == 0; (h.Fields[i].out == dropped) != want {
			t.Fatalf("field %q: drop %v", h.name(&h.Fields[i]), h.Fields[i].out)
		}
	}
	for _, more := range []string{"keep-alive", "x-1", "x,", ""} {
		h := fieldsOf(t, append(lines, "Connection: "+more)...)
		if _, ok := h.readConnection(); ok {
			t.Errorf("%q with 64 options is accepted", more)
		}
	}
	h = fieldsOf(t, "Connection: "+strings.Repeat(",", 64))
	if _, ok := h.readConnection(); ok {
		t.Error("65 empty options are not too many")
	}
}

func TestEachHeadErrorHasItsStatus(t *testing.T) {
	for err, want := range map[error]int{
		ErrMalformed: 400, ErrTooLarge: 431, ErrLongTarget: 414, ErrVersion: 505, ErrCoding: 501,
		ErrExpectation: 417, ErrMethod: 405, fmt.Errorf("anything else"): 400,
	} {
		if got := OutcomeOf(err).Meaning().Status; got != want {
			t.Errorf("%v: status %d, want %d", err, got, want)
		}
	}
}

func TestNameHashesIgnoreOnlyCase(t *testing.T) {
	var all [256]byte
	for c := range all {
		all[c] = byte(c)
	}
	for n := range 40 {
		for at := 0; at+n <= len(all); at++ {
			name := all[at : at+n]
			if hashFold(name) != hashFold([]byte(asciiLower(string(name)))) {
				t.Errorf("%q has another hash in lower case", name)
			}
			for i := range n {
				other := bytes.Clone(name)
				other[i] ^= 0x20
				if equal := hashFold(name) == hashFold(other); equal != equalFold(name, other) {
					t.Errorf("%q and %q have the same hash: %v", name, other, equal)
				}
			}
		}
	}
}
