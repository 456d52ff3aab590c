package h2

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// receiver is the receiving half of a minimal HTTP/2 server. It calls this package in the
// same order as the engines of the gate. It sends nothing, and releases the credit for
// received DATA at once.
type receiver struct {
	reader   Reader
	decoder  Decoder
	encoder  Encoder
	settings PeerSettings
	acks     SettingsAcks
	streams  map[uint32]*receiving
	ids      PeerStreams
	history  History
	window   ReceiveWindow
	send     SendWindow
	meter    Meter
	head     Head
	now      int64
	log      []string
}

type receiving struct {
	state   State
	message Message
	window  ReceiveWindow
	send    SendWindow
}

func newReceiver() *receiver {
	r := &receiver{settings: DefaultSettings(), streams: map[uint32]*receiving{}, window: NewReceiveWindow(InitialWindow), send: NewSendWindow(InitialWindow)}
	r.acks.Sent()
	return r
}

// read processes received bytes and returns the unused ones.
func (r *receiver) read(b []byte) ([]byte, *Error) {
	for {
		var f Frame
		n, ok, err := r.reader.Next(b, &f)
		if err != nil {
			return nil, err
		}
		b = b[n:]
		if !ok {
			return b, nil
		}
		if err := r.receive(&f); err != nil {
			return nil, err
		}
	}
}

func (r *receiver) receive(f *Frame) *Error {
	if f.CarriesNothing() {
		if err := r.meter.Empty(r.now); err != nil {
			return err
		}
	}
	event, ofStream := EventOf(f)
	if !ofStream {
		return r.control(f)
	}
	if f.Type == Data && f.First {
		if err := r.window.Receive(f.Length, Connection); err != nil {
			return err
		}
		r.window.Release(int(f.Padding))
	}
	if f.Type == Headers {
		if err := r.decoder.Decode(f.Payload, &r.head); err != nil {
			return err
		}
	}
	s := r.streams[f.Stream]
	if f.Type == Data && !f.First && s == nil {
		r.window.Release(len(f.Payload))
		return nil // the stream was closed after the first piece of this DATA frame
	}
	state := Idle
	if s != nil {
		state = s.state
	} else {
		var err *Error
		if state, err = r.ids.StateOf(f.Stream, &r.history); err != nil && event != OnPriority {
			return err
		}
	}
	to, action := state.Receive(event)
	err := action.Err()
	if err != nil && err.Scope == Connection {
		return err
	}
	if action != Ignore && err == nil {
		if f.Type == Headers && state == Idle {
			r.ids.Open(f.Stream)
			s = &receiving{window: NewReceiveWindow(InitialWindow), send: NewSendWindow(r.settings.InitialWindow)}
			r.streams[f.Stream] = s
		}
		if err = f.Err; err == nil && s != nil {
			err = r.frame(f, s)
		}
		if s != nil {
			s.state = to
		}
	}
	if f.Type == Data {
		r.window.Release(len(f.Payload))
	}
	if err != nil {
		if s != nil && !s.state.Closed() || action != Ignore {
			to = ResetByUs
			r.log = append(r.log, fmt.Sprintf("%d reset: %s", f.Stream, err.Reason))
			if s != nil {
				s.state = to
			}
		}
	}
	if event == OnReset && action == Accept || err != nil {
		if err := r.meter.Reset(r.now); err != nil {
			return err
		}
	}
	if s != nil && s.state.Closed() {
		r.history.Add(f.Stream, s.state)
		delete(r.streams, f.Stream)
	}
	return nil
}

func (r *receiver) frame(f *Frame, s *receiving) *Error {
	switch f.Type {
	case Headers:
		r.meter.Useful(0)
		if !s.message.ExpectsHead() {
			if err := r.head.CheckTrailers(); err != nil {
				return err
			}
			r.log = append(r.log, fmt.Sprintf("%d trailers", f.Stream))
			return s.message.Trailers(f.EndStream)
		}
		if err := r.head.CheckRequest(); err != nil {
			return err
		}
		r.log = append(r.log, fmt.Sprintf("%d %s %s %d", f.Stream, r.head.Method(), r.head.Path(), r.head.Length))
		return s.message.Head(r.head.Length, false, f.EndStream)
	case Data:
		if f.First {
			if err := s.window.Receive(f.Length, Stream); err != nil {
				return err
			}
		}
		if f.First && len(f.Payload) > 0 {
			r.meter.Useful(0)
		}
		s.window.Release(len(f.Payload))
		return s.message.Data(len(f.Payload), f.EndStream)
	case WindowUpdate:
		return s.send.Update(f.Increment, Stream)
	}
	return nil
}

func (r *receiver) control(f *Frame) *Error {
	switch f.Type {
	case Settings:
		if f.Ack() {
			return r.acks.Acked()
		}
		c, err := r.settings.Apply(f.Payload, false)
		if err != nil {
			return err
		}
		r.encoder.Apply(c, &r.settings)
		for _, s := range r.streams {
			if err := s.send.ApplySettings(c); err != nil {
				return err
			}
		}
		return r.meter.Reply()
	case Ping:
		if !f.Ack() {
			return r.meter.Reply()
		}
	case WindowUpdate:
		return r.send.Update(f.Increment, Connection)
	}
	return nil
}

// request returns a HEADERS frame that contains a request.
func request(stream uint32, end bool, more ...line) string {
	var e Encoder
	b := BeginHeaders(nil)
	for _, l := range with(more...) {
		b = e.AppendText(b, []byte(l.name), []byte(l.value))
	}
	return string(EndHeaders(b, 0, stream, end, MinMaxFrameSize))
}

func TestASequenceOfFramesEndsWithTheErrorThatTheRFCRequires(t *testing.T) {
	length := func(s string) line { return line{"content-length", s} }
	post := line{":method", "POST"}
	window := func(n uint32) string { return string(AppendWindowUpdate(nil, 1, n)) }
	trailers := frame(Headers, FlagEndHeaders|FlagEndStream, 1, "\x00\x01x\x01y")
	for _, c := range []struct {
		what string
		in   string
		log  []string
		want *Error
	}{
		{"two requests", request(1, true) + request(3, true), []string{"1 GET / -1", "3 GET / -1"}, nil},
		{"a body", request(1, false, post, length("3")) + frame(Data, 0, 1, "ab") + frame(Data, FlagEndStream, 1, "c"), []string{"1 POST / 3"}, nil},
		{"a body and trailers", request(1, false, post) + frame(Data, 0, 1, "ab") + trailers, []string{"1 POST / -1", "1 trailers"}, nil},
		{"a body that is too short", request(1, false, length("3")) + frame(Data, FlagEndStream, 1, "ab"), []string{"1 GET / 3", "1 reset: " + errBodyTooShort.Reason}, nil},
		{"a body that is too long, then more", request(1, false, length("1")) + frame(Data, 0, 1, "ab") + frame(Data, 0, 1, "cd"),
			[]string{"1 GET / 1", "1 reset: " + errBodyTooLong.Reason}, nil},
		{"a path with a space", request(1, true, line{":path", "/ HTTP/1.1"}), []string{"1 reset: " + errPath.Reason}, nil},
		{"a stream that was used", request(3, true) + request(1, true), []string{"3 GET / -1"}, errStreamIdle},
		{"a stream that has ended", request(1, true) + request(1, true), []string{"1 GET / -1", "1 reset: " + errStreamClosed.Reason}, nil},
		{"a stream of the server's", request(2, true), nil, errStreamID},
		{"DATA on a stream that was not opened", frame(Data, 0, 1, "x"), nil, errStreamIdle},
		{"RST_STREAM on one", frame(RSTStream, 0, 1, "\x00\x00\x00\x00"), nil, errStreamIdle},
		{"PRIORITY on one", frame(Priority, 0, 1, "\x00\x00\x00\x03\x10"), nil, nil},
		{"PRIORITY on one of the server's", frame(Priority, 0, 2, "\x00\x00\x00\x03\x10"), nil, nil},
		{"DATA after the end", request(1, true) + frame(Data, 0, 1, "x") + frame(Data, 0, 1, "x"), []string{"1 GET / -1", "1 reset: " + errStreamClosed.Reason}, nil},
		{"DATA after RST_STREAM", request(1, false) + frame(RSTStream, 0, 1, "\x00\x00\x00\x00") + frame(Data, 0, 1, "x"),
			[]string{"1 GET / -1", "1 reset: " + errStreamClosed.Reason}, nil},
		{"a window that overflows", request(1, true) + window(MaxWindow), []string{"1 GET / -1", "1 reset: " + errStreamWindow.Reason}, nil},
		{"a window that does not grow", request(1, true) + frame(WindowUpdate, 0, 1, "\x00\x00\x00\x00"), []string{"1 GET / -1", "1 reset: " + errNoIncrementOnStream.Reason}, nil},
		{"PRIORITY of a wrong length", request(1, true) + frame(Priority, 0, 1, "x"), []string{"1 GET / -1", "1 reset: " + errPriorityLen.Reason}, nil},
		{"windows that overflow by SETTINGS", request(1, true) + window(MaxWindow-InitialWindow) + frame(Settings, 0, 0, "\x00\x04\x00\x01\x00\x00"), []string{"1 GET / -1"}, errSettingsWindow},
		{"the window of the connection", frame(WindowUpdate, 0, 0, "\x7f\xff\xff\xff"), nil, errConnectionWindow},
		{"an acknowledgement too many", frame(Settings, FlagAck, 0, "") + frame(Settings, FlagAck, 0, ""), nil, errMysteriousAck},
		{"a head that depends on itself", frame(Headers, FlagEndHeaders|FlagEndStream|FlagPriority, 1, "\x00\x00\x00\x01\x00\x82\x84\x86"), []string{"1 reset: " + errSelfDependent.Reason}, nil},
		{"rubbish in a block", frame(Headers, FlagEndHeaders, 1, "\x80"), nil, errIndex},
		{"the table is kept after a reset", request(1, false) + frame(RSTStream, 0, 1, "\x00\x00\x00\x00") +
			frame(Headers, FlagEndHeaders, 3, "\x82\x84\x86\x40\x01x\x01y") + frame(Headers, FlagEndHeaders|FlagEndStream, 5, "\x82\x84\x86\xbe"),
			[]string{"1 GET / -1", "3 GET / -1", "5 GET / -1"}, nil},
	} {
		for _, size := range []int{1 << 20, 1, 7} {
			r := newReceiver()
			var held []byte
			var err *Error
			for piece := range slices.Chunk([]byte(settled+c.in), size) {
				if held, err = r.read(append(held, piece...)); err != nil {
					break
				}
				held = bytes.Clone(held)
			}
			if err != c.want || !slices.Equal(r.log, c.log) {
				t.Errorf("%s, in pieces of %d: %v, %q, want %v, %q", c.what, size, err, r.log, c.want, c.log)
			}
		}
	}
}

// The test cases belong to two attacks. In rapid reset (CVE-2023-44487), the client
// resets its streams. In MadeYouReset (CVE-2025-8671), it makes the server reset them.
func TestResetsByEitherSideAreCounted(t *testing.T) {
	for what, f := range map[string]func(id uint32) string{
		"rapid reset":                func(id uint32) string { return request(id, true) + string(AppendRSTStream(nil, id, Cancel)) },
		"window that does not grow":  func(id uint32) string { return request(id, true) + frame(WindowUpdate, 0, id, "\x00\x00\x00\x00") },
		"window that overflows":      func(id uint32) string { return request(id, true) + string(AppendWindowUpdate(nil, id, MaxWindow)) },
		"HEADERS after the end":      func(id uint32) string { return request(id, true) + request(id, true) },
		"DATA after the end":         func(id uint32) string { return request(id, true) + frame(Data, 0, id, "x") },
		"PRIORITY of a wrong length": func(id uint32) string { return request(id, true) + frame(Priority, 0, id, "x") },
		"PRIORITY on itself": func(id uint32) string {
			return request(id, true) + frame(Priority, 0, id, string([]byte{0, 0, byte(id >> 8), byte(id), 1}))
		},
		"malformed head": func(id uint32) string { return request(id, true, line{"connection", "close"}) },
	} {
		for _, perSecond := range []int{MaxResets, MaxResets + 1} {
			r := newReceiver()
			var b strings.Builder
			b.WriteString(settled)
			for i := range perSecond {
				b.WriteString(f(uint32(2*i + 1)))
			}
			left, err := r.read([]byte(b.String()))
			if perSecond > MaxResets && err != errResets || perSecond <= MaxResets && (err != nil || len(left) > 0) {
				t.Errorf("%s, %d in a second: %v", what, perSecond, err)
			}
			r.now += int64(time.Second)
			if _, err := r.read([]byte(request(60001, true))); perSecond <= MaxResets && err != nil {
				t.Errorf("%s: a second later: %v", what, err)
			}
		}
	}
}

func TestFloodsOfFramesWithoutContentEndTheConnection(t *testing.T) {
	for what, in := range map[string]string{
		"empty DATA": frame(Data, 0, 1, ""), "only padding": frame(Data, FlagPadded, 1, "\x03\x00\x00\x00"), "SETTINGS": settled,
		"PING": frame(Ping, 0, 0, "12345678"), "acknowledged PING": frame(Ping, FlagAck, 0, "12345678"),
		"PRIORITY": frame(Priority, 0, 1, "\x00\x00\x00\x03\x10"), "WINDOW_UPDATE by 1": frame(WindowUpdate, 0, 0, "\x00\x00\x00\x01"),
		"unknown type": frame(99, 0, 0, "x"),
	} {
		r := newReceiver()
		_, err := r.read([]byte(settled + request(1, false) + strings.Repeat(in, MaxEmptyFrames+100)))
		if err == nil || err.Code != EnhanceYourCalm {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzConnection(f *testing.F) {
	f.Add(settled+request(1, false, line{"content-length", "3"})+frame(Data, 0, 1, "abc")+frame(Headers, FlagEndHeaders|FlagEndStream, 1, "\x00\x01x\x01y"), byte(3))
	f.Add(settled+request(1, true)+frame(WindowUpdate, 0, 1, "\x00\x00\x00\x00")+frame(Settings, 0, 0, "\x00\x04\x00\x01\x00\x00"), byte(0))
	f.Add(settled+request(1, true)+frame(Settings, FlagAck, 0, "")+frame(Priority, 0, 3, "\x00\x00\x00\x03\x10")+request(3, false)+frame(RSTStream, 0, 3, "\x00\x00\x00\x00"), byte(9))
	f.Add(settled+request(1, true)+request(3, false)+frame(Data, FlagPadded, 3, "\x02x\x00\x00")+request(3, true), byte(1))
	f.Fuzz(func(t *testing.T, in string, step byte) {
		whole := newReceiver()
		left, err := whole.read([]byte(in))
		pieces := newReceiver()
		var held []byte
		var errToo *Error
		for piece := range slices.Chunk([]byte(in), int(step)+1) {
			if held, errToo = pieces.read(append(held, piece...)); errToo != nil {
				break
			}
			held = bytes.Clone(held)
		}
		if err != errToo || err == nil && !bytes.Equal(left, held) || !slices.Equal(whole.log, pieces.log) {
			t.Fatalf("at once: %v, %q\nin pieces: %v, %q", err, whole.log, errToo, pieces.log)
		}
		for id, s := range whole.streams {
			if s.state.Closed() || s.message.Ended() && s.state != HalfClosedRemote || id%2 == 0 || id > whole.ids.Last() {
				t.Fatalf("stream %d: %+v", id, s)
			}
			if s.message.declared >= 0 && s.message.received > s.message.declared {
				t.Fatalf("stream %d received %d of %d", id, s.message.received, s.message.declared)
			}
		}
	})
}
