package h2

import "testing"

// Until a client learns of a reset, it may use up the window of the stream, in frames of
// any size.
func TestDATAInTransitWhenAStreamIsResetDoesNotCountAsAFlood(t *testing.T) {
	const streams, window, frame = 8, 64 << 10, 11
	var m Meter
	for range streams {
		w := NewReceiveWindow(window)
		m.Expect(&w)
	}
	for sent := 0; sent+frame <= streams*window; sent += frame {
		if err := m.Late(frame, 1); err != nil {
			t.Fatalf("after %d of %d octets: %v", sent, streams*window, err)
		}
	}
	for range MaxEmptyFrames {
		if err := m.Late(frame, 1); err != nil {
			t.Fatalf("within the limit of frames for closed streams: %v", err)
		}
	}
	if m.Late(frame, 1) == nil {
		t.Fatal("frames for closed streams beyond the windows have no limit")
	}
}
