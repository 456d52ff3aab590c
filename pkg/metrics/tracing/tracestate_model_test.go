//go:build !race

package tracing

import (
	"math/rand/v2"
	"strings"
	"testing"

	"go.opencensus.io/trace/tracestate"
)

// judged returns the result that readTracestate should return. It uses OpenCensus, which
// has its own implementation of tracestates.
func judged(v string) string {
	if len(v) > maxTracestate {
		return ""
	}
	var entries []tracestate.Entry
	for member := range strings.SplitSeq(v, ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue
		}
		key, value, _ := strings.Cut(member, "=")
		entries = append(entries, tracestate.Entry{Key: key, Value: value})
	}
	state, err := tracestate.New(nil, entries...)
	if err != nil {
		return ""
	}
	var members []string
	for _, e := range state.Entries() {
		members = append(members, e.Key+"="+e.Value)
	}
	return strings.Join(members, ",")
}

// many returns a tracestate with n members.
func many(n int) string {
	var members []string
	for i := range n {
		members = append(members, "k"+strings.Repeat("x", i/10)+string(rune('0'+i%10))+"=v")
	}
	return strings.Join(members, ",")
}

func TestATracestateIsRecordedIfEveryMemberIsWellFormed(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for v, want := range map[string]string{
		"":                             "",
		"a=b":                          "a=b",
		"a=b,c=d":                      "a=b,c=d",
		" a=b ,\tc=d\t":                "a=b,c=d",
		"a=b,, ,\t,c=d,":               "a=b,c=d",
		",":                            "",
		"a":                            "",
		"a=":                           "",
		"=b":                           "",
		"a=b,c":                        "",
		"a =b":                         "",
		"a= b":                         "a= b",
		"a=b c":                        "a=b c",
		"a=b=c":                        "",
		"a=b,a=c":                      "",
		"a=b,c=d,a=b":                  "",
		"A=b":                          "",
		"aB=b":                         "",
		"0a=b":                         "",
		"_a=b":                         "",
		"a0_-*/=!\"#+-./:;<>~":         "a0_-*/=!\"#+-./:;<>~",
		"a.b=c":                        "",
		"t@v=c":                        "t@v=c",
		"t@v=c,t@w=d,t=e":              "t@v=c,t@w=d,t=e",
		"t@v@w=c":                      "",
		"@v=c":                         "",
		"t@=c":                         "",
		"0t@v=c":                       "",
		"t@0v=c":                       "",
		"a=b\x7f":                      "",
		"a=b\tc":                       "",
		"a=é":                          "",
		"a=\xff":                       "",
		"é=a":                          "",
		"a=b\n":                        "",
		"a\n=b":                        "",
		"a=b\r":                        "",
		x(256) + "=v":                  x(256) + "=v",
		x(257) + "=v":                  "",
		x(241) + "@" + x(14) + "=v":    x(241) + "@" + x(14) + "=v",
		x(242) + "@" + x(14) + "=v":    "",
		x(241) + "@" + x(15) + "=v":    "",
		"a=" + x(256):                  "a=" + x(256),
		"a=" + x(257):                  "",
		many(32):                       many(32),
		many(33):                       "",
		many(32) + ", ,":               many(32),
		"a=" + x(253) + ",b=" + x(254): "a=" + x(253) + ",b=" + x(254), // 512 bytes
		"a=" + x(254) + ",b=" + x(254): "",
	} {
		if got := readTracestate([]byte(v)); got != want {
			t.Errorf("%q is recorded as %q, want %q", v, got, want)
		}
		if got := judged(v); got != want {
			t.Errorf("OpenCensus takes %q for %q, want %q", v, got, want)
		}
	}
}

// drawTracestate returns a random tracestate with mostly well-formed members.
func drawTracestate(r *rand.Rand) string {
	const anything = "az09_-*/@=, \t~!AZ.:\"\x1f\x7f\x80\xffé\n"
	some := func(alphabet string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(b)
	}
	length := func(longest int) int { // sometimes just below or just above the limit
		if r.IntN(12) == 0 {
			return longest - 2 + r.IntN(4)
		}
		return r.IntN(4)
	}
	var b strings.Builder
	for range 1 + r.IntN(1+r.IntN(40)) {
		key := "k" + some("ab09_-*/", length(255))
		if r.IntN(4) == 0 {
			key = "k" + some("ab09_-*/", length(240)) + "@v" + some("ab09", length(13))
		}
		member := key + "=" + some("ab ~!<>", length(255)) + "v"
		if r.IntN(60) == 0 {
			at := r.IntN(len(member) + 1)
			member = member[:at] + some(anything, r.IntN(3)) + member[at:]
		}
		b.WriteString(some(" \t", r.IntN(2)) + member + some(" \t", r.IntN(2)) + ",")
	}
	return b.String()
}

func TestATracestateIsParsedLikeInOpenCensus(t *testing.T) {
	const rounds = 10_000
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	taken := 0
	for range rounds {
		v := drawTracestate(r)
		got, want := readTracestate([]byte(v)), judged(v)
		if got != want {
			t.Fatalf("%q is recorded as %q, want %q (seed %d)", v, got, want, seed)
		}
		if got != "" {
			taken++
		}
	}
	if taken < rounds/10 || taken > rounds*9/10 {
		t.Errorf("%d of %d were well-formed: the draw is one-sided", taken, rounds)
	}
}

func FuzzReadTracestate(f *testing.F) {
	for _, v := range []string{"", "a=b,c@d=e", " a= b ,,\tc=d", "a=b,a=c", many(33), "a=\xff"} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		if got, want := readTracestate(v), judged(string(v)); got != want {
			t.Fatalf("%q is recorded as %q, want %q", v, got, want)
		}
	})
}
