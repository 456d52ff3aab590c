package h2

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

func TestTheHuffmanCodesAreThoseOfTheRFC(t *testing.T) {
	for c := range 256 {
		for _, s := range []string{string([]byte{byte(c)}), strings.Repeat(string([]byte{byte(c)}), 8)} {
			want := hpack.AppendHuffmanString(nil, s)
			got, how := appendDecoded([]byte("x"), want, len(s))
			if string(got) != "x"+s || how != decodedAll {
				t.Errorf("%x decodes to %q, %d, want %q", want, got, how, "x"+s)
			}
		}
	}
}

func TestHuffmanCodedStringsAreDecoded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		s := make([]byte, rng.IntN(100))
		spread := 1 + rng.IntN(256)
		for i := range s {
			s[i] = byte(rng.IntN(spread) + 0x20)
		}
		code := hpack.AppendHuffmanString(nil, string(s))
		got, how := appendDecoded(nil, code, len(s))
		if how != decodedAll || !bytes.Equal(got, s) {
			t.Fatalf("%q comes back as %q, %d", s, got, how)
		}
		if len(s) > 0 {
			if _, how := appendDecoded(nil, code, rng.IntN(len(s))); how != tooLong {
				t.Fatalf("%q within a limit is %d", s, how)
			}
		}
	}
}

func TestInvalidHuffmanCodesAreRejected(t *testing.T) {
	for what, code := range map[string]string{
		"eight bits of padding":                   "\x1f\xff", // a, padded by 3 + 8 bits
		"nothing but eight bits of padding":       "\xff",
		"padding of zeros":                        "\x18", // a, 000
		"the code for the end":                    "\xff\xff\xff\xff",
		"the code for the end after another":      "\x1f\xff\xff\xff\xff",
		"the code for the end before eight bytes": "\xff\xff\xff\xff\x1f\x1f\x1f\x1f\x1f\x1f\x1f\x1f",
		"a code that is cut short":                "\xff\xff\xfe",
	} {
		if got, how := appendDecoded(nil, []byte(code), 100); how != corrupt {
			t.Errorf("%s: %q, %d", what, got, how)
		}
	}
}
