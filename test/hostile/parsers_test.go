package hostile

import (
	"errors"
	"strings"
	"testing"
)

func TestScriptsOfHostileMessagesExpandToTheDescribedBytes(t *testing.T) {
	cases := []struct{ script, want string }{
		{`a\r\n\t\0\x7f\\\{\}`, "a\r\n\t\x00\x7f\\{}"},
		{`{T}/{x 3 ab}`, "q000007t/ababab"},
		{`{x 2 {x 2 a}\n}`, "aa\naa\n"},
		{`{len b}:{hex b}:{<b}{x 20 c}{>b}`, "20:14:" + strings.Repeat("c", 20)},
		{`{fields 2}`, "X-Field-0: 0\r\nX-Field-1: 1\r\n"},
		{`a{pause}b`, "ab"},
	}
	for _, c := range cases {
		steps, err := expand(c.script, map[string]string{"T": tokenOf(7, "t")})
		if err != nil || string(written(steps)) != c.want {
			t.Errorf("%s is %q, %v; want %q", c.script, written(steps), err, c.want)
		}
	}
	for _, invalid := range []string{`{nothing}`, `\q`, `{x y z}`, `{len b}`, `{`, `a\`, `\x4`} {
		if _, err := expand(invalid, nil); !errors.Is(err, errScript) {
			t.Errorf("%s gave %v", invalid, err)
		}
	}
}

func TestTheStrictParserFindsTheEndOfARequest(t *testing.T) {
	const head = "POST /x HTTP/1.1\r\nHost: h\r\n"
	for _, complete := range []string{
		"GET /x HTTP/1.1\r\nHost: h\r\n\r\n",
		head + "Content-Length: 0\r\n\r\n",
		head + "Content-Length: 5\r\n\r\nhello",
		head + "Transfer-Encoding: CHUNKED\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
	} {
		m, err := parseRequest([]byte(complete+"GET "), false)
		if err != nil || m.end != len(complete) {
			t.Errorf("%q ends at %d, %v", complete, m.end, err)
		}
		for cut := range len(complete) {
			if _, err := parseRequest([]byte(complete[:cut]), false); !errors.Is(err, errIncomplete) {
				t.Errorf("%q gave %v, not an incomplete message", complete[:cut], err)
			}
		}
	}
}

func TestTheStrictParserRejectsAmbiguousRequests(t *testing.T) {
	const head = "POST /x HTTP/1.1\r\nHost: h\r\n"
	for _, invalid := range []string{
		"GET /x HTTP/1.1\nHost: h\r\n\r\n",
		"GET  /x HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /x HTTP/2.0\r\nHost: h\r\n\r\n",
		"GET /x HTTP/1.1\r\n\r\n",
		head + "Host: h\r\n\r\n",
		head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		head + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		head + "Content-Length: +1\r\n\r\nx",
		head + "Content-Length: 9223372036854775808\r\n\r\nx",
		head + "Transfer-Encoding: gzip, chunked\r\n\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX",
		head + "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
		head + "X : y\r\n\r\n", head + " X: y\r\n\r\n", head + "X: a\r\n b\r\n\r\n", head + "X: \x00\r\n\r\n", head + "X: a\rb\r\n\r\n",
	} {
		if _, err := parseRequest([]byte(invalid), false); !errors.Is(err, errMalformed) {
			t.Errorf("%q gave %v", invalid, err)
		}
	}
}

func TestTheStrictParserKnowsWhichResponsesHaveNoBody(t *testing.T) {
	cases := []struct {
		stream, method string
		connClosed     bool
		body           string
		err            error
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloX", "GET", false, "hello", nil},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", false, "", nil},
		{"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nX", "GET", false, "", nil},
		{"HTTP/1.1 204 No Content\r\n\r\nX", "GET", false, "", nil},
		{"HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\nX", "GET", false, "", errMalformed},
		{"HTTP/1.1 103 Early Hints\r\n\r\nX", "GET", false, "", nil},
		{"HTTP/1.1 200 OK\r\n\r\nhello", "GET", false, "hello", errIncomplete},
		{"HTTP/1.1 200 OK\r\n\r\nhello", "GET", true, "hello", nil},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "GET", true, "hello", errIncomplete},
		{"HTTP/1.1 99 OK\r\n\r\n", "GET", true, "", errMalformed},
		{"HTTP/1.1 1000 OK\r\n\r\n", "GET", true, "", errMalformed},
		{"HTTP/2.0 200 OK\r\n\r\n", "GET", true, "", errMalformed},
	}
	for _, c := range cases {
		m, err := parseResponse([]byte(c.stream), c.method, c.connClosed)
		if !errors.Is(err, c.err) || string(m.body) != c.body {
			t.Errorf("%q to %s has the body %q, %v", c.stream, c.method, m.body, err)
		}
	}
}

func TestADisagreementOfTheStrictParserWithNetHTTPIsAnError(t *testing.T) {
	stream := []byte("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET /y HTTP/1.1\r\nHost: h\r\n\r\n")
	first, err := parseRequest(stream, false)
	if err != nil {
		t.Fatal(err)
	}
	second, err := parseRequest(stream[first.end:], false)
	if err != nil {
		t.Fatal(err)
	}
	second.end += first.end
	if _, err := stdlibRequests(stream, []message{first, second}, 0); err != nil {
		t.Errorf("agreement gave %v", err)
	}
	if i, err := stdlibRequests(stream, []message{first}, 0); err == nil || i != 1 {
		t.Errorf("a request that only one reader sees gave %d, %v", i, err)
	}
	shorter := first
	shorter.end--
	if i, err := stdlibRequests(stream, []message{shorter, second}, 0); err == nil || i != 0 {
		t.Errorf("an end that only one reader sees gave %d, %v", i, err)
	}
	responses := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	list := readResponses(responses, []string{"HEAD"}, endNone)
	if err := stdlibResponses(responses, list.all, []string{"GET"}, true); err == nil {
		t.Error("a body that only one reader sees gave no error")
	}
}

func TestEveryDisagreementOfTheParsersIsReported(t *testing.T) {
	var stream []byte
	cc := &containerConn{runs: []arrival{{0, 1}}}
	for run := 1; run <= 3; run++ {
		stream = append(stream, "POST /"+tokenOf(run, "t")+" HTTP/1.1\r\nHost: h\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"...)
	}
	byRun, seen := map[int]*outcome{}, map[int]*arrivals{}
	for at, run := 0, 1; run <= 3; run++ {
		m, err := parseRequest(stream[at:], false)
		if err != nil {
			t.Fatal(err)
		}
		m.end += at
		at = m.end
		cc.messages = append(cc.messages, m)
		byRun[run], seen[run] = &outcome{}, &arrivals{}
	}
	cc.received = stream
	judgeConnection(cc, func(run int) *arrivals { return seen[run] }, byRun)
	for run, o := range byRun {
		if len(o.findings) != 1 || o.findings[0].kind != unsafe {
			t.Errorf("run %d got %q", run, o.findings)
		}
	}
}
