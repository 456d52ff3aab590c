package h2

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/http2/hpack"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (h *Head) lines() (all []line) {
	for i := range h.Fields {
		f := &h.Fields[i]
		all = append(all, line{string(h.NameOf(f)), string(h.ValueOf(f))})
	}
	return all
}

// lines returns the entries of a table, newest first.
func (t *table) lines() (all []line) {
	for i := range t.count {
		e := t.newest(i)
		all = append(all, line{string(t.name(e)), string(t.value(e))})
	}
	return all
}

// The examples of RFC 7541 appendix C are sequences of blocks on one connection, with the
// decoder's table after each block.
func TestTheExamplesOfRFC7541AreDecoded(t *testing.T) {
	type step struct {
		block  string
		fields []line
		table  []line
		size   int
	}
	get := func(scheme, path string, more ...line) []line {
		return append([]line{{":method", "GET"}, {":scheme", scheme}, {":path", path}, {":authority", "www.example.com"}}, more...)
	}
	authority, noCache, custom := line{":authority", "www.example.com"}, line{"cache-control", "no-cache"}, line{"custom-key", "custom-value"}
	requests := func(blocks ...string) []step {
		return []step{
			{blocks[0], get("http", "/"), []line{authority}, 57},
			{blocks[1], get("http", "/", noCache), []line{noCache, authority}, 110},
			{blocks[2], get("https", "/index.html", custom), []line{custom, noCache, authority}, 164},
		}
	}
	date := line{"date", "Mon, 21 Oct 2013 20:13:21 GMT"}
	later := line{"date", "Mon, 21 Oct 2013 20:13:22 GMT"}
	location, private := line{"location", "https://www.example.com"}, line{"cache-control", "private"}
	gzip := line{"content-encoding", "gzip"}
	cookie := line{"set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"}
	responses := func(blocks ...string) []step {
		return []step{
			{blocks[0], []line{{":status", "302"}, private, date, location}, []line{location, date, private, {":status", "302"}}, 222},
			{blocks[1], []line{{":status", "307"}, private, date, location}, []line{{":status", "307"}, location, date, private}, 222},
			{blocks[2], []line{{":status", "200"}, private, later, location, gzip, cookie}, []line{cookie, gzip, later}, 215},
		}
	}
	for _, c := range []struct {
		name  string
		table int
		steps []step
	}{
		{"C.2.1", 4096, []step{{"400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
			[]line{{"custom-key", "custom-header"}}, []line{{"custom-key", "custom-header"}}, 55}}},
		{"C.2.2", 4096, []step{{"040c 2f73 616d 706c 652f 7061 7468", []line{{":path", "/sample/path"}}, nil, 0}}},
		{"C.2.3", 4096, []step{{"1008 7061 7373 776f 7264 0673 6563 7265 74", []line{{"password", "secret"}}, nil, 0}}},
		{"C.2.4", 4096, []step{{"82", []line{{":method", "GET"}}, nil, 0}}},
		{"C.3", 4096, requests("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", "8286 84be 5808 6e6f 2d63 6163 6865",
			"8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65")},
		{"C.4", 4096, requests("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", "8286 84be 5886 a8eb 1064 9cbf",
			"8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf")},
		{"C.5", 256, responses("4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 54"+
			"6e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
			"4803 3330 37c1 c0bf",
			"88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970"+
				"7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31")},
		{"C.6", 256, responses("4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
			"4883 640e ffc1 c0bf",
			"88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			d.table.resize(c.table)
			var h Head
			for i, s := range c.steps {
				if err := d.Decode(unhex(t, s.block), &h); err != nil {
					t.Fatal(i, err)
				}
				if got := h.lines(); !slices.Equal(got, s.fields) {
					t.Errorf("block %d: %q, want %q", i, got, s.fields)
				}
				if got := d.table.lines(); !slices.Equal(got, s.table) || d.table.size != s.size {
					t.Errorf("table after block %d: %q of %d, want %q of %d", i, got, d.table.size, s.table, s.size)
				}
			}
			if c.name == "C.2.3" && !h.Fields[0].Sensitive() {
				t.Error("password is not sensitive")
			}
		})
	}
}

func TestTheIntegersOfRFC7541AreEncodedAndDecoded(t *testing.T) {
	for _, c := range []struct {
		n    int
		bits uint
		want string
	}{{10, 5, "\x0a"}, {1337, 5, "\x1f\x9a\x0a"}, {42, 8, "\x2a"}, {30, 5, "\x1e"}, {31, 5, "\x1f\x00"}, {1<<28 - 1, 7, "\x7f\x80\xff\xff\x7f"}} {
		got := appendInt(nil, 0, c.bits, c.n)
		if string(got) != c.want {
			t.Errorf("%d with %d bits is %x, want %x", c.n, c.bits, got, c.want)
		}
		if full := uint32(1<<c.bits - 1); len(got) > 1 {
			if n, rest, err := readMore(full, append(got[1:], 'x')); n != uint32(c.n) || string(rest) != "x" || err != nil {
				t.Errorf("%x is %d, %q, %v", got, n, rest, err)
			}
		}
	}
}

func TestInvalidHPACKBlocksAreRejected(t *testing.T) {
	for _, c := range []struct {
		what  string
		block string
		want  *Error
	}{
		{"index 0", "80", errIndex},
		{"index above the static table with an empty dynamic table", "be", errIndex},
		{"index far behind", "ff80 01", errIndex},
		{"name index behind", "7f 00 00", errIndex},
		{"integer without its end", "ff", errTruncated},
		{"integer without its end, later", "ff80", errTruncated},
		{"endless integer", "ffff ffff ffff 01", errInteger},
		{"literal that ends after the name", "400161", errTruncated},
		{"string longer than the block", "4003 6162", errTruncated},
		{"string without its length", "40", errTruncated},
		{"Huffman code with too much padding", "4001 6183 1fff ff", errHuffman},
		{"size update beyond the setting", "3fe2 1f", errSizeUpdate},
		{"size update behind a field", "8220", errSizeUpdate},
		{"size update alone", "20", nil},
		{"two size updates", "203f e11f 82", nil},
	} {
		var d Decoder
		var h Head
		if got := d.Decode(unhex(t, c.block), &h); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestHeaderListsAboveTheLimitKeepTheTableSynchronized(t *testing.T) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := range 40 {
		enc.WriteField(hpack.HeaderField{Name: "x-" + strings.Repeat("n", i), Value: strings.Repeat("v", 100)})
	}
	enc.WriteField(hpack.HeaderField{Name: "authorization", Value: strings.Repeat("s", 100), Sensitive: true})
	enc.WriteField(hpack.HeaderField{Name: "last", Value: "one"})
	d := Decoder{MaxList: 2000}
	var h Head
	if err := d.Decode(b.Bytes(), &h); err != nil {
		t.Fatal(err)
	}
	if !h.TooLarge || h.TargetTooLong || h.Size < 5000 || len(h.Fields) < 10 || len(h.Fields) > 15 {
		t.Errorf("too large %v, size %d, %d fields stored", h.TooLarge, h.Size, len(h.Fields))
	}
	b.Reset()
	enc.WriteField(hpack.HeaderField{Name: "last", Value: "one"})
	if b.Len() != 1 {
		t.Fatalf("%d bytes for a field that is in the table", b.Len())
	}
	if err := d.Decode(b.Bytes(), &h); err != nil || h.TooLarge || !slices.Equal(h.lines(), []line{{"last", "one"}}) {
		t.Errorf("next block: %v, %v", err, h.lines())
	}
}

func TestManyReferencesToALargeEntryTakeBoundedMemory(t *testing.T) {
	var d Decoder
	var h Head
	insert := append([]byte{0x40, 1, 'x', 0x7f, 0xa1, 0x1e}, bytes.Repeat([]byte{'v'}, 4000)...)
	if err := d.Decode(insert, &h); err != nil || d.table.count != 1 {
		t.Fatal(err, d.table.count)
	}
	for _, c := range []struct {
		references int
		tooLarge   bool
		want       *Error
	}{{10, false, nil}, {30, true, nil}, {100, true, errListBomb}, {60000, true, errListBomb}} {
		err := d.Decode(bytes.Repeat([]byte{0xbe}, c.references), &h)
		if err != c.want || h.TooLarge != c.tooLarge {
			t.Errorf("%d references: %v, too large %v", c.references, err, h.TooLarge)
		}
		if n := len(h.text); n > DefaultMaxList {
			t.Errorf("%d references took %d bytes", c.references, n)
		}
	}
	// The first block inserts an entry whose name nearly fills the table. Each field of
	// the second block takes its name from the newest entry. It also inserts an entry,
	// which evicts the entry that had the name.
	d = Decoder{}
	if err := d.Decode(append([]byte{0x40, 0x7f, 0xa1, 0x1e}, append(bytes.Repeat([]byte{'n'}, 4000), 0)...), &h); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(bytes.Repeat([]byte{0x7e, 0}, 30000), &h); err != errListBomb {
		t.Errorf("entries that reuse a long name: %v", err)
	}
}

func TestTheMemoryOfAHeaderListIsBounded(t *testing.T) {
	long := bytes.Repeat([]byte{'a'}, 200<<10)
	code := hpack.AppendHuffmanString(nil, string(long)) // 125 KiB
	for what, block := range map[string][]byte{
		"long name":                  append(appendInt([]byte{0x00, 0x7f}[:1], 0, 7, len(long)), append(long, 0)...),
		"long value":                 append(appendInt([]byte{0x00, 1, 'n'}, 0, 7, len(long)), long...),
		"long Huffman name":          append(append(appendInt([]byte{0x40}, 0x80, 7, len(code)), code...), 0),
		"long Huffman value":         append(appendInt([]byte{0x40, 1, 'n'}, 0x80, 7, len(code)), code...),
		"long Huffman value, plain ": append(appendInt([]byte{0x00, 1, 'n'}, 0x80, 7, len(code)), code...),
	} {
		var d Decoder
		var h Head
		d.Decode([]byte{0x40, 1, 'x', 1, 'y'}, &h)
		if err := d.Decode(block, &h); err != nil || !h.TooLarge {
			t.Errorf("%s: %v, too large %v", what, err, h.TooLarge)
		}
		if n := cap(h.text); n > 2*(DefaultMaxList+2*DefaultTableSize) {
			t.Errorf("%s: %d bytes", what, n)
		}
		if want := block[0] == 0x00; (d.table.count == 1) != want {
			t.Errorf("%s: the table has %d entries", what, d.table.count)
		}
	}
}

func TestAHeaderListWithTooManyFieldsIsMarkedTooLarge(t *testing.T) {
	d := Decoder{MaxList: 1 << 20}
	var h Head
	block := bytes.Repeat([]byte{0x82}, MaxFields)
	if err := d.Decode(block, &h); err != nil || h.TooLarge {
		t.Errorf("%d: %v, too large %v", MaxFields, err, h.TooLarge)
	}
	if err := d.Decode(append(block, 0x82), &h); err != nil || !h.TooLarge || len(h.Fields) != MaxFields {
		t.Errorf("%d: %v, too large %v, %d stored", MaxFields+1, err, h.TooLarge, len(h.Fields))
	}
}

func TestTheDynamicTableAllocatesMemoryOnlyAsEntriesAreAdded(t *testing.T) {
	var d Decoder
	var h Head
	cold, _ := blocks(smallGet)
	const entrySize = int(unsafe.Sizeof(entry{}))
	held := func() int { return cap(d.table.text) + entrySize*cap(d.table.entries) }
	d.Decode([]byte{0x82}, &h)
	if n := held(); n != 0 {
		t.Errorf("a decoder with an empty table holds %d bytes", n)
	}
	d.Decode(cold, &h)
	if n := held(); n == 0 || n > 400 {
		t.Errorf("a decoder with two entries holds %d bytes", n)
	}
	for i := range 10000 {
		b := append([]byte{0x40, 3, 'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676), byte(i % 100)}, make([]byte, i%100)...)
		if err := d.Decode(b, &h); err != nil {
			t.Fatal(err)
		}
	}
	if n := held(); n > DefaultTableSize+128*entrySize {
		t.Errorf("a decoder with a full table holds %d bytes", n)
	}
}
