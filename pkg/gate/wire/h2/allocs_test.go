package h2

import "testing"

// Frames and fields of a warm connection need no allocations.
func TestFramesAndFieldsAreProcessedWithoutAllocations(t *testing.T) {
	for _, l := range benchLists {
		cold, warm := blocks(l.lines)
		var d, coldDecoder Decoder
		var h Head
		var e, other Encoder
		d.Decode(cold, &h)
		dst := make([]byte, 0, 4096)
		run := func() {
			if err := d.Decode(warm, &h); err != nil {
				t.Fatal(err)
			}
			if err := check(&h, l.lines); err != nil {
				t.Fatal(err)
			}
			dst = BeginHeaders(dst[:0])
			for i := range h.Fields {
				dst = e.forward(dst, &h, &h.Fields[i])
				dst = other.AppendText(dst, h.NameOf(&h.Fields[i]), h.ValueOf(&h.Fields[i]))
			}
			dst = EndHeaders(dst, 0, 1, true, MinMaxFrameSize)
		}
		run()
		run()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s, with a warm table: %v allocations", l.name, n)
		}
		again := func() {
			if err := coldDecoder.Decode(cold, &h); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			again()
		}
		if n := testing.AllocsPerRun(100, again); n != 0 {
			t.Errorf("%s, literal: %v allocations", l.name, n)
		}
	}

	in := benchFrames()
	r := Reader{settingsSeen: true}
	var f Frame
	out := make([]byte, 0, 1024)
	n := testing.AllocsPerRun(100, func() {
		for rest := in; len(rest) > 0; {
			n, ok, err := r.Next(rest, &f)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			rest = rest[n:]
		}
		out = AppendSettings(out[:0], Setting{SettingMaxFrameSize, MinMaxFrameSize}, Setting{SettingEnablePush, 0})
		out = AppendPing(out, true, [8]byte{})
		out = AppendWindowUpdate(AppendRSTStream(out, 1, Cancel), 0, 1)
		out = AppendGoAway(AppendSettingsAck(out), 1, NoError)
		out = new(Encoder).AppendStatus(out, 200)
	})
	if n != 0 {
		t.Errorf("frames: %v allocations", n)
	}
}
