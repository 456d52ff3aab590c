package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// overHTTP2 tells that overh2 stands between the clients of these tests and the
// gate: what the client sends and gets as HTTP/1.1 are streams of HTTP/2.
var overHTTP2 = os.Getenv("QUEUEGATE_CLIENTS") == "h2"

// TestTheRowsOfHTTP1HoldOverHTTP2 runs the tests of sections C, D, E and G once more,
// with HTTP/2 between their clients and the gate.
func TestTheRowsOfHTTP1HoldOverHTTP2(t *testing.T) {
	t.Parallel()
	not := rowsOf(t, "Not over HTTP/2")
	names := slices.DeleteFunc(rowsOf(t, "C", "D", "E", "G"), func(name string) bool {
		buffers := os.Getenv("OVERH2_TLS") == "1" && strings.Contains(name, "Gibibyte") // its bound is that of plain text
		return buffers || slices.Contains(not, name)
	})
	once(t, "./test/e2e/overh2", names, "QUEUEGATE_CLIENTS=h2")
}

// Limits of a head. Over HTTP/2 that is one number, in which each field counts
// for 32 octets more than it has.
var headLimit, fieldLimit = limits()

func limits() (head, fields int) {
	if overHTTP2 {
		return 64 << 10, (64<<10)/(len("x-many")+len("1")+32) - 5
	}
	return 1 << 20, 4096
}

// asSent is what becomes of text that is sent, a status line or field lines:
// HTTP/2 has names in lower case only and no reason phrase.
func asSent(text string) string {
	if !overHTTP2 {
		return text
	}
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			line = strings.ToLower(name) + ":" + value
		} else if rest, ok := strings.CutPrefix(line, "HTTP/1.1 "); ok {
			code := 0
			_, _ = fmt.Sscanf(rest, "%d", &code)
			line = fmt.Sprintf("HTTP/1.1 %d %s\r\n", code, http.StatusText(code))
		}
		b.WriteString(line)
	}
	return b.String()
}

// ofConnection reports that a field line is malformed over HTTP/2, which has
// other means for what it says.
func ofConnection(line string) bool {
	name, value, _ := strings.Cut(strings.ToLower(line), ":")
	value = strings.TrimSpace(value)
	switch name {
	case "connection":
		return value != "close" && value != "keep-alive"
	case "keep-alive", "proxy-connection", "upgrade":
		return true
	case "te":
		return value != "trailers"
	}
	return false
}

// ofHTTP1 reports that a request is wrong in a way that HTTP/2 cannot put: in
// what divides lines, or in the coding of a body.
func ofHTTP1(raw string) bool {
	head, _, _ := strings.Cut(raw, "\r\n\r\n")
	lower := strings.ToLower(head)
	return strings.Contains(strings.ReplaceAll(head, "\r\n", ""), "\n") || strings.Contains(head, "\r\n ") || strings.Contains(head, "no colon") ||
		strings.Contains(lower, "transfer-encoding: chunked") || strings.HasSuffix(strings.SplitN(head, "\r\n", 2)[0], "HTTP/1.0") ||
		len(strings.Split(strings.SplitN(head, "\r\n", 2)[0], " ")) != 3
}
