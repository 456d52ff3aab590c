package wire

import (
	"strings"
	"testing"
)

// For each state, every possible byte is fed to a decoder in that state.
func TestTheChunkDecoderAcceptsOnlyValidBytesInEachState(t *testing.T) {
	const bad = chunkState(255)
	type reaction struct {
		bytes string
		next  chunkState
	}
	everything := make([]byte, 256)
	for i := range everything {
		everything[i] = byte(i)
	}
	for _, c := range []struct {
		name, before string
		state        chunkState
		reactions    []reaction // accepted bytes with the next state; others are rejected
	}{
		{"a size begins with a digit", "", chunkSize, []reaction{{"0123456789abcdefABCDEF", chunkSize}}},
		{"a size ends with CR, white space or semicolon", "1", chunkSize,
			[]reaction{{"0123456789abcdefABCDEF", chunkSize}, {"\r", chunkSizeLF}, {" \t", chunkSpace}, {";", chunkExtension}}},
		{"white space must be followed by an extension", "1 ", chunkSpace, []reaction{{" \t", chunkSpace}, {";", chunkExtension}}},
		{"an extension is text until CR", "1;", chunkExtension,
			[]reaction{{"\t !\"'();=,\\~aZ\x80\xff" + text(), chunkExtension}, {"\r", chunkSizeLF}}},
		{"CR of the size is followed by LF", "1\r", chunkSizeLF, []reaction{{"\n", chunkData}}},
		{"LF of the last size by the trailer", "0\r", chunkSizeLF, []reaction{{"\n", chunkTrailer}}},
		{"data may be anything", "2\r\n", chunkData, []reaction{{string(everything), chunkData}}},
		{"the last byte of data too", "1\r\n", chunkData, []reaction{{string(everything), chunkDataCR}}},
		{"data is followed by CR", "1\r\nx", chunkDataCR, []reaction{{"\r", chunkDataLF}}},
		{"and LF", "1\r\nx\r", chunkDataLF, []reaction{{"\n", chunkSize}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for b := range 256 {
				want := bad
				for _, r := range c.reactions {
					if strings.IndexByte(r.bytes, byte(b)) >= 0 {
						want = r.next
					}
				}
				var d Decoder
				d.Begin(BodyChunked, 0)
				if got := decode(t, &d, c.before, nil); got.parseResult != incomplete || d.state != c.state {
					t.Fatalf("before: %v in state %d", got.parseResult, d.state)
				}
				_, used, err := d.Next([]byte{byte(b)})
				switch {
				case err != nil && want != bad:
					t.Errorf("%q: rejected", byte(b))
				case err == nil && (d.state != want || used != 1):
					t.Errorf("%q: state %d after %d bytes, want %d", byte(b), d.state, used, want)
				}
			}
		})
	}
}

func text() string {
	var b strings.Builder
	for c := range 256 {
		if c >= 0x20 && c != 0x7f {
			b.WriteByte(byte(c))
		}
	}
	return b.String()
}

func TestTheDecoderLeavesBytesAfterTheBody(t *testing.T) {
	for _, c := range []struct {
		kind          BodyKind
		length        int64
		in            string
		payload, rest string
	}{
		{NoBody, 0, "GET /", "", "GET /"},
		{BodyLength, 0, "GET /", "", "GET /"},
		{BodyLength, 5, "helloGET /", "hello", "GET /"},
		{BodyChunked, 0, "5\r\nhello\r\n0\r\n\r\nGET /", "hello", "GET /"},
		{BodyChunked, 0, "0\r\nA: b\r\n\r\n\r\nGET /", "", "\r\nGET /"},
	} {
		for _, cuts := range [][]byte{nil, {1}, {3}} {
			var d Decoder
			d.Begin(c.kind, c.length)
			if d.Ended != (c.rest == c.in) {
				t.Errorf("%q: ended before the first byte: %v", c.in, d.Ended)
			}
			if d.Ended {
				continue
			}
			got := decode(t, &d, c.in, cuts)
			if got.payload != c.payload || got.parseResult != accepted || c.in[got.size:] != c.rest {
				t.Errorf("%q by %v: %+v", c.in, cuts, got)
			}
		}
	}
}

func TestEOFEndsOnlyACloseDelimitedBody(t *testing.T) {
	for _, c := range []struct {
		kind   BodyKind
		length int64
		in     string
		want   bool
	}{
		{BodyUntilClose, 0, "", true}, {BodyUntilClose, 0, "x", true}, {BodyLength, 2, "x", false}, {BodyLength, 2, "xy", true},
		{BodyChunked, 0, "", false}, {BodyChunked, 0, "1\r\nx\r\n", false}, {BodyChunked, 0, "0\r\n", false}, {BodyChunked, 0, "0\r\n\r\n", true},
	} {
		var d Decoder
		d.Begin(c.kind, c.length)
		decode(t, &d, c.in, nil)
		if got := d.End(); got != c.want {
			t.Errorf("kind %d after %q: complete %v", c.kind, c.in, got)
		}
	}
}

func TestChunkedFramingIsLimited(t *testing.T) {
	ext := strings.Repeat("x", maxExtensionBytes-1) // the CR also counts towards the limit
	half := strings.Repeat("x", maxExtensionBytes/2-1)
	field := "X: " + strings.Repeat("x", maxTrailerBytes-len("X: \r\n\r\n"))
	for _, c := range []struct {
		name, in string
		want     parseResult
	}{
		{"15 digits of a size", "00000000000000f\r\n" + strings.Repeat("x", 15) + "\r\n0\r\n\r\n", accepted},
		{"16 digits", "0000000000000001\r\nx\r\n0\r\n\r\n", rejected},
		{"the largest size", "fffffffffffffff\r\n", incomplete},
		{"16 KiB of extension", "0;" + ext + "\r\n\r\n", accepted},
		{"a byte more", "0;x" + ext + "\r\n\r\n", rejected},
		{"a byte more without an end", "0;xx" + ext, rejected},
		{"16 KiB in two chunks", "1;" + half + "\r\nx\r\n0;" + half + "\r\n\r\n", accepted},
		{"and one byte of white space more", "1 ;" + half + "\r\nx\r\n0;" + half + "\r\n\r\n", rejected},
		{"16 KiB of white space", "0" + strings.Repeat(" ", maxExtensionBytes) + " ;\r\n\r\n", rejected},
		{"64 KiB of trailers", "0\r\n" + field + "\r\n\r\n", accepted},
		{"a byte more of them", "0\r\nX" + field + "\r\n\r\n", rejected},
		{"a byte more of them without an end", "0\r\nX" + field + "xxxx", rejected},
		{"64 KiB of many", "0\r\n" + strings.Repeat("a: bc\r\n", maxTrailerBytes/7) + "\r\n", accepted},
		{"too many", "0\r\n" + strings.Repeat("a: bc\r\n", maxTrailerBytes/7+1) + "\r\n", rejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cuts := range [][]byte{nil, {255}, {251, 3}} {
				var d Decoder
				d.Begin(BodyChunked, 0)
				wantSame(t, "parseResult", decode(t, &d, c.in, cuts).parseResult, c.want)
			}
		})
	}
}

func TestALengthOfManyGiBIsCountedNotBuffered(t *testing.T) {
	const length = 1<<34 + 1
	var d Decoder
	d.Begin(BodyLength, length)
	buf := make([]byte, 1<<20)
	for range length >> 20 {
		if data, n, err := d.Next(buf); len(data) != len(buf) || n != len(buf) || err != nil || d.Ended {
			t.Fatalf("%d of %d, %v", n, len(data), err)
		}
	}
	if data, n, err := d.Next(buf); len(data) != 1 || n != 1 || err != nil || !d.Ended {
		t.Fatalf("the last byte: %d of %d, %v", n, len(data), err)
	}
}

func TestADecoderReusesItsBuffersUnlessTheyAreLarge(t *testing.T) {
	var d Decoder
	for _, c := range []struct {
		size int
		keep bool
	}{{100, true}, {60 << 10, false}} {
		d.Begin(BodyChunked, 0)
		in := "0\r\nX: " + strings.Repeat("x", c.size) + "\r\n\r\n"
		if got := decode(t, &d, in, nil); got.parseResult != accepted || len(got.trailers) != c.size+len("X: \r\n") {
			t.Fatalf("%v with %d bytes of trailers", got.parseResult, len(got.trailers))
		}
		d.Begin(BodyChunked, 0)
		if len(d.Trailer) != 0 || len(d.partialLine) != 0 || cap(d.Trailer) > 0 != c.keep {
			t.Errorf("after %d bytes the buffer has %d", c.size, cap(d.Trailer))
		}
	}
}

func TestABodyIsCompleteExactlyAtItsEnd(t *testing.T) {
	bodies := []struct {
		kind   BodyKind
		length int64
		bytes  string
	}{
		{BodyLength, 11, "hello world"},
		{BodyUntilClose, 0, "hello"},
		{BodyChunked, 0, "0\r\n\r\n"},
		{BodyChunked, 0, "5\r\nhello\r\n0\r\n\r\n"},
		{BodyChunked, 0, "4\r\n\r\n\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n"},
		{BodyChunked, 0, "5\r\nhello\r\n0\r\nX-Sum: 5\r\nX-More: yes\r\n\r\n"},
	}
	for _, c := range bodies {
		for read := 0; read <= len(c.bytes); read++ { // bytes decoded before Complete
			for end := read; end <= len(c.bytes); end++ {
				var d, full Decoder
				d.Begin(c.kind, c.length)
				full.Begin(c.kind, c.length)
				decode := func(d *Decoder, b string) {
					for p := []byte(b); len(p) > 0 && !d.Ended; {
						_, n, err := d.Next(p)
						if err != nil {
							t.Fatal(err)
						}
						p = p[n:]
					}
				}
				decode(&d, c.bytes[:read])
				decode(&full, c.bytes[:end])
				if got := d.Complete([]byte(c.bytes[read:end])); got != full.Ended {
					t.Errorf("%q | %q: complete is %v, want %v", c.bytes[:read], c.bytes[read:end], got, full.Ended)
				}
				decode(&d, c.bytes[read:])
				if want := c.kind != BodyUntilClose; d.Ended != want {
					t.Errorf("%q: the body ends differently after Complete", c.bytes)
				}
			}
		}
	}
}
