package h2

import (
	"slices"
	"testing"
)

func TestStreamStatesFollowTheRFC(t *testing.T) {
	recv, send := true, false
	type step struct {
		received bool
		event    Event
		want     State
	}
	for what, steps := range map[string][]step{
		"request without a body": {{recv, OnHeadersEnd, HalfClosedRemote}, {send, OnHeaders, HalfClosedRemote},
			{send, OnData, HalfClosedRemote}, {send, OnDataEnd, Closed}},
		"request with a body": {{recv, OnHeaders, Open}, {recv, OnData, Open}, {recv, OnWindowUpdate, Open}, {recv, OnDataEnd, HalfClosedRemote},
			{send, OnHeadersEnd, Closed}},
		"trailers both ways": {{recv, OnHeaders, Open}, {recv, OnHeadersEnd, HalfClosedRemote}, {send, OnHeaders, HalfClosedRemote},
			{send, OnHeadersEnd, Closed}},
		"early response": {{recv, OnHeaders, Open}, {send, OnHeaders, Open}, {send, OnDataEnd, HalfClosedLocal},
			{recv, OnData, HalfClosedLocal}, {send, OnReset, ResetByUs}, {recv, OnData, ResetByUs}, {recv, OnHeadersEnd, ResetByUs}},
		"cancelled":        {{recv, OnHeaders, Open}, {recv, OnReset, ResetByPeer}, {recv, OnReset, ResetByPeer}},
		"to the container": {{send, OnHeaders, Open}, {send, OnDataEnd, HalfClosedLocal}, {recv, OnHeaders, HalfClosedLocal}, {recv, OnDataEnd, Closed}, {recv, OnReset, Closed}, {recv, OnWindowUpdate, Closed}},
		"priority":         {{recv, OnPriority, Idle}, {recv, OnHeadersEnd, HalfClosedRemote}},
	} {
		s := Idle
		for i, step := range steps {
			before := s
			if step.received {
				var v Action
				if s, v = s.Receive(step.event); v.Err() != nil {
					t.Errorf("%s: step %d: %v", what, i, v.Err())
				}
			} else {
				var ok bool
				if s, ok = s.Send(step.event); !ok {
					t.Errorf("%s: step %d cannot be sent", what, i)
				}
			}
			if s != step.want {
				t.Errorf("%s: step %d leads from %d to %d, want %d", what, i, before, s, step.want)
			}
		}
	}
}

func TestFramesInTheWrongStateAreRejected(t *testing.T) {
	for _, c := range []struct {
		state State
		event []Event
		want  *Error
		to    State
	}{
		{Idle, []Event{OnData, OnDataEnd, OnReset, OnWindowUpdate}, errStreamIdle, Idle},
		{HalfClosedRemote, []Event{OnHeaders, OnHeadersEnd, OnData, OnDataEnd}, errStreamClosed, ResetByUs},
		{Closed, []Event{OnHeaders, OnHeadersEnd, OnData, OnDataEnd}, errConnectionClosed, Closed},
		{ResetByPeer, []Event{OnHeaders, OnHeadersEnd, OnData, OnDataEnd}, errStreamClosed, ResetByPeer},
		{Forgotten, []Event{OnHeaders, OnHeadersEnd}, errStreamIdle, Forgotten},
		{Forgotten, []Event{OnData, OnDataEnd}, errStreamClosed, Forgotten},
	} {
		for _, e := range c.event {
			if to, v := c.state.Receive(e); v.Err() != c.want || to != c.to {
				t.Errorf("event %d in state %d: %v, %d", e, c.state, v.Err(), to)
			}
		}
	}
	for s := Idle; s < states; s++ {
		for e := range events {
			to, v := s.Receive(e)
			if v == Accept && s.Closed() && (e != OnPriority || to != s) {
				t.Errorf("event %d of closed state %d is accepted", e, s)
			}
			if s.Closed() && !to.Closed() {
				t.Errorf("event %d leads from closed state %d to %d", e, s, to)
			}
			if to, ok := s.Send(e); s.Closed() && (ok && e != OnPriority || to != s && e != OnReset) {
				t.Errorf("event %d is sent in closed state %d, to %d", e, s, to)
			}
		}
	}
	for _, c := range []struct {
		s State
		e Event
	}{{Idle, OnData}, {Idle, OnReset}, {Idle, OnWindowUpdate}, {HalfClosedLocal, OnData}, {HalfClosedLocal, OnHeadersEnd}} {
		if _, ok := c.s.Send(c.e); ok {
			t.Errorf("event %d may be sent in state %d", c.e, c.s)
		}
	}
}

func TestStreamIDsOfAClientMustIncrease(t *testing.T) {
	var p PeerStreams
	var h History
	state := func(id uint32, want State, wantErr *Error) {
		t.Helper()
		if got, err := p.StateOf(id, &h); got != want || err != wantErr {
			t.Errorf("stream %d: %d, %v, want %d, %v", id, got, err, want, wantErr)
		}
	}
	state(1, Idle, nil)
	state(2, Idle, errStreamID)
	p.Open(5)
	state(3, Forgotten, nil)
	state(7, Idle, nil)
	h.Add(5, ResetByUs)
	h.Add(3, ResetByPeer)
	h.Add(1, Closed)
	state(5, ResetByUs, nil)
	state(3, ResetByPeer, nil)
	state(1, Closed, nil)
	p.Open(MaxStreamID)
	for id := uint32(101); id < 101+2*maxResetHistory; id += 2 {
		h.Add(id, ResetByUs)
	}
	state(5, Forgotten, nil)
	state(101, ResetByUs, nil)
	state(99+2*maxResetHistory, ResetByUs, nil)
	state(MaxStreamID, Forgotten, nil)
	h.Add(MaxStreamID, ResetByPeer)
	state(MaxStreamID, ResetByPeer, nil)
	if p.Last() != MaxStreamID {
		t.Errorf("last stream is %d", p.Last())
	}
	if s, err := p.StateOf(1, nil); s != Forgotten || err != nil {
		t.Errorf("without a history: %d, %v", s, err)
	}
}

func TestStreamIDsOfTheGateAreUsedOnce(t *testing.T) {
	var o OurStreams
	var h History
	if _, err := o.StateOf(1, &h); err != errStreamID {
		t.Errorf("stream that was not opened: %v", err)
	}
	var got []uint32
	for range 3 {
		id, ok := o.Next()
		if !ok {
			t.Fatal("no stream left")
		}
		got = append(got, id)
	}
	if !slices.Equal(got, []uint32{1, 3, 5}) {
		t.Errorf("streams %d", got)
	}
	h.Add(1, Closed)
	for id, want := range map[uint32]State{1: Closed, 3: ResetByUs} {
		if s, err := o.StateOf(id, &h); s != want || err != nil {
			t.Errorf("stream %d: %d, %v", id, s, err)
		}
	}
	if _, err := o.StateOf(2, &h); err != errStreamID {
		t.Errorf("stream of the container: %v", err)
	}
	o.last = MaxStreamID - 2
	if id, ok := o.Next(); id != MaxStreamID || !ok {
		t.Errorf("last stream is %d, %v", id, ok)
	}
	if _, ok := o.Next(); ok {
		t.Error("an identifier follows the last one")
	}
}

func TestFramesMapToStreamEvents(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Event
		ok   bool
	}{
		{frame(Headers, FlagEndHeaders, 1, ""), OnHeaders, true}, {frame(Headers, FlagEndHeaders|FlagEndStream, 1, ""), OnHeadersEnd, true},
		{frame(Data, 0, 1, ""), OnData, true}, {frame(Data, FlagEndStream, 1, ""), OnDataEnd, true},
		{frame(RSTStream, 0, 1, "\x00\x00\x00\x00"), OnReset, true}, {frame(Priority, 0, 1, "\x00\x00\x00\x03\x10"), OnPriority, true},
		{frame(WindowUpdate, 0, 1, "\x00\x00\x00\x01"), OnWindowUpdate, true}, {frame(WindowUpdate, 0, 0, "\x00\x00\x00\x01"), OnWindowUpdate, false},
		{settled, 0, false}, {frame(99, 0, 1, ""), 0, false},
	} {
		r := Reader{settingsSeen: true}
		var f Frame
		if _, ok, err := r.Next([]byte(c.in), &f); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if e, ok := EventOf(&f); e != c.want || ok != c.ok {
			t.Errorf("%s is event %d, %v", f.outline(), e, ok)
		}
	}
}

func TestTheLengthOfMessagesIsChecked(t *testing.T) {
	head := func(length int64, noBody, end bool) func(*Message) *Error {
		return func(m *Message) *Error { return m.Head(length, noBody, end) }
	}
	data := func(n int, end bool) func(*Message) *Error { return func(m *Message) *Error { return m.Data(n, end) } }
	trailers := func(end bool) func(*Message) *Error { return func(m *Message) *Error { return m.Trailers(end) } }
	interim := func(end bool) func(*Message) *Error { return func(m *Message) *Error { return m.Interim(end) } }
	type steps []func(*Message) *Error
	for _, c := range []struct {
		what  string
		steps steps
		want  *Error // of the last step
	}{
		{"no body", steps{head(-1, false, true)}, nil},
		{"no body of length 0", steps{head(0, false, true)}, nil},
		{"no body of length 1", steps{head(1, false, true)}, errBodyTooShort},
		{"HEAD", steps{head(10, true, true)}, nil},
		{"HEAD with empty DATA", steps{head(10, true, false), data(0, true)}, nil},
		{"HEAD with DATA", steps{head(10, true, false), data(1, true)}, errBodyUnwelcome},
		{"body of any length", steps{head(-1, false, false), data(1, false), data(0, false), data(2, true)}, nil},
		{"body of its length", steps{head(3, false, false), data(1, false), data(2, true)}, nil},
		{"body of its length, ended later", steps{head(3, false, false), data(3, false), data(0, true)}, nil},
		{"body of its length, with trailers", steps{head(3, false, false), data(3, false), trailers(true)}, nil},
		{"body too long", steps{head(3, false, false), data(1, false), data(3, false)}, errBodyTooLong},
		{"body where there should be none", steps{head(0, false, false), data(1, false)}, errBodyTooLong},
		{"body too short", steps{head(3, false, false), data(2, true)}, errBodyTooShort},
		{"body too short, with trailers", steps{head(3, false, false), data(2, false), trailers(true)}, errBodyTooShort},
		{"trailers that do not end", steps{head(-1, false, false), trailers(false)}, errTrailersGoOn},
		{"DATA before the head", steps{data(1, false)}, errDataNoHead},
		{"DATA after an interim response", steps{interim(false), data(1, false)}, errDataNoHead},
		{"interim responses", steps{interim(false), interim(false), head(-1, false, true)}, nil},
		{"interim response that ends", steps{interim(true)}, errInterimEnds},
		{"DATA after the end", steps{head(-1, false, true), data(0, false)}, errAfterEnd},
		{"trailers after the end", steps{head(-1, false, true), trailers(true)}, errAfterEnd},
	} {
		var m Message
		for i, step := range c.steps {
			want := (*Error)(nil)
			if i == len(c.steps)-1 {
				want = c.want
			}
			if got := step(&m); got != want {
				t.Errorf("%s: step %d: %v, want %v", c.what, i, got, want)
			}
		}
		if m.Ended() == m.ExpectsHead() && m.Ended() {
			t.Errorf("%s: the message has ended but expects a head", c.what)
		}
	}
}
