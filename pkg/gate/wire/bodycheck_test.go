//go:build race

package wire

import (
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

func TestABodyOfAnotherLengthThanAnnouncedIsReportedAsABug(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n"
	for _, c := range []struct {
		name     string
		head     string
		chunked  bool
		bodiless bool
		sent     int
		ended    bool
		bug      string // "" = none
	}{
		{"none", get, false, false, 0, true, ""},
		{"an unannounced body", get, false, false, 1, false, "1 bytes of content, and the head announced 0"},
		{"a length", get + "Content-Length: 5\r\n", false, false, 5, true, ""},
		{"a shorter one", get + "content-length: 5\r\n", false, false, 4, true, "ends after 4 bytes, and the head announced 5"},
		{"a truncated body", get + "Content-Length: 5\r\n", false, false, 4, false, ""},
		{"a longer one", get + "Content-Length: 5\r\n", false, false, 6, false, "6 bytes of content, and the head announced 5"},
		{"chunks", get + "Transfer-Encoding: chunked\r\n", true, false, 9, true, ""},
		{"chunks that were not announced", get, true, false, 0, false, "chunked: true"},
		{"a coding without chunks", get + "Transfer-Encoding: chunked\r\n", false, false, 0, false, "chunked: false"},
		{"a length and a coding", get + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", true, false, 0, false, "before a body"},
		{"two lengths", get + "Content-Length: 5\r\nContent-Length: 5\r\n", false, false, 0, false, "before a body"},
		{"a response until the end", "HTTP/1.1 200 OK\r\n", false, false, 9, true, ""},
		{"a response to HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", false, true, 0, true, ""},
		{"a response to HEAD with content", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", false, true, 5, true, "announced 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantBug(t, c.bug, func() {
				var check BodyCheck
				check.Begin([]byte(c.head+"\r\n"), c.chunked, c.bodiless)
				check.Sent(c.sent)
				if c.ended {
					check.End()
				}
			})
		})
	}
}

func TestAnHTTP2MessageWithWrongFramingIsReportedAsABug(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields []string
		end    bool
		sent   int
		bug    string
	}{
		{"a length", []string{"content-length", "5"}, false, 5, ""},
		{"a longer one", []string{"content-length", "5"}, false, 6, "announced 5"},
		{"a length and the end", []string{"content-length", "5"}, true, 0, "ends after 0 bytes"},
		{"two lengths", []string{"content-length", "5", "content-length", "5"}, false, 0, "content-length: 5 in a head"},
		{"a coding", []string{"transfer-encoding", "chunked"}, false, 0, "transfer-encoding: chunked in a head"},
		{"a length of a tunnel", []string{":protocol", "websocket", "content-length", "0"}, false, 0, "extended CONNECT: true"},
		{"an expectation of a tunnel", []string{":protocol", "websocket", "expect", "100-continue"}, false, 0, "extended CONNECT: true"},
		{"a tunnel", []string{":protocol", "websocket"}, false, 100, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantBug(t, c.bug, func() {
				var check BodyCheck
				check.BeginHTTP2(func(dst []byte, e *h2.Encoder) []byte {
					for i := 0; i < len(c.fields); i += 2 {
						dst = e.AppendText(dst, []byte(c.fields[i]), []byte(c.fields[i+1]))
					}
					return dst
				}, false, c.end)
				check.Sent(c.sent)
			})
		})
	}
}

func wantBug(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		switch v := recover(); {
		case v == nil && want != "":
			t.Errorf("no panic, want %q", want)
		case v != nil && (want == "" || !strings.Contains(v.(string), want)):
			t.Errorf("panic %q, want %q", v, want)
		}
	}()
	f()
}
