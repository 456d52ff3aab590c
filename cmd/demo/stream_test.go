package main

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestStreamSendsEachLineInASeparateChunk(t *testing.T) {
	conn := dial(t, start(t))
	io.WriteString(conn, "GET /stream?n=3&ms=1 HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(conn)
	_, body, _ := strings.Cut(string(all), "\r\n\r\n")
	want := "d\r\nchunk 1 of 3\n\r\nd\r\nchunk 2 of 3\n\r\nd\r\nchunk 3 of 3\n\r\n0\r\n\r\n"
	if body != want || err != nil {
		t.Errorf("body is %q, %v; want %q", body, err, want)
	}
}

func TestTheFirstEventIsSentImmediately(t *testing.T) {
	conn := dial(t, start(t))
	// The second event is due after an hour. If the first event were buffered until then,
	// the test would time out.
	io.WriteString(conn, "GET /events?n=0&ms=3600000 HTTP/1.1\r\nHost: demo\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("type is %q", kind)
	}
	want := "id: 1\nevent: tick\ndata: {\"tick\":1}\n\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
		t.Errorf("event is %q, %v; want %q", got, err, want)
	}
}

func TestAStopEndsEventsCleanlyAndLetsStreamsFinish(t *testing.T) {
	address, stop := startStoppable(t)
	open := func(target string) *http.Response {
		conn := dial(t, address)
		io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: demo\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	events, lines := open("/events?n=0&ms=3600000"), open("/stream?n=3&ms=50")
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if got, err := io.ReadAll(events.Body); err != nil || !strings.HasPrefix(string(got), "id: 1\n") {
		t.Errorf("events ended with %q, %v; want a clean end", got, err)
	}
	if got, err := io.ReadAll(lines.Body); err != nil || !strings.HasSuffix(string(got), "chunk 3 of 3\n") {
		t.Errorf("stream ended with %q, %v; want all three", got, err)
	}
}
