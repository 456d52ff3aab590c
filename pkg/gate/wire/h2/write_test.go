package h2

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

func TestFramesMatchThoseOfXNet(t *testing.T) {
	for what, c := range map[string]struct {
		got  []byte
		want func(f *http2.Framer) error
	}{
		"DATA": {append(AppendDataHeader(nil, 3, 5, false), "12345"...),
			func(f *http2.Framer) error { return f.WriteData(3, false, []byte("12345")) }},
		"last DATA": {AppendDataHeader(nil, MaxStreamID, 0, true),
			func(f *http2.Framer) error { return f.WriteData(MaxStreamID, true, nil) }},
		"RST_STREAM":   {AppendRSTStream(nil, 7, Cancel), func(f *http2.Framer) error { return f.WriteRSTStream(7, http2.ErrCodeCancel) }},
		"no SETTINGS":  {AppendSettings(nil), func(f *http2.Framer) error { return f.WriteSettings() }},
		"SETTINGS ack": {AppendSettingsAck(nil), func(f *http2.Framer) error { return f.WriteSettingsAck() }},
		"SETTINGS": {AppendSettings(nil, Setting{SettingMaxConcurrentStreams, 250}, Setting{SettingEnableConnectProtocol, 1}),
			func(f *http2.Framer) error {
				return f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 250}, http2.Setting{ID: 8, Val: 1})
			}},
		"PING":     {AppendPing(nil, false, [8]byte{1, 2}), func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1, 2}) }},
		"PING ack": {AppendPing(nil, true, [8]byte{1, 2}), func(f *http2.Framer) error { return f.WritePing(true, [8]byte{1, 2}) }},
		"GOAWAY": {AppendGoAway(nil, 9, EnhanceYourCalm),
			func(f *http2.Framer) error { return f.WriteGoAway(9, http2.ErrCodeEnhanceYourCalm, nil) }},
		"WINDOW_UPDATE": {AppendWindowUpdate(nil, 0, MaxWindow), func(f *http2.Framer) error { return f.WriteWindowUpdate(0, MaxWindow) }},
	} {
		var b bytes.Buffer
		if err := c.want(http2.NewFramer(&b, nil)); err != nil {
			t.Fatal(what, err)
		}
		if !bytes.Equal(c.got, b.Bytes()) {
			t.Errorf("%s: %x, want %x", what, c.got, b.Bytes())
		}
	}
}

func TestLongBlocksAreSplitIntoCONTINUATION(t *testing.T) {
	const most = 100
	for length := range 5 * most {
		block := strings.Repeat("0123456789", 50)[:length]
		for _, capacity := range []int{0, 10000} {
			dst := append(make([]byte, 0, capacity), "before"...)
			start := len(dst)
			dst = append(BeginHeaders(dst), block...)
			dst = EndHeaders(dst, start, 5, true, most)
			if string(dst[:start]) != "before" {
				t.Fatalf("block of %d: the bytes before are %q", length, dst[:start])
			}
			var frames int
			var got string
			for rest := dst[start:]; len(rest) > 0; frames++ {
				n := int(rest[1])<<8 | int(rest[2])
				typ, flags := Type(rest[3]), Flags(rest[4])
				last := len(rest) == FrameHeaderLen+n
				if n > most || (typ == Headers) != (frames == 0) || (flags&FlagEndHeaders != 0) != last ||
					typ == Headers != (flags&FlagEndStream != 0) || rest[8] != 5 {
					t.Fatalf("block of %d: frame %d is %x", length, frames, rest[:FrameHeaderLen])
				}
				got += string(rest[FrameHeaderLen : FrameHeaderLen+n])
				rest = rest[FrameHeaderLen+n:]
			}
			if want := max(1, (length+most-1)/most); got != block || frames != want {
				t.Fatalf("block of %d: %d frames, want %d, and %q", length, frames, want, got)
			}
		}
	}
}
