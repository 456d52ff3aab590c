package h2

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

func TestTheEncoderIndexesRepeatedFields(t *testing.T) {
	var e Encoder
	dec := hpack.NewDecoder(4096, nil)
	sizes := []int{}
	for range 3 {
		var b []byte
		for _, l := range browserGet {
			b = e.AppendText(b, []byte(l.name), []byte(l.value))
		}
		sizes = append(sizes, len(b))
		fields, err := dec.DecodeFull(b)
		if err != nil || len(fields) != len(browserGet) {
			t.Fatal(err, fields)
		}
		for i, f := range fields {
			if (line{f.Name, f.Value}) != browserGet[i] || f.Sensitive {
				t.Errorf("%v, want %q", f, browserGet[i])
			}
		}
	}
	if sizes[2] != len(browserGet) {
		t.Errorf("blocks of %d bytes; the last one should have one for each field", sizes)
	}
}

func TestSecretsAreNotIndexed(t *testing.T) {
	for _, c := range []struct {
		name, value string
		never       bool
		tabled      bool
	}{
		{"authorization", "Bearer x", true, false}, {"proxy-authorization", "Basic x", true, false},
		{"cookie", "id=1", true, false}, {"cookie", "id=12345678901234567890", false, true},
		{"set-cookie", "id=12345678901234567890", false, false}, {"x-other", "v", false, true},
	} {
		var e Encoder
		var b []byte
		for range 3 {
			b = e.AppendText(b[:0], []byte(c.name), []byte(c.value))
		}
		if got := e.table.count == 1; got != c.tabled {
			t.Errorf("%s: %s is in the table: %v", c.name, c.value, got)
		}
		if got := b[0]&0xf0 == 0x10; got != c.never {
			t.Errorf("%s: %s is never indexed: %v", c.name, c.value, got)
		}
	}
}

func (e *Encoder) forward(dst []byte, h *Head, f *Field) []byte {
	return e.AppendField(dst, f.Name, h.NameOf(f), h.ValueOf(f), f.Sensitive())
}

func TestSensitiveFieldsRemainSensitiveWhenForwarded(t *testing.T) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, name := range []string{":method", "x-token", "accept", "te"} {
		enc.WriteField(hpack.HeaderField{Name: name, Value: "GET", Sensitive: true})
	}
	var d Decoder
	var h Head
	if err := d.Decode(b.Bytes(), &h); err != nil {
		t.Fatal(err)
	}
	var e Encoder
	dec := hpack.NewDecoder(4096, nil)
	for range 3 {
		var out []byte
		for i := range h.Fields {
			out = e.forward(out, &h, &h.Fields[i])
		}
		fields, err := dec.DecodeFull(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fields {
			if !f.Sensitive {
				t.Errorf("%v is no longer sensitive", f)
			}
		}
	}
	if e.table.count != 0 {
		t.Errorf("table has %q", e.table.lines())
	}
}

// Random lists are encoded with changing table sizes, and decoded by x/net and by this
// package.
func TestXNetAndTheGateDecodeTheOutputOfTheHPACKEncoder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	vocabulary := []string{"", "a", "gzip, deflate", "GET", "200", "404", strings.Repeat("long", 100), "0123456789", "x\x00\xff\n", "application/grpc"}
	for range 40 {
		var e Encoder
		theirs := hpack.NewDecoder(4096, nil)
		var d Decoder
		var h Head
		settings := DefaultSettings()
		for range 50 {
			if rng.IntN(8) == 0 {
				var p []byte
				last := uint32(0)
				for range 1 + rng.IntN(3) {
					last = []uint32{0, 50, 100, 1000, 4096, 1 << 20}[rng.IntN(6)]
					p = append(p, AppendSettings(nil, Setting{SettingHeaderTableSize, last})[FrameHeaderLen:]...)
				}
				c, err := settings.Apply(p, false)
				if err != nil {
					t.Fatal(err)
				}
				e.Apply(c, &settings)
				theirs.SetAllowedMaxDynamicTableSize(min(last, DefaultTableSize))
			}
			var b []byte
			var want []line
			for range rng.IntN(20) {
				name := names[1+rng.IntN(nameCount-1)]
				if rng.IntN(3) == 0 {
					name = "x-" + vocabulary[1+rng.IntN(2)]
				}
				value := vocabulary[rng.IntN(len(vocabulary))]
				if rng.IntN(10) == 0 {
					value = strings.Repeat("u", rng.IntN(3000))
				}
				want = append(want, line{name, value})
				b = e.AppendText(b, []byte(strings.ToUpper(name)), []byte(value))
			}
			fields, err := theirs.DecodeFull(b)
			if err != nil {
				t.Fatalf("x/net: %v", err)
			}
			var got []line
			for _, f := range fields {
				got = append(got, line{f.Name, f.Value})
			}
			if !slices.Equal(got, want) {
				t.Fatalf("x/net decoded %q, want %q", got, want)
			}
			if err := d.Decode(b, &h); err != nil || !slices.Equal(h.lines(), want) {
				t.Fatalf("the decoder returned %v, %q, want %q", err, h.lines(), want)
			}
			if len(b) == 0 {
				// This block has no fields. The encoder announces a changed table size
				// only before a field, so the two tables may still differ. Do not
				// compare them.
				continue
			}
			if !slices.Equal(d.table.lines(), e.table.lines()) || d.table.size != e.table.size {
				t.Fatalf("tables differ: %q and %q", d.table.lines(), e.table.lines())
			}
		}
	}
}
