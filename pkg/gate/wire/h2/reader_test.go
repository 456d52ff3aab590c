package h2

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func frame(t Type, flags Flags, stream uint32, payload string) string {
	return string(AppendFrameHeader(nil, t, flags, stream, len(payload))) + payload
}

var settled = frame(Settings, 0, 0, "")

// outline describes a frame for tests.
func (f *Frame) outline() string {
	s := fmt.Sprintf("%d/%d", f.Type, f.Stream)
	switch f.Type {
	case Data:
		s += fmt.Sprintf(" %q of %d", f.Payload, f.Length)
		if f.Padding > 0 {
			s += fmt.Sprintf(" padded by %d", f.Padding)
		}
	case Settings:
		s += fmt.Sprintf(" %x", f.Payload)
	case Headers, Ping:
		s += fmt.Sprintf(" %q", f.Payload)
	case GoAway:
		s += fmt.Sprintf(" last %d code %d %q", f.LastStream, f.Code, f.Payload)
	case RSTStream:
		s += fmt.Sprintf(" code %d", f.Code)
	case WindowUpdate:
		s += fmt.Sprintf(" by %d", f.Increment)
	}
	if f.EndStream {
		s += " end"
	}
	if f.Err != nil {
		s += " " + f.Err.Reason
	}
	return s
}

// readAll passes in to r in pieces with the given ends.
func readAll(r *Reader, in string, ends ...int) (all []string, left int, err *Error) {
	var held []byte
	from := 0
	for _, to := range append(ends, len(in)) {
		held = append(held, in[from:to]...)
		from = to
		for {
			var f Frame
			n, ok, err := r.Next(held, &f)
			if ok && err == nil {
				all = append(all, f.outline())
			}
			held = bytes.Clone(held[n:])
			if err != nil {
				return all, len(held), err
			}
			if !ok {
				break
			}
		}
	}
	return all, len(held), nil
}

func TestFramesAreParsedWholeAndInPieces(t *testing.T) {
	in := settled +
		frame(Settings, FlagAck, 0, "") +
		frame(Headers, FlagEndHeaders, 1, "block") +
		frame(Data, 0, 1, "") +
		frame(Type(0x77), 0xff, 5, strings.Repeat("unknown", 10)) +
		frame(Headers, FlagEndHeaders|FlagPadded|FlagPriority|FlagEndStream, 3, "\x02\x80\x00\x00\x01\xffblock\x00\x00") +
		frame(Headers, FlagEndStream, 5, "one ") + frame(Continuation, 0, 5, "two ") + frame(Continuation, FlagEndHeaders, 5, "three") +
		frame(Priority, 0, 3, "\x00\x00\x00\x01\x10") +
		frame(RSTStream, 0, 3, "\x00\x00\x00\x08") +
		frame(Ping, FlagAck, 0, "12345678") +
		frame(GoAway, 0, 0, "\x80\x00\x00\x05\x00\x00\x00\x0bcalm") +
		frame(WindowUpdate, 0, 0, "\x80\x00\x00\x01") +
		frame(WindowUpdate, 0, 1<<31|1, "\x00\x01\x00\x00")
	want := []string{
		"4/0 ", "4/0 ", `1/1 "block"`, `0/1 "" of 0`, "119/5", `1/3 "block" end`, `1/5 "one two three" end`, "2/3", "3/3 code 8",
		`6/0 "12345678"`, `7/0 last 5 code 11 "calm"`, "8/0 by 1", "8/1 by 65536",
	}
	for step := range 40 {
		var ends []int
		for at := step; step > 0 && at < len(in); at += step {
			ends = append(ends, at)
		}
		got, left, err := readAll(&Reader{}, in, ends...)
		if err != nil || left != 0 || !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: %v, %d left\n%q\n%q", step, err, left, got, want)
		}
	}
}

func TestDATAIsDeliveredAsItArrives(t *testing.T) {
	in := frame(Data, FlagPadded|FlagEndStream, 1, "\x03"+"0123456789"+"\x00\x00\x00") + frame(Data, 0, 3, "next")
	for _, c := range []struct {
		ends []int
		want []string
	}{
		{nil, []string{`0/1 "0123456789" of 14 padded by 4 end`, `0/3 "next" of 4`}},
		{[]int{9, 10}, []string{`0/1 "0123456789" of 14 padded by 4 end`, `0/3 "next" of 4`}},
		{[]int{12, 15, 21}, []string{`0/1 "01" of 14 padded by 4`, `0/1 "234" of 14`, `0/1 "56789" of 14 end`, `0/3 "next" of 4`}},
		{[]int{20, 33}, []string{`0/1 "0123456789" of 14 padded by 4 end`, `0/3 "n" of 4`, `0/3 "ext" of 4`}},
	} {
		got, left, err := readAll(&Reader{settingsSeen: true}, in, c.ends...)
		if err != nil || left != 0 || !slices.Equal(got, c.want) {
			t.Errorf("in pieces that end at %v: %v, %d left\n%q\n%q", c.ends, err, left, got, c.want)
		}
	}
	padding := frame(Data, FlagPadded|FlagEndStream, 1, "\xff"+strings.Repeat("\x00", 255)) + settled
	got, left, err := readAll(&Reader{settingsSeen: true}, padding, 12, 100)
	if err != nil || left != 0 || !slices.Equal(got, []string{`0/1 "" of 256 padded by 256 end`, "4/0 "}) {
		t.Errorf("only padding: %v, %d left, %q", err, left, got)
	}
}

func TestInvalidFramesAreConnectionErrors(t *testing.T) {
	long := strings.Repeat("x", MinMaxFrameSize+1)
	for _, c := range []struct {
		what string
		in   string
		want *Error
	}{
		{"DATA on the connection", frame(Data, 0, 0, "x"), errStreamZero},
		{"DATA beyond the largest frame", frame(Data, 0, 1, long), errFrameTooLong},
		{"unknown frame beyond it", frame(99, 0, 1, long), errFrameTooLong},
		{"DATA without the length of its padding", frame(Data, FlagPadded, 1, ""), errFrameLength},
		{"DATA with more padding than payload", frame(Data, FlagPadded, 1, "\x03\x00\x00"), errPadding},
		{"HEADERS on the connection", frame(Headers, FlagEndHeaders, 0, "x"), errStreamZero},
		{"HEADERS without the length of its padding", frame(Headers, FlagPadded, 1, ""), errFrameLength},
		{"HEADERS with more padding than payload", frame(Headers, FlagPadded|FlagEndHeaders, 1, "\x03\x00\x00"), errPadding},
		{"HEADERS with padding in the priority fields", frame(Headers, FlagPadded|FlagPriority|FlagEndHeaders, 1, "\x01\x00\x00\x00\x00\x00"), errPadding},
		{"HEADERS with half of the priority fields", frame(Headers, FlagPriority|FlagEndHeaders, 1, "\x00\x00\x00\x00"), errFrameLength},
		{"PRIORITY on the connection", frame(Priority, 0, 0, "\x00\x00\x00\x03\x10"), errStreamZero},
		{"RST_STREAM on the connection", frame(RSTStream, 0, 0, "\x00\x00\x00\x00"), errStreamZero},
		{"short RST_STREAM", frame(RSTStream, 0, 1, "\x00\x00\x00"), errFrameLength},
		{"long RST_STREAM", frame(RSTStream, 0, 1, "\x00\x00\x00\x00\x00"), errFrameLength},
		{"SETTINGS on a stream", frame(Settings, 0, 1, ""), errStreamNotZero},
		{"half a setting", frame(Settings, 0, 0, "\x00\x01\x00"), errFrameLength},
		{"acknowledgement with settings", frame(Settings, FlagAck, 0, "\x00\x01\x00\x00\x00\x00"), errFrameLength},
		{"PUSH_PROMISE", frame(PushPromise, FlagEndHeaders, 1, "\x00\x00\x00\x02"), errPush},
		{"PING on a stream", frame(Ping, 0, 1, "12345678"), errStreamNotZero},
		{"short PING", frame(Ping, 0, 0, "1234567"), errFrameLength},
		{"long PING", frame(Ping, 0, 0, "123456789"), errFrameLength},
		{"GOAWAY on a stream", frame(GoAway, 0, 1, "\x00\x00\x00\x00\x00\x00\x00\x00"), errStreamNotZero},
		{"short GOAWAY", frame(GoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00"), errFrameLength},
		{"short WINDOW_UPDATE", frame(WindowUpdate, 0, 0, "\x00\x00\x01"), errFrameLength},
		{"WINDOW_UPDATE by 0 on the connection", frame(WindowUpdate, 0, 0, "\x80\x00\x00\x00"), errNoIncrement},
		{"CONTINUATION alone", frame(Continuation, FlagEndHeaders, 1, "x"), errNoBlock},
		{"CONTINUATION after the end of a block", frame(Headers, FlagEndHeaders, 1, "x") + frame(Continuation, FlagEndHeaders, 1, "x"), errNoBlock},
		{"CONTINUATION of another stream", frame(Headers, 0, 1, "x") + frame(Continuation, FlagEndHeaders, 3, "x"), errInBlock},
		{"CONTINUATION on the connection", frame(Headers, 0, 1, "x") + frame(Continuation, FlagEndHeaders, 0, "x"), errInBlock},
		{"PING inside a block", frame(Headers, 0, 1, "x") + frame(Ping, 0, 0, "12345678"), errInBlock},
		{"unknown frame inside a block", frame(Headers, 0, 1, "x") + frame(99, 0, 1, ""), errInBlock},
		{"DATA inside a block", frame(Headers, 0, 1, "x") + frame(Data, 0, 1, ""), errInBlock},
		{"HEADERS inside a block", frame(Headers, 0, 1, "x") + frame(Headers, FlagEndHeaders, 1, ""), errInBlock},
		{"endless block of empty fragments", frame(Headers, 0, 1, "x") + strings.Repeat(frame(Continuation, 0, 1, ""), 300), errBlockInBits},
		{"endless block", frame(Headers, 0, 1, "x") + strings.Repeat(frame(Continuation, 0, 1, long[1:]), 10), errBlockTooLong},
	} {
		if _, _, err := readAll(&Reader{}, settled+c.in); err != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
}

func TestStreamErrorsOfFramesDoNotEndTheConnection(t *testing.T) {
	for _, c := range []struct {
		what string
		in   string
		want *Error
	}{
		{"PRIORITY of a wrong length", frame(Priority, 0, 1, "\x00\x00\x00\x03"), errPriorityLen},
		{"PRIORITY of the stream on itself", frame(Priority, 0, 1, "\x80\x00\x00\x01\x10"), errSelfDependent},
		{"HEADERS that depend on themselves", frame(Headers, FlagEndHeaders|FlagPriority, 3, "\x00\x00\x00\x03\x10x"), errSelfDependent},
		{"the same in two frames", frame(Headers, FlagPriority, 3, "\x00\x00\x00\x03\x10x") + frame(Continuation, FlagEndHeaders, 3, "y"), errSelfDependent},
		{"WINDOW_UPDATE by 0", frame(WindowUpdate, 0, 1, "\x00\x00\x00\x00"), errNoIncrementOnStream},
	} {
		r := Reader{settingsSeen: true}
		got, left, err := readAll(&r, c.in+settled)
		if err != nil || left != 0 || len(got) != 2 || !strings.HasSuffix(got[0], c.want.Reason) || got[1] != "4/0 " {
			t.Errorf("%s: %v, %d left, %q", c.what, err, left, got)
		}
	}
}

func TestTheFirstFrameMustBeSETTINGS(t *testing.T) {
	for what, in := range map[string]string{
		"PING":            frame(Ping, 0, 0, "12345678"),
		"acknowledgement": frame(Settings, FlagAck, 0, ""),
		"HEADERS":         frame(Headers, FlagEndHeaders, 1, "x"),
		"unknown type":    frame(99, 0, 0, ""),
		"HTTP/1":          "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if _, _, err := readAll(&Reader{}, in); err == nil {
			t.Errorf("%s is accepted as the first frame", what)
		}
	}
}

func TestFrameHeadersAreCheckedBeforeThePayload(t *testing.T) {
	in := string(AppendFrameHeader(nil, Ping, 0, 0, 16000))
	if _, _, err := readAll(&Reader{settingsSeen: true}, in); err != errFrameLength {
		t.Errorf("header of a long PING: %v", err)
	}
}

func TestTheMemoryOfAFieldBlockIsReleased(t *testing.T) {
	r := Reader{settingsSeen: true}
	readAll(&r, frame(Headers, 0, 1, strings.Repeat("x", 1000)))
	if r.Buffered() < 1000 {
		t.Errorf("%d bytes buffered within a block of 1000", r.Buffered())
	}
	readAll(&r, frame(Continuation, FlagEndHeaders, 1, "y"))
	if r.Buffered() != 0 {
		t.Errorf("%d bytes buffered after it", r.Buffered())
	}
}

func TestFramesWithoutContentAreDetected(t *testing.T) {
	for _, c := range []struct {
		in   string
		want bool
	}{
		{frame(Data, 0, 1, ""), true}, {frame(Data, FlagPadded, 1, "\x01\x00"), true}, {frame(Data, FlagEndStream, 1, ""), false},
		{frame(Data, 0, 1, "x"), false}, {frame(Headers, FlagEndHeaders, 1, ""), false}, {frame(RSTStream, 0, 1, "\x00\x00\x00\x00"), false},
		{frame(Settings, 0, 0, ""), true}, {frame(Settings, FlagAck, 0, ""), true}, {frame(Ping, 0, 0, "12345678"), true},
		{frame(Priority, 0, 1, "\x00\x00\x00\x03\x10"), true}, {frame(WindowUpdate, 0, 0, "\x00\x00\x00\x01"), true},
		{frame(99, 0, 0, "x"), true}, {frame(GoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00"), true},
	} {
		r := Reader{settingsSeen: true}
		var f Frame
		if _, ok, err := r.Next([]byte(c.in), &f); !ok || err != nil || f.CarriesNothing() != c.want {
			t.Errorf("%s: %v, %v, carries nothing %v", f.outline(), ok, err, f.CarriesNothing())
		}
	}
}

func TestThePrefaceIsDetectedFromItsFirstBytes(t *testing.T) {
	for in, want := range map[string][2]bool{
		"": {true, false}, "P": {true, false}, "PRI * HTTP/2.0\r\n": {true, false}, Preface: {true, true}, Preface + "x": {true, true},
		"PRI * HTTP/2.1": {false, false}, "POST": {false, false}, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\x00": {false, false},
		"POST / HTTP/1.1\r\nHost: a\r\n\r\n": {false, false},
	} {
		possible, whole := MatchPreface([]byte(in))
		if possible != want[0] || whole != want[1] {
			t.Errorf("%q: possible %v, whole %v", in, possible, whole)
		}
	}
}
