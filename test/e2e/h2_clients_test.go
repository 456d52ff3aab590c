package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// overHTTP2 is set if the program overh2 converts the HTTP/1.1 of the tests' clients to
// HTTP/2.
var overHTTP2 = os.Getenv("QUEUEGATE_CLIENTS") == "h2"

// TestHTTP1RulesApplyToHTTP2Clients repeats the tests of sections C, D, E and G with
// HTTP/2 between their clients and the gate.
func TestHTTP1RulesApplyToHTTP2Clients(t *testing.T) { awaitRepetition(t) }

func isNotOverHTTP2(name string) bool {
	if os.Getenv("OVERH2_TLS") == "1" && strings.Contains(name, "OneGiB") {
		// The tests with OneGiB in their name limit the memory of the gate. Their limits are
		// for a gate without TLS, so these tests do not run with TLS.
		return true
	}
	rows, err := rowsOf("Not over HTTP/2")
	return err == nil && slices.Contains(rows, name)
}

// headLimit is the maximum size of a request head in bytes. fieldLimit is the maximum
// number of fields "X-Many: 1" in a request head. Over HTTP/2 the gate has no separate
// limit for the number of fields. There it adds 32 bytes to the size of a head for each
// field, so the limit on the size also limits their number.
var headLimit, fieldLimit = limits()

func limits() (head, fields int) {
	if overHTTP2 {
		return 64 << 10, (64<<10)/(len("x-many")+len("1")+32) - 5
	}
	return 1 << 20, 4096
}

// asSent converts a status line and field lines to the form that the client receives.
// HTTP/2 has lower-case names and no reason phrases.
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

// ofConnection reports whether a field is connection-specific, and thus malformed in
// HTTP/2.
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

// ofHTTP1 reports whether a request has a fault that HTTP/2 cannot express.
func ofHTTP1(raw string) bool {
	head, _, _ := strings.Cut(raw, "\r\n\r\n")
	lower := strings.ToLower(head)
	return strings.Contains(strings.ReplaceAll(head, "\r\n", ""), "\n") || strings.Contains(head, "\r\n ") || strings.Contains(head, "no colon") ||
		strings.Contains(lower, "transfer-encoding: chunked") || strings.HasSuffix(strings.SplitN(head, "\r\n", 2)[0], "HTTP/1.0") ||
		len(strings.Split(strings.SplitN(head, "\r\n", 2)[0], " ")) != 3
}
