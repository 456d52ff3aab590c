package wire

import "testing"

func TestBodiesEndAccordingToTheirFraming(t *testing.T) {
	for _, c := range []struct {
		name, text string
		body       Body
		remaining  string
	}{
		{"a length", "helloGET", Body{Remaining: 5}, "GET"},
		{"chunks", "5\r\nhello\r\nA;x\r\n0123456789\r\n0\r\n\r\nGET", Body{Chunked: true}, "GET"},
		{"a trailer", "0\r\nA: b\r\n\r\nGET", Body{Chunked: true}, "GET"},
	} {
		for n := 1; n <= len(c.text); n++ {
			b, text := c.body, c.text
			pending, done := "", false
			for !done {
				if text == "" {
					t.Fatalf("%s in pieces of %d: no end, %q is pending", c.name, n, pending)
				}
				pending += text[:min(n, len(text))]
				text = text[min(n, len(text)):]
				used, isComplete, err := b.Take([]byte(pending), nil)
				if err != nil {
					t.Fatalf("%s in pieces of %d: %v", c.name, n, err)
				}
				pending, done = pending[used:], isComplete
			}
			if pending+text != c.remaining {
				t.Fatalf("%s in pieces of %d: %q is left, want %q", c.name, n, pending+text, c.remaining)
			}
		}
	}
	b := Body{Chunked: true}
	if _, _, err := b.Take([]byte("xyz\r\n"), nil); err == nil {
		t.Error("a malformed chunk was accepted")
	}
}

func TestWebSocketFrameHeadsAreReadBackAsWritten(t *testing.T) {
	for _, size := range []uint64{0, 125, 126, 65535, 65536, 1 << 20} {
		for _, mask := range []byte{0, 0x80} {
			p := AppendFrameHead(nil, 0x82, mask, size)
			if mask != 0 {
				p = append(p, 1, 2, 3, 4)
			}
			head, got, masked, ok := FrameHead(p)
			if !ok || head != len(p) || got != size || masked != (mask != 0) {
				t.Errorf("size %d, mask %#x: head %d of %d, size %d, masked %v, %v", size, mask, head, len(p), got, masked, ok)
			}
			if _, _, _, ok := FrameHead(p[:len(p)-1]); ok {
				t.Errorf("size %d, mask %#x: a truncated head was accepted", size, mask)
			}
		}
	}
}
