package wire

import (
	"strings"
	"testing"
)

func responseOf(method string, lines ...string) (*Response, error) {
	r := new(Response)
	_, err := readAs(r, strings.Join(append(lines, "", ""), "\r\n"), method, nil)
	return r, err
}

func mustResponse(t *testing.T, method string, lines ...string) *Response {
	t.Helper()
	r, err := responseOf(method, lines...)
	if err != nil || len(r.Raw) == 0 {
		t.Fatalf("%q: %v", lines, err)
	}
	return r
}

func TestInvalidStatusLinesAreRejected(t *testing.T) {
	for _, c := range []struct {
		name, line string
		err        error
	}{
		{"too short", "HTTP/1.1", ErrMalformed},
		{"no status", "HTTP/1.1 ", ErrMalformed},
		{"two digits", "HTTP/1.1 20", ErrMalformed},
		{"two digits and a reason", "HTTP/1.1 20 OK", ErrMalformed},
		{"four digits", "HTTP/1.1 2000", ErrMalformed},
		{"a status below 100", "HTTP/1.1 099 x", ErrMalformed},
		{"a status that is no number", "HTTP/1.1 2x0 OK", ErrMalformed},
		{"a sign", "HTTP/1.1 +20 OK", ErrMalformed},
		{"two spaces after the version", "HTTP/1.1  200 OK", ErrMalformed},
		{"a tab after the version", "HTTP/1.1\t200 OK", ErrMalformed},
		{"a tab after the status", "HTTP/1.1 200\tOK", ErrMalformed},
		{"a control byte in the reason", "HTTP/1.1 200 O\x01K", ErrMalformed},
		{"HTTP/2 in so many words", "HTTP/2 200 OK", ErrMalformed},
		{"HTTP/2.0", "HTTP/2.0 200 OK", ErrVersion},
		{"a lower-case version", "http/1.1 200 OK", ErrMalformed},
		{"another protocol", "ICY/1.1 200 OK", ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := responseOf("GET", c.line); err != c.err {
				t.Errorf("%q: got %v, want %v", c.line, err, c.err)
			}
		})
	}
}

func TestResponsesAreFramedAsRFC9112Requires(t *testing.T) {
	for _, c := range []struct {
		name, method, head string
		kind               BodyKind
		length             int64
	}{
		{"a length is a length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5", BodyLength, 5},
		{"chunked is chunked", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", BodyChunked, 0},
		{"neither means until the end", "GET", "HTTP/1.1 200 OK", BodyUntilClose, 0},
		{"HEAD has no body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5", NoBody, 5},
		{"not even a chunked one", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", NoBody, 0},
		{"head is another method", "head", "HTTP/1.1 200 OK\r\nContent-Length: 5", BodyLength, 5},
		{"304 has none", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5", NoBody, 5},
		{"204 has none and no length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5", NoBody, 0},
		{"204 has none and no coding", "GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked", NoBody, 0},
		{"1xx has none", "GET", "HTTP/1.1 103 Early Hints\r\nContent-Length: 5", NoBody, 0},
		{"205 may have one", "GET", "HTTP/1.1 205 Reset\r\nContent-Length: 5", BodyLength, 5},
		{"999 may have one", "GET", "HTTP/1.1 999 x\r\nContent-Length: 5", BodyLength, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustResponse(t, c.method, c.head)
			wantSame(t, "kind", r.Body, c.kind)
			wantSame(t, "length", r.Length, c.length)
		})
	}
}

func TestAmbiguousResponsesAreRejected(t *testing.T) {
	for name, lines := range map[string]string{
		"two lengths":                "Content-Length: 5\r\nContent-Length: 6",
		"two ways to write a length": "Content-Length: 5\r\nContent-Length: 05",
		"a list of two lengths":      "Content-Length: 5, 6",
		"a list with a gap":          "Content-Length: 5,",
		"a length and none":          "Content-Length: 5\r\nContent-Length:",
		"a bad length":               "Content-Length: 5x",
		"an empty length":            "Content-Length:",
		"both framings":              "Content-Length: 5\r\nTransfer-Encoding: chunked",
		"two codings":                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"a list of codings":          "Transfer-Encoding: gzip, chunked",
		"identity":                   "Transfer-Encoding: identity",
		"an empty coding":            "Transfer-Encoding:",
		"a coding with a sharp edge": "Transfer-Encoding: chun\u212aed",
	} {
		for _, status := range []string{"200 OK", "304 Not Modified", "204 No Content", "100 Continue"} {
			if _, err := responseOf("GET", "HTTP/1.1 "+status, lines); err != ErrMalformed {
				t.Errorf("%s with %s: %v", name, status, err)
			}
		}
	}
	if _, err := responseOf("GET", "HTTP/1.0 200 OK", "Transfer-Encoding: chunked"); err != ErrMalformed {
		t.Errorf("a coding in HTTP/1.0: %v", err)
	}
}

func TestAResponseDecidesWhetherItsConnectionIsReused(t *testing.T) {
	for _, c := range []struct {
		name, head string
		want       bool
	}{
		{"HTTP/1.1 with a length is used again", "HTTP/1.1 200 OK\r\nContent-Length: 0", true},
		{"so is chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", true},
		{"so is 304", "HTTP/1.1 304 x", true},
		{"not if it says close", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close", false},
		{"not if only the end ends it", "HTTP/1.1 200 OK\r\nConnection: keep-alive", false},
		{"not HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0", false},
		{"unless it says keep-alive", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive", true},
		{"and not close", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\nConnection: close", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantSame(t, "reusable", mustResponse(t, "GET", c.head).Reusable(), c.want)
		})
	}
}

func TestTheGateAddsAndRemovesFieldsInForwardedResponseHeads(t *testing.T) {
	const date = "Date: now\r\n"
	for _, c := range []struct {
		name, in string
		f        Framing
		want     string
	}{
		{"fields keep order, case, repetitions and white space",
			"HTTP/1.1 200 Fine\r\nset-COOKIE:a\r\nDate:  then\r\nset-COOKIE:\tb \r\nE:\r\nContent-Length: 5", Framing{},
			"HTTP/1.1 200 Fine\r\nset-COOKIE:a\r\nDate:  then\r\nset-COOKIE:\tb \r\nE:\r\nContent-Length: 5\r\n"},
		{"a Date is added if there is none", "HTTP/1.1 200 OK\r\nContent-Length: 0", Framing{},
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + date},
		{"or if Connection took it", "HTTP/1.1 200 OK\r\nConnection: date\r\nDate: then\r\nContent-Length: 0", Framing{},
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + date},
		{"HTTP/1.0 goes out as 1.1", "HTTP/1.0 200 OK\r\nContent-Length: 0", Framing{},
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + date},
		{"a missing reason keeps its space", "HTTP/1.1 404\r\nContent-Length: 0", Framing{},
			"HTTP/1.1 404 \r\nContent-Length: 0\r\n" + date},
		{"an odd reason stays", "HTTP/1.1 404  \xff (no)\r\nContent-Length: 0", Framing{},
			"HTTP/1.1 404  \xff (no)\r\nContent-Length: 0\r\n" + date},
		{"hop-by-hop and gate fields end here",
			"HTTP/1.1 200 OK\r\nConnection: x\r\nX: y\r\nKeep-Alive: z\r\nProxy-Connection: z\r\nProxy-Authenticate: z\r\nTE: z\r\nUpgrade: z\r\nTransfer-Encoding: chunked\r\nk-gate-outcome: z\r\nA: b",
			Framing{Chunked: true}, "HTTP/1.1 200 OK\r\nA: b\r\n" + date + "Transfer-Encoding: chunked\r\n"},
		{"chunked for HTTP/1.0 is until the end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", Framing{Close: true},
			"HTTP/1.1 200 OK\r\n" + date + "Connection: close\r\n"},
		{"keep-alive is said to HTTP/1.0", "HTTP/1.1 200 OK\r\nContent-Length: 0", Framing{KeepAlive: true},
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + date + "Connection: keep-alive\r\n"},
		{"but not with close", "HTTP/1.1 200 OK\r\nContent-Length: 0", Framing{KeepAlive: true, Close: true},
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + date + "Connection: close\r\n"},
		{"Connection cannot name the length", "HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 0", Framing{},
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + date},
		{"equal lengths are one", "HTTP/1.1 200 OK\r\nContent-Length: 05\r\nA: b\r\ncontent-length:  05 ", Framing{},
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n" + date},
		{"in a list too", "HTTP/1.1 200 OK\r\nContent-Length: 5 ,5", Framing{}, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + date},
		{"204 loses both", "HTTP/1.1 204 x\r\nContent-Length: 5, 5", Framing{}, "HTTP/1.1 204 x\r\n" + date},
		{"204 loses its length", "HTTP/1.1 204 x\r\nContent-Length: 5\r\nA: b", Framing{}, "HTTP/1.1 204 x\r\nA: b\r\n" + date},
		{"304 keeps it", "HTTP/1.1 304 x\r\nContent-Length: 5", Framing{}, "HTTP/1.1 304 x\r\nContent-Length: 5\r\n" + date},
		{"an interim response gets no added fields", "HTTP/1.1 103 Early Hints\r\nLink: a\r\nConnection: close\r\nLink: b", Framing{Interim: true},
			"HTTP/1.1 103 Early Hints\r\nLink: a\r\nLink: b\r\n"},
		{"a switch keeps its Upgrade", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\nA: b", Framing{Interim: true},
			"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nA: b\r\nConnection: Upgrade\r\n"},
		{"what may not trail is not announced", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Content-Length\r\nTrailer: K-Gate-Outcome", Framing{Chunked: true},
			"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\n" + date + "Transfer-Encoding: chunked\r\n"},
		{"what trails is announced", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum", Framing{Chunked: true},
			"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\n" + date + "Transfer-Encoding: chunked\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustResponse(t, "GET", c.in)
			got := string(r.AppendHead([]byte("before"), c.f, []byte("now")))
			if want := "before" + c.want + "\r\n"; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}
