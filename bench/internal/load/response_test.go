package load

import (
	"errors"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

// feedAll passes text to the parser in pieces of n bytes. Unconsumed bytes are passed
// again together with the next piece.
func feedAll(a *response, text string, n int) (statuses []int, body string, remaining string, err error) {
	var sunk strings.Builder
	var pending []byte
	for len(text) > 0 {
		n := min(n, len(text))
		pending = append(pending, text[:n]...)
		text = text[n:]
		for {
			used, isComplete, err := a.feed(pending, func(p []byte) { sunk.Write(p) })
			pending = pending[used:]
			if err != nil {
				return statuses, sunk.String(), string(pending), err
			}
			if !isComplete {
				break
			}
			statuses = append(statuses, a.status)
		}
	}
	return statuses, sunk.String(), string(pending), nil
}

func TestResponsesAreParsedInPiecesOfAnySize(t *testing.T) {
	for _, c := range []struct {
		name, text string
		statuses   []int
		body       string
	}{
		{"a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", []int{200}, "hello"},
		{"a Content-Length in mixed case", "HTTP/1.1 200 OK\r\ncONTENT-lENGTH:  5 \r\n\r\nhello", []int{200}, "hello"},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", []int{204}, ""},
		{"an empty body", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", []int{503}, ""},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, worlds!!\r\n0\r\n\r\n", []int{200}, "hello, worlds!!"},
		{"chunks and a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n", []int{200}, "x"},
		{"a chunk that contains a last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", []int{200}, "\r\n0\r\n\r\n"},
		{"an interim response before the final one", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", []int{200}, "x"},
		{"an upgrade", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", []int{101}, ""},
		{"two in a row", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nb", []int{200, 404}, "ab"},
	} {
		for n := 1; n <= len(c.text); n++ {
			var a response
			statuses, body, remaining, err := feedAll(&a, c.text, n)
			if err != nil || remaining != "" || body != c.body || !equal(statuses, c.statuses) {
				t.Fatalf("%s in pieces of %d: statuses %v, body %q, left %q, %v", c.name, n, statuses, body, remaining, err)
			}
		}
	}
}

func TestABodyWithoutALengthEndsWithTheConnection(t *testing.T) {
	var a response
	statuses, body, _, err := feedAll(&a, "HTTP/1.1 200 OK\r\n\r\nhello", 3)
	if err != nil || len(statuses) != 0 || body != "hello" {
		t.Fatalf("before the end: %v, %q, %v", statuses, body, err)
	}
	if isComplete, err := a.handleEOF(); !isComplete || err != nil || !a.close {
		t.Fatalf("at the end: %v, %v", isComplete, err)
	}
}

func TestATruncatedResponseIsAnError(t *testing.T) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"HTTP/1.1 2",
	} {
		var a response
		if _, _, _, err := feedAll(&a, text, len(text)); err != nil {
			t.Fatal(err)
		}
		if isComplete, err := a.handleEOF(); isComplete || !errors.Is(err, errCut) {
			t.Errorf("%q: whole %v, %v", text, isComplete, err)
		}
	}
	var a response
	if isComplete, err := a.handleEOF(); isComplete || !errors.Is(err, errClosed) {
		t.Errorf("before the first byte: whole %v, %v", isComplete, err)
	}
}

func TestMalformedResponsesAreErrors(t *testing.T) {
	for _, text := range []string{
		"SSH-2.0-OpenSSH_9.2\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 20x OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		strings.Repeat("x", wire.MaxHead+1),
	} {
		var a response
		if statuses, _, _, err := feedAll(&a, text, len(text)); err == nil {
			t.Errorf("%.40q was parsed as %v", text, statuses)
		}
	}
}

func TestTheLoadGeneratorNeverDiscardsTheEndOfAResponse(t *testing.T) {
	var a response
	head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n"
	if _, _, _, err := feedAll(&a, head, len(head)); err != nil {
		t.Fatal(err)
	}
	if n := a.discardable(); n != 1000 {
		t.Fatalf("of a chunk of 1000 bytes %d may be discarded", n)
	}
	a.discarded(1000)
	statuses, _, remaining, err := feedAll(&a, "\r\n0\r\n\r\n", 1)
	if err != nil || remaining != "" || !equal(statuses, []int{200}) {
		t.Fatalf("after discarding: %v, %q, %v", statuses, remaining, err)
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
