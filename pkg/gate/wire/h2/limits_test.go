package h2

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestASendWindowFollowsUpdatesAndSETTINGSWithinItsBounds(t *testing.T) {
	w := NewSendWindow(100)
	w.Consume(100)
	if w.Credit() != 0 {
		t.Errorf("%d left of an exhausted window", w.Credit())
	}
	if err := w.ApplySettings(Changes{Window: -50}); err != nil || w.Credit() != 0 {
		t.Errorf("smaller by 50: %v, %d left", err, w.Credit())
	}
	if err := w.Update(60, Stream); err != nil || w.Credit() != 10 {
		t.Errorf("updated by 60: %v, %d left", err, w.Credit())
	}
	if err := w.Update(MaxWindow-10, Stream); err != nil || w.Credit() != MaxWindow {
		t.Errorf("updated to the largest: %v, %d left", err, w.Credit())
	}
	if err := w.Update(1, Stream); err != errStreamWindow {
		t.Errorf("updated beyond it: %v", err)
	}
	if err := w.Update(MaxWindow, Connection); err != errConnectionWindow {
		t.Errorf("updated beyond it, on the connection: %v", err)
	}
	if err := w.ApplySettings(Changes{Window: 1, Peak: 1}); err != errSettingsWindow {
		t.Errorf("larger by SETTINGS: %v", err)
	}
	if err := w.ApplySettings(Changes{Window: 0, Peak: 5}); err != errSettingsWindow {
		t.Errorf("larger by SETTINGS for a moment: %v", err)
	}
	w = NewSendWindow(MaxWindow)
	w.Consume(MaxWindow)
	if err := w.ApplySettings(Changes{Window: -MaxWindow}); err != nil || w.Credit() != 0 || w.credit != -MaxWindow {
		t.Errorf("the smallest there is: %v, %d", err, w.credit)
	}
}

// The model calculates how many octets the peer may send and how many are buffered.
func TestAReceiveWindowMatchesAModelOfThePeer(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		size := uint32(1 + rng.IntN(100000))
		w := NewReceiveWindow(size)
		allowed, held := int64(size), int64(0)
		for range 1000 {
			switch rng.IntN(3) {
			case 0:
				n := rng.Int64N(allowed + 2)
				err := w.Receive(uint32(n), Stream)
				if (err == nil) != (n <= allowed) {
					t.Fatalf("%d of %d: %v", n, allowed, err)
				}
				if err == nil {
					allowed -= n
					held += n
				}
			case 1:
				n := rng.Int64N(held + 1)
				held -= n
				allowed += int64(w.Release(int(n)))
			case 2:
				if rng.IntN(50) == 0 {
					size = uint32(1 + rng.IntN(100000))
					allowed += int64(w.Resize(size))
				}
			}
			if allowed > MaxWindow || allowed+held > 100000 {
				t.Fatalf("the peer may send %d with %d buffered", allowed, held)
			}
			if held == 0 && allowed < int64(size)/2 {
				t.Fatalf("nothing is buffered, and the peer may send %d of %d", allowed, size)
			}
		}
		allowed += int64(w.Release(int(held))) + int64(w.Flush())
		if allowed < int64(size) {
			t.Fatalf("the peer may send %d of %d at the end", allowed, size)
		}
	}
	w := NewReceiveWindow(10)
	if err := w.Receive(11, Connection); err != errConnectionFlow {
		t.Errorf("beyond the window of the connection: %v", err)
	}
	if err := w.Receive(MaxMaxFrameSize, Stream); err != errStreamFlow {
		t.Errorf("far beyond the window of the stream: %v", err)
	}
}

func TestSettingsAreAppliedAndInvalidOnesRejected(t *testing.T) {
	for _, c := range []struct {
		what       string
		settings   []Setting
		fromServer bool
		want       *Error
	}{
		{"none", nil, false, nil},
		{"unknown", []Setting{{99, 1 << 31}}, false, nil},
		{"push 2", []Setting{{SettingEnablePush, 2}}, false, errSettingPush},
		{"push of a client", []Setting{{SettingEnablePush, 1}}, false, nil},
		{"push of a server", []Setting{{SettingEnablePush, 1}}, true, errSettingPush},
		{"no push of a server", []Setting{{SettingEnablePush, 0}}, true, nil},
		{"largest window", []Setting{{SettingInitialWindowSize, MaxWindow}}, false, nil},
		{"window beyond it", []Setting{{SettingInitialWindowSize, MaxWindow + 1}}, false, errSettingWindow},
		{"frames too small", []Setting{{SettingMaxFrameSize, MinMaxFrameSize - 1}}, false, errSettingMaxFrame},
		{"frames too large", []Setting{{SettingMaxFrameSize, MaxMaxFrameSize + 1}}, false, errSettingMaxFrame},
		{"largest frames", []Setting{{SettingMaxFrameSize, MaxMaxFrameSize}}, false, nil},
		{"extended CONNECT", []Setting{{SettingEnableConnectProtocol, 1}}, true, nil},
		{"extended CONNECT 2", []Setting{{SettingEnableConnectProtocol, 2}}, true, errSettingConnect},
		{"extended CONNECT taken back", []Setting{{SettingEnableConnectProtocol, 1}, {SettingEnableConnectProtocol, 0}}, true, errSettingConnect},
		{"priorities 2", []Setting{{SettingNoRFC7540Priorities, 2}}, true, errSettingPriority},
	} {
		s := DefaultSettings()
		if _, err := s.Apply(AppendSettings(nil, c.settings...)[FrameHeaderLen:], c.fromServer); err != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}

	s := DefaultSettings()
	apply := func(settings ...Setting) Changes {
		t.Helper()
		c, err := s.Apply(AppendSettings(nil, settings...)[FrameHeaderLen:], true)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := apply(Setting{SettingInitialWindowSize, 100000}, Setting{SettingInitialWindowSize, 10}, Setting{SettingHeaderTableSize, 0},
		Setting{SettingHeaderTableSize, 1000}, Setting{SettingMaxConcurrentStreams, 5}, Setting{SettingMaxHeaderListSize, 9},
		Setting{SettingEnableConnectProtocol, 1}, Setting{SettingEnablePush, 0}, Setting{SettingMaxFrameSize, 1 << 20})
	if c != (Changes{Window: 10 - InitialWindow, Peak: 100000 - InitialWindow, Table: true}) {
		t.Errorf("changes %+v", c)
	}
	want := PeerSettings{HeaderTableSize: 1000, MaxConcurrentStreams: 5, InitialWindow: 10, MaxFrame: 1 << 20, MaxHeaderList: 9, ConnectProtocol: true, seen: true}
	if s != want {
		t.Errorf("settings %+v, want %+v", s, want)
	}
	if c := apply(Setting{SettingHeaderTableSize, 9}, Setting{SettingHeaderTableSize, 3}, Setting{SettingHeaderTableSize, 5}); c != (Changes{Table: true, LeastTable: 3}) {
		t.Errorf("changes %+v", c)
	}
	if c := apply(Setting{SettingNoRFC7540Priorities, 0}); c != (Changes{}) {
		t.Errorf("changes %+v", c)
	}
	if _, err := s.Apply(AppendSettings(nil, Setting{SettingNoRFC7540Priorities, 1})[FrameHeaderLen:], true); err != errSettingPriority {
		t.Errorf("priorities changed later: %v", err)
	}
}

func TestASuperfluousAcknowledgementOfSETTINGSIsRejected(t *testing.T) {
	var a SettingsAcks
	a.Sent()
	a.Sent()
	if a.Acked() != nil || a.Pending() != 1 || a.Acked() != nil || a.Pending() != 0 {
		t.Errorf("%d pending", a.Pending())
	}
	if err := a.Acked(); err != errMysteriousAck {
		t.Errorf("one too many: %v", err)
	}
}

func TestRatesAreBounded(t *testing.T) {
	second := int64(time.Second)
	until := func(what string, want int, wantErr *Error, f func() *Error) {
		t.Helper()
		for n := 1; n < 1<<20; n++ {
			if err := f(); err != nil {
				if n-1 != want || err != wantErr {
					t.Errorf("%s: %v after %d, want %v after %d", what, err, n-1, wantErr, want)
				}
				return
			}
		}
		t.Errorf("%s: no bound", what)
	}
	var m Meter
	until("resets", MaxResets, errResets, func() *Error { return m.Reset(second) })
	if err := m.Reset(2 * second); err != nil {
		t.Errorf("a second later: %v", err)
	}
	until("empty frames", MaxEmptyFrames, errEmpty, func() *Error { return m.Empty(2 * second) })
	for range 100 {
		m.Useful(0)
	}
	until("empty frames among others", 100*earnedPerFrame, errEmpty, func() *Error { return m.Empty(2 * second) })
	for range 1 << 20 {
		m.Useful(0)
	}
	until("empty frames behind many others", maxEarned+MaxEmptyFrames, errEmpty, func() *Error { return m.Empty(3 * second) })
	until("replies that are not read", MaxUnread, errUnread, func() *Error { return m.Reply() })
	m.Written()
	if err := m.Reply(); err != nil {
		t.Errorf("after a write: %v", err)
	}
	for _, e := range []*Error{errResets, errEmpty, errUnread} {
		if e.Code != EnhanceYourCalm || e.Scope != Connection {
			t.Errorf("%v: code %d, scope %d", e, e.Code, e.Scope)
		}
	}
}

func TestEveryHTTP2FaultHasAUniqueName(t *testing.T) {
	seen := map[string]bool{}
	for f := Fault(0); f < faults; f++ {
		if f.String() == "" || seen[f.String()] || Faults()[f] != f.String() {
			t.Errorf("fault %d is called %q", f, f)
		}
		seen[f.String()] = true
	}
}
