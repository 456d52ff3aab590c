package h2

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func check(h *Head, lines []line) *Error {
	switch {
	case lines[0].name == ":status":
		return h.CheckResponse()
	case lines[0].name[0] == ':':
		return h.CheckRequest()
	}
	return h.CheckTrailers()
}

func BenchmarkDecode(b *testing.B) {
	for _, l := range benchLists {
		cold, warm := blocks(l.lines)
		b.Run(l.name+"/warm", func(b *testing.B) {
			var d Decoder
			var h Head
			d.Decode(cold, &h)
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Decode(warm, &h); err != nil {
					b.Fatal(err)
				}
				if err := check(&h, l.lines); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(l.name+"/cold", func(b *testing.B) {
			var d Decoder
			var h Head
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Decode(cold, &h); err != nil {
					b.Fatal(err)
				}
				if err := check(&h, l.lines); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeXNet(b *testing.B) {
	for _, l := range benchLists {
		cold, warm := blocks(l.lines)
		for _, which := range []struct {
			name  string
			block []byte
		}{{"warm", warm}, {"cold", cold}} {
			b.Run(l.name+"/"+which.name, func(b *testing.B) {
				fields := 0
				d := hpack.NewDecoder(4096, func(hpack.HeaderField) { fields++ })
				d.Write(cold)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := d.Write(which.block); err != nil {
						b.Fatal(err)
					}
					d.Close()
				}
			})
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, l := range benchLists {
		cold, _ := blocks(l.lines)
		var d Decoder
		var h Head
		d.Decode(cold, &h)
		b.Run(l.name, func(b *testing.B) {
			var e Encoder
			dst := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				dst = BeginHeaders(dst[:0])
				for i := range h.Fields {
					dst = e.forward(dst, &h, &h.Fields[i])
				}
				dst = EndHeaders(dst, 0, 1, true, MinMaxFrameSize)
			}
		})
	}
}

func BenchmarkEncodeXNet(b *testing.B) {
	for _, l := range benchLists {
		b.Run(l.name, func(b *testing.B) {
			var out bytes.Buffer
			e := hpack.NewEncoder(&out)
			b.ReportAllocs()
			for b.Loop() {
				out.Reset()
				for _, l := range l.lines {
					e.WriteField(hpack.HeaderField{Name: l.name, Value: l.value})
				}
			}
		})
	}
}

// benchFrames returns the frames of 8 requests on 8 streams.
func benchFrames() []byte {
	var b []byte
	_, warm := blocks(smallGet)
	for i := range 8 {
		b = append(BeginHeaders(b), warm...)
		b = EndHeaders(b, len(b)-len(warm)-FrameHeaderLen, uint32(2*i+1), true, MinMaxFrameSize)
	}
	b = AppendWindowUpdate(b, 0, 1000)
	b = AppendDataHeader(b, 1, 100, false)
	return append(b, make([]byte, 100)...)
}

func BenchmarkFrames(b *testing.B) {
	in := benchFrames()
	r := Reader{settingsSeen: true}
	var f Frame
	b.ReportAllocs()
	for b.Loop() {
		for rest := in; len(rest) > 0; {
			n, ok, err := r.Next(rest, &f)
			if !ok || err != nil {
				b.Fatal(ok, err)
			}
			rest = rest[n:]
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10, "ns/frame")
}

func BenchmarkFramesXNet(b *testing.B) {
	in := benchFrames()
	in2 := bytes.NewReader(in)
	r := http2.NewFramer(nil, in2)
	r.SetReuseFrames()
	b.ReportAllocs()
	for b.Loop() {
		in2.Reset(in)
		for range 10 {
			if _, err := r.ReadFrame(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10, "ns/frame")
}

func BenchmarkHuffman(b *testing.B) {
	s := []byte(browserGet[4].value)
	code := hpack.AppendHuffmanString(nil, string(s))
	b.Run("decode", func(b *testing.B) {
		var dst []byte
		b.SetBytes(int64(len(s)))
		for b.Loop() {
			dst, _ = appendDecoded(dst[:0], code, 1000)
		}
	})
	b.Run("decode x/net", func(b *testing.B) {
		var dst bytes.Buffer
		b.SetBytes(int64(len(s)))
		for b.Loop() {
			dst.Reset()
			hpack.HuffmanDecode(&dst, code)
		}
	})
}
