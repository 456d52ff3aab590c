package wire

import (
	"net/netip"
	"testing"
)

func TestAcceptGivesWeightsToMediaTypes(t *testing.T) {
	for accept, want := range map[string][2]int{
		"text/event-stream":                                   {1000, 0},
		"Text/Event-Stream;charset=utf-8;Q=0.5":               {500, 0},
		"text/event-stream; q=0":                              {0, 0},
		"text/event-stream;q=0.0":                             {0, 0},
		"text/event-stream;q=1.000, */*":                      {1000, 0},
		"text/event-stream;q=0.123":                           {123, 0},
		"text/event-stream;q=1.001":                           {0, 0},
		"text/event-stream;q=2":                               {0, 0},
		"text/event-stream;q=0.1234":                          {0, 0},
		"text/event-stream;q=":                                {0, 0},
		"text/event-stream;q=x":                               {0, 0},
		"text/event-streams, text/*, */*":                     {0, 1000},
		"application/json, text/event-stream":                 {1000, 1000},
		"application/json;q=0.9 , text/event-stream,text/*":   {1000, 900},
		"text/event-stream;q=0.2\r\nAccept: application/json": {200, 1000},
		"":                                {0, 0},
		", ,":                             {0, 0},
		"text/event-stream;a=b;q=0.7;q=1": {700, 0},
		"application/json;q=0.3,text/event-stream;q=0.4;q=0.01": {400, 300},
	} {
		r := mustRequest(t, "GET / HTTP/1.1", "Host: a", "Accept: "+accept)
		if weight, others := r.AcceptWeight(EventStreamType); weight != want[0] || others != want[1] {
			t.Errorf("%q: %d and %d, want %d and %d", accept, weight, others, want[0], want[1])
		}
	}
	if weight, others := mustRequest(t, "GET / HTTP/1.1", "Host: a").AcceptWeight(EventStreamType); weight != 0 || others != 0 {
		t.Errorf("without Accept: %d and %d", weight, others)
	}
}

func TestOnlyAnUnencodedEventStreamMayFollowTheHeadSentByTheGate(t *testing.T) {
	for head, want := range map[string]bool{
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n":                                  true,
		"HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream ; charset=utf-8\r\n\r\n":                  true,
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: identity\r\n\r\n":    true,
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n":        false,
		"HTTP/1.1 201 Created\r\nContent-Type: text/event-stream\r\n\r\n":                             false,
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-streams\r\n\r\n":                                 false,
		"HTTP/1.1 200 OK\r\nContent-Type: application/json; of=text/event-stream\r\n\r\n":             false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                                                false,
		"HTTP/1.1 200 OK\r\nContent-Encoding: br, gzip\r\nContent-Type: text/event-stream\r\n\r\n":    false,
		"HTTP/1.1 206 Partial\r\nContent-Type: text/event-stream\r\nContent-Range: bytes */9\r\n\r\n": false,
	} {
		if got := newResponse(head).IsEventStream(); got != want {
			t.Errorf("%q: %v", head, got)
		}
	}
	if !EventStreamHead.IsEventStream() || EventStreamHead.Body != BodyUntilClose {
		t.Errorf("the head of the gate: body %v", EventStreamHead.Body)
	}
}

func TestDropAcceptEncodingRemovesEveryAcceptEncoding(t *testing.T) {
	r := mustRequest(t, "GET / HTTP/1.1", "Host: a", "accept-encoding: gzip", "Accept: text/event-stream", "Accept-Encoding: br")
	r.DropAcceptEncoding()
	const want = "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n"
	if got := string(r.AppendHead(nil, netip.MustParseAddr("127.0.0.1"), nil)); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("%q, want %q first", got, want)
	}
}

func TestARequestWithoutSecFetchModeMayBeANavigation(t *testing.T) {
	for lines, want := range map[string]bool{"X: y": true, "Sec-Fetch-Mode: navigate": true, "sec-fetch-mode: cors": false, "Sec-Fetch-Mode: no-cors": false} {
		if got := mustRequest(t, "GET / HTTP/1.1", "Host: a", lines).Navigates(); got != want {
			t.Errorf("%s: %v", lines, got)
		}
	}
}
