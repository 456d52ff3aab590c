package wire

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

func requestOf(lines ...string) (*Request, error) {
	r := new(Request)
	_, err := read(r, strings.Join(append(lines, "", ""), "\r\n"), nil)
	return r, err
}

func mustRequest(t *testing.T, lines ...string) *Request {
	t.Helper()
	r, err := requestOf(lines...)
	if err != nil || len(r.Raw) == 0 {
		t.Fatalf("%q: %v", lines, err)
	}
	return r
}

func TestTargetsAreForwardedInOriginForm(t *testing.T) {
	long := "/" + strings.Repeat("x", 60<<10)
	for _, c := range []struct{ name, method, sent, target, origin string }{
		{"a path is forwarded unchanged", "GET", "/a/b", "/a/b", ""},
		{"double slashes are forwarded unchanged", "GET", "//a//b", "//a//b", ""},
		{"dot segments", "GET", "/a/./../b", "/a/./../b", ""},
		{"percent-encoding, even of letters and NUL", "GET", "/%2F%41%00%fF", "/%2F%41%00%fF", ""},
		{"semicolons, commas, at signs", "GET", "/;a,b@c:d", "/;a,b@c:d", ""},
		{"an empty query", "GET", "/?", "/?", ""},
		{"question marks in the query", "GET", "/a??b?c", "/a??b?c", ""},
		{"anything behind a percent sign in the query", "GET", "/a?%zz%", "/a?%zz%", ""},
		{"raw bytes that want encoding", "GET", "/\xc3\xa9\"<>^{}|\\`", "/\xc3\xa9\"<>^{}|\\`", ""},
		{"a fragment that should not be there", "GET", "/a#b", "/a#b", ""},
		{"60 KiB", "GET", long, long, ""},
		{"an asterisk of OPTIONS", "OPTIONS", "*", "*", ""},
		{"an absolute form gives authority and path", "GET", "http://h/p?q", "/p?q", "h"},
		{"with port", "GET", "http://h:80/p", "/p", "h:80"},
		{"with an empty port", "GET", "http://h:/p", "/p", "h:"},
		{"with an address", "GET", "http://[2001:db8::1]:8080/", "/", "[2001:db8::1]:8080"},
		{"without path", "GET", "http://h", "/", "h"},
		{"without path but with query", "GET", "http://h?q/r", "/?q/r", "h"},
		{"in any case of the scheme", "GET", "HtTpS://H/p", "/p", "H"},
		{"with double slashes after the authority", "GET", "http://h//p", "//p", "h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustRequest(t, c.method+" "+c.sent+" HTTP/1.1", "Host: a")
			wantSame(t, "method", string(r.Method), c.method)
			wantSame(t, "target", string(r.Target), c.target)
			wantSame(t, "authority", string(r.hosts.origin), c.origin)
			wantSame(t, "asterisk", r.Asterisk, c.target == "*")
		})
	}
}

func TestInvalidStartLinesAreRejected(t *testing.T) {
	for _, c := range []struct {
		name, line string
		err        error
	}{
		{"an empty line", "", ErrMalformed},
		{"a method alone", "GET", ErrMalformed},
		{"no version", "GET /", ErrMalformed},
		{"no target", "GET HTTP/1.1", ErrMalformed},
		{"an empty target", "GET  HTTP/1.1", ErrMalformed},
		{"two spaces after the method", "GET  / HTTP/1.1", ErrMalformed},
		{"two spaces before the version", "GET /  HTTP/1.1", ErrMalformed},
		{"a space at the end", "GET / HTTP/1.1 ", ErrMalformed},
		{"a space at the beginning", " GET / HTTP/1.1", ErrMalformed},
		{"a tab after the method", "GET\t/ HTTP/1.1", ErrMalformed},
		{"a tab before the version", "GET /\tHTTP/1.1", ErrMalformed},
		{"a method that is no token", "G(T / HTTP/1.1", ErrMalformed},
		{"a space in the target", "GET /a b HTTP/1.1", ErrMalformed},
		{"a tab in the target", "GET /a\tb HTTP/1.1", ErrMalformed},
		{"a NUL in the target", "GET /\x00 HTTP/1.1", ErrMalformed},
		{"a DEL in the target", "GET /\x7f HTTP/1.1", ErrMalformed},
		{"no leading slash", "GET a HTTP/1.1", ErrMalformed},
		{"a query alone", "GET ?a HTTP/1.1", ErrMalformed},
		{"an asterisk of GET", "GET * HTTP/1.1", ErrMalformed},
		{"an asterisk and more", "OPTIONS */ HTTP/1.1", ErrMalformed},
		{"a lower-case options method with an asterisk", "options * HTTP/1.1", ErrMalformed},
		{"half a triplet", "GET /%4 HTTP/1.1", ErrMalformed},
		{"a percent sign alone", "GET /% HTTP/1.1", ErrMalformed},
		{"a triplet that is not hexadecimal", "GET /%41%4g HTTP/1.1", ErrMalformed},
		{"a triplet that the query cuts", "GET /%4?1 HTTP/1.1", ErrMalformed},
		{"a triplet behind good ones", "GET /%41a%42%zz HTTP/1.1", ErrMalformed},
		{"another scheme", "GET ftp://h/ HTTP/1.1", ErrMalformed},
		{"an authority alone", "GET h:80 HTTP/1.1", ErrMalformed},
		{"an absolute form without authority", "GET http:///p HTTP/1.1", ErrMalformed},
		{"with a port alone", "GET http://:80/p HTTP/1.1", ErrMalformed},
		{"with user information", "GET http://u@h/p HTTP/1.1", ErrMalformed},
		{"with a bad port", "GET http://h:8x/p HTTP/1.1", ErrMalformed},
		{"with a fragment for a path", "GET http://h#f HTTP/1.1", ErrMalformed},
		{"with a bad triplet in the path", "GET http://h/%4 HTTP/1.1", ErrMalformed},
		{"CONNECT", "CONNECT h:80 HTTP/1.1", ErrMethod},
		{"CONNECT with a path", "CONNECT / HTTP/1.1", ErrMethod},
		{"HTTP/2", "GET / HTTP/2.0", ErrVersion},
		{"HTTP/0.9", "GET / HTTP/0.9", ErrVersion},
		{"HTTP/9", "GET / HTTP/9.1", ErrVersion},
		{"a lower-case version", "GET / http/1.1", ErrMalformed},
		{"a version without minor", "GET / HTTP/1", ErrMalformed},
		{"a version of two digits", "GET / HTTP/1.10", ErrMalformed},
		{"a version with a comma", "GET / HTTP/1,1", ErrMalformed},
		{"another protocol", "GET / HTTQ/1.1", ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := requestOf(c.line, "Host: a"); err != c.err {
				t.Errorf("%q: got %v, want %v", c.line, err, c.err)
			}
		})
	}
}

func TestMinorVersionsAboveOneCountAsOne(t *testing.T) {
	for v, want := range map[string]int{"HTTP/1.0": 0, "HTTP/1.1": 1, "HTTP/1.2": 1, "HTTP/1.9": 1} {
		wantSame(t, v, mustRequest(t, "GET / "+v, "Host: a").Minor, want)
	}
}

func TestOnlyValidHostsAreAccepted(t *testing.T) {
	for host, want := range map[string]bool{
		"a": true, "a.b.c": true, "A-b_c~d": true, "a:80": true, "a:": true, "127.0.0.1": true, "127.0.0.1:8080": true,
		"a:99999": true, "!$&'()*+,;=": true, "%41%fF": true, "xn--bcher-kva.example": true,
		"[::1]": true, "[::1]:80": true, "[::1]:": true, "[2001:db8::7]": true, "[::ffff:192.0.2.1]": true,
		"[fe80::1%25eth0]": true, "[fe80::1%25a%41]": true, "[v1.x:y]": true,

		"": false, ":": false, ":80": false, "a b": false, " a": false, "a\t": false, "a/": false, "a?": false, "a#": false,
		"u@a": false, "a:b": false, "a:80x": false, "a:-1": false, "a:80:80": false, "::1": false, "a\\b": false,
		"a\"": false, "<a>": false, "a^": false, "a`": false, "{a}": false, "a|b": false, "\xc3\xa9": false, "a\x00": false,
		"%": false, "a%4": false, "%zz": false, "a%": false,
		"[": false, "]": false, "[]": false, "[::1": false, "::1]": false, "[::1]80": false, "[::1]:x": false, "[::1]a": false,
		"[[::1]]": false, "a[::1]": false, "[zz]": false, "[1.2.3.4]": false, "[1]": false, "[::1::]": false, "[:]": false,
		"[::1%eth0]": false, "[::1%25]": false, "[::1 ]": false, "[v1.]": false, "[v.x]": false, "[vg.x]": false, "[12345::]": false,
		"[fe80::1%25a!b]": false, "[fe80::1%25%4]": false, "[fe80::1%2]": false,
	} {
		if got := field.IsHost([]byte(host)); got != want {
			t.Errorf("IsHost(%q) = %v", host, got)
		}
		if got := isRefHost(host); got != want {
			t.Errorf("the reference's isRefHost(%q) = %v", host, got)
		}
	}
}

func TestOnlyDecimalLengthsAreAccepted(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "00": 0, "7": 7, "0007": 7, "1048576": 1 << 20, "9223372036854775807": 1<<63 - 1, "0000000000000000001": 1,
		"": -1, " 1": -1, "1 ": -1, "+1": -1, "-1": -1, "-0": -1, "1.0": -1, "1e3": -1, "0x10": -1, "1,1": -1, "1_0": -1, "١": -1,
		"9223372036854775808": -1, "9999999999999999999": -1, "18446744073709551617": -1, "00000000000000000001": -1,
	} {
		n, ok := field.ReadLength([]byte(in))
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("field.ReadLength(%q) = %d, %v", in, n, ok)
		}
	}
}

func TestOnlyTheChunkedCodingIsAccepted(t *testing.T) {
	for in, want := range map[string]error{
		"chunked": nil, "Chunked": nil, "CHUNKED": nil,
		"": ErrMalformed, ",": ErrMalformed, "chunked,": ErrMalformed, ",chunked": ErrMalformed, "chunked, chunked": ErrMalformed,
		"chunked;q=1": ErrMalformed, "\"chunked\"": ErrMalformed, "chun ked": ErrMalformed, "\xffchunked": ErrMalformed,
		"chun\u212aed": ErrMalformed, "gzip, \xff": ErrMalformed,
		"gzip": ErrCoding, "identity": ErrCoding, "xchunked": ErrCoding, "gzip, chunked": ErrCoding, "chunked, gzip": ErrCoding,
	} {
		if got := readCoding([]byte(in)); got != want {
			t.Errorf("readCoding(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestAmbiguousFramingOfRequestsIsRejected(t *testing.T) {
	for _, c := range []struct {
		name, lines string
		kind        BodyKind
		length      int64
	}{
		{"no framing field means no body", "X: y", NoBody, 0},
		{"a length is a length", "Content-Length: 5", BodyLength, 5},
		{"a length of 0 too", "Content-Length: 0", BodyLength, 0},
		{"chunked is chunked in any case", "tRANSFER-eNCODING: cHUNKED", BodyChunked, 0},
		{"white space around makes no difference", "Transfer-Encoding:\t chunked \t", BodyChunked, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustRequest(t, "POST / HTTP/1.1", "Host: a", c.lines)
			wantSame(t, "kind", r.Body, c.kind)
			wantSame(t, "length", r.Length, c.length)
		})
	}
}

func TestInvalidFieldsAreRejected(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n"
	for _, c := range []struct {
		name, head string
		err        error
	}{
		{"no Host in HTTP/1.1", "GET / HTTP/1.1", ErrMalformed},
		{"no Host with an absolute form", "GET http://a/ HTTP/1.1", ErrMalformed},
		{"two Hosts", get + "Host: a", ErrMalformed},
		{"two Hosts, one empty", get + "Host:", ErrMalformed},
		{"a Host that is none", "GET / HTTP/1.1\r\nHost: a/b", ErrMalformed},
		{"a Host that is none in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a b", ErrMalformed},
		{"a K-Original-Host that is none", get + "K-Original-Host: a b", ErrMalformed},
		{"both framings", get + "Content-Length: 5\r\nTransfer-Encoding: chunked", ErrMalformed},
		{"both framings the other way round", get + "Transfer-Encoding: chunked\r\nContent-Length: 0", ErrMalformed},
		{"two lengths that agree", get + "Content-Length: 5\r\nContent-Length: 5", ErrMalformed},
		{"two lengths that do not", get + "Content-Length: 5\r\nContent-Length: 6", ErrMalformed},
		{"an empty length", get + "Content-Length:", ErrMalformed},
		{"a list of lengths", get + "Content-Length: 5,5", ErrMalformed},
		{"two codings", get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", ErrMalformed},
		{"an empty coding with chunked", get + "Transfer-Encoding:\r\nTransfer-Encoding: chunked", ErrMalformed},
		{"a coding in HTTP/1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked", ErrMalformed},
		{"an unknown coding", get + "Transfer-Encoding: gzip", ErrCoding},
		{"an unknown expectation", get + "Expect: a", ErrExpectation},
		{"an unknown expectation with the known one", get + "Expect: 100-continue\r\nExpect: a", ErrExpectation},
		{"a list of expectations", get + "Expect: 100-continue, a", ErrExpectation},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := requestOf(c.head); err != c.err {
				t.Errorf("got %v, want %v", err, c.err)
			}
		})
	}
}

func TestOnly100ContinueIsAnAcceptedExpectation(t *testing.T) {
	for _, c := range []struct {
		name, version, lines string
		want                 bool
	}{
		{"a body is waited with", "1.1", "Expect: 100-Continue\r\nContent-Length: 1", true},
		{"a chunked one too", "1.1", "Transfer-Encoding: chunked\r\nExpect: 100-continue", true},
		{"no body, no wait", "1.1", "Expect: 100-continue", false},
		{"a length of 0, no wait", "1.1", "Expect: 100-continue\r\nContent-Length: 0", false},
		{"an empty one says nothing", "1.1", "Expect:\r\nContent-Length: 1", false},
		{"HTTP/1.0 knows none", "1.0", "Expect: 100-continue\r\nContent-Length: 1", false},
		{"not even an unknown one", "1.0", "Expect: a\r\nContent-Length: 1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantSame(t, "expect", mustRequest(t, "POST / HTTP/"+c.version, "Host: a", c.lines).Expect, c.want)
		})
	}
}

func TestARequestsConnectionPersistsAsRFC9112Requires(t *testing.T) {
	for _, c := range []struct {
		name, version, connection string
		want                      bool
	}{
		{"HTTP/1.1 goes on", "1.1", "", true},
		{"unless it says close", "1.1", "close", false},
		{"regardless of other options", "1.1", "keep-alive, close", false},
		{"HTTP/1.0 ends", "1.0", "", false},
		{"unless it says keep-alive", "1.0", "Keep-Alive", true},
		{"and not close", "1.0", "keep-alive, close", false},
		{"HTTP/1.7 is like 1.1", "1.7", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustRequest(t, "GET / HTTP/"+c.version, "Host: a", "Connection: "+c.connection)
			wantSame(t, "keepAlive", r.KeepAlive(), c.want)
		})
	}
}

func TestIdempotentMethodsAreThoseOfRFC9110(t *testing.T) {
	for method, want := range map[string]bool{
		"GET": true, "HEAD": true, "PUT": true, "DELETE": true, "OPTIONS": true, "TRACE": true,
		"POST": false, "PATCH": false, "get": false, "LOCK": false,
	} {
		wantSame(t, method, mustRequest(t, method+" / HTTP/1.1", "Host: a").Idempotent(), want)
	}
}

func TestTheFirstValueOfAProbeFieldCounts(t *testing.T) {
	r := mustRequest(t, "GET / HTTP/1.1", "Host: a", "User-Agent: kube-probe/1", "User-Agent: x", "K-Network-Probe:",
		"k-network-probe: queue", "K-Network-Hash: h", "K-Proxy-Request: Activator")
	wantSame(t, "User-Agent", string(r.Probe().UserAgent), "kube-probe/1")
	wantSame(t, "K-Network-Probe", string(r.Probe().NetworkProbe), "")
	wantSame(t, "K-Network-Hash", string(r.Probe().NetworkHash), "h")
	wantSame(t, "proxied, in another case", r.Proxied, false)
	if kind, who := gate.Classify(r.Probe()); kind != gate.BadProbe || who != gate.Kubelet {
		t.Errorf("classified as %v of %v", kind, who)
	}
	wantSame(t, "proxied", mustRequest(t, "GET / HTTP/1.1", "Host: a", "K-Proxy-Request: activator").Proxied, true)
}

func TestTraceContextIsForwardedUnlessReplaced(t *testing.T) {
	lines := []string{"GET / HTTP/1.1", "Host: a", "Traceparent: p", "X: y", "tracestate: s", "b3: 0", "X-B3-TraceId: t", "x-b3-spanid: u"}
	r := mustRequest(t, lines...)
	wantSame(t, "traced", r.traced, true)
	wantSame(t, "traceparent", string(r.rare.trace.Traceparent), "p")
	wantSame(t, "trace id", string(r.rare.trace.TraceID), "t")
	const xff = "X-Forwarded-For: 192.0.2.7"
	want := strings.Join(append(lines, xff), "\r\n") + "\r\n\r\n"
	wantSame(t, "untouched", string(r.AppendHead(nil, netip.MustParseAddr("192.0.2.7"), nil)), want)
	r.ReplaceTrace([]byte("traceparent: q\r\n"))
	want = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\ntracestate: s\r\n" + xff + "\r\ntraceparent: q\r\n\r\n"
	wantSame(t, "replaced", string(r.AppendHead(nil, netip.MustParseAddr("192.0.2.7"), nil)), want)
	wantSame(t, "traced without any", mustRequest(t, "GET / HTTP/1.1", "Host: a").traced, false)
}

func TestFieldsOfUntrustedClientsAreNotForwarded(t *testing.T) {
	r := mustRequest(t, "GET / HTTP/1.1", "Host: a", "K-Proxy-Request: activator", "K-Original-Host: b", "x-forwarded-for: 10.0.0.1",
		"X-Forwarded-Proto: https", "X-Forwarded-Host: c", "X-Forwarded-Port: 443", "X-Forwarded: d", "Forwarded: for=e", "X: y",
		"X_Forwarded_For: f", "x_forwarded-port: g", "X.Forwarded.Host: g", "X-Real-IP: h", "X_REAL_IP: i", "K_Proxy_Request: activator", "k_original-host: j",
		"Knative-Serving-Tag: k", "Knative-Serving-Default-Route: true", "Knative_Serving_Other: l",
		"X-Request-Start: t=1", "X_Request_Start: t=1", "x-request_start: t=1")
	r.Distrust()
	r.SetStart(2)
	wantSame(t, "proxied", r.Proxied, false)
	var x gate.Record
	r.Describe(&x, nil)
	wantSame(t, "route tag", string(x.RouteTag)+string(x.DefaultRoute), "")
	wantSame(t, "default route", x.HasDefaultRoute, false)
	want := "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded: d\r\nX: y\r\nX-Request-Start: t=2\r\n\r\n"
	wantSame(t, "head", string(r.AppendHead(nil, netip.MustParseAddr("192.0.2.7"), nil)), want)
}

func TestXRequestStartFromATrustedSourceIsKept(t *testing.T) {
	r := mustRequest(t, "GET / HTTP/1.1", "Host: a", "x-request-start: t=1")
	r.SetStart(2)
	want := "GET / HTTP/1.1\r\nHost: a\r\nx-request-start: t=1\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"
	wantSame(t, "head", string(r.AppendHead(nil, netip.MustParseAddr("192.0.2.7"), nil)), want)
}

func TestObserversSeeTheReceivedFields(t *testing.T) {
	r := mustRequest(t, "GET / HTTP/1.1", "Host: a", "Connection: close", "A: 1", "a: 2", "K-Original-Host: b")
	var got []string
	for name, value := range r.Each {
		got = append(got, string(name)+"="+string(value))
	}
	wantSame(t, "fields", strings.Join(got, " "), "Host=a Connection=close A=1 a=2 K-Original-Host=b")
	wantSame(t, "host", string(r.FinalHost([]byte("d"))), "b")
	wantSame(t, "host as sent", string(mustRequest(t, "GET / HTTP/1.1", "Host: a").FinalHost([]byte("d"))), "a")
	wantSame(t, "empty host", string(mustRequest(t, "GET / HTTP/1.1", "Host:").FinalHost([]byte("d"))), "d")
}

// rewritten returns a head as it is forwarded to the container.
func rewritten(t *testing.T, lines ...string) string {
	t.Helper()
	r := mustRequest(t, lines...)
	return string(r.AppendHead(nil, netip.MustParseAddr("192.0.2.7"), []byte(fallbackHost)))
}

func TestTheGateAddsAndRemovesFieldsInForwardedRequestHeads(t *testing.T) {
	const xff = "X-Forwarded-For: 192.0.2.7\r\n"
	for _, c := range []struct{ name, in, want string }{
		{"fields keep order, case, repetitions and white space",
			"GET /a HTTP/1.1\r\nhOST:  a\r\nB:1\r\na: \t2 \r\nB: 3\r\nE:",
			"GET /a HTTP/1.1\r\nhOST:  a\r\nB:1\r\na: \t2 \r\nB: 3\r\nE:\r\n" + xff},
		{"HTTP/1.0 goes out as 1.1 with a Host", "GET / HTTP/1.0\r\nA: b",
			"GET / HTTP/1.1\r\nA: b\r\nHost: 127.0.0.1:8080\r\n" + xff},
		{"an empty Host becomes the container's address", "GET / HTTP/1.1\r\nHost:\r\nA: b",
			"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nA: b\r\n" + xff},
		{"K-Original-Host replaces Host", "GET / HTTP/1.1\r\nK-Original-Host: b:1\r\nHost: a\r\nA: b",
			"GET / HTTP/1.1\r\nHost: b:1\r\nA: b\r\n" + xff},
		{"the first that is not empty counts", "GET / HTTP/1.1\r\nHost: a\r\nK-Original-Host:\r\nK-Original-Host: b\r\nK-Original-Host: c",
			"GET / HTTP/1.1\r\nHost: b\r\n" + xff},
		{"an empty one replaces nothing", "GET / HTTP/1.1\r\nHost: a\r\nK-Original-Host: ",
			"GET / HTTP/1.1\r\nHost: a\r\n" + xff},
		{"the authority of the target replaces Host", "GET http://b/x HTTP/1.1\r\nHost: a",
			"GET /x HTTP/1.1\r\nHost: b\r\n" + xff},
		{"K-Original-Host replaces Host and the authority of the target", "GET http://b/x HTTP/1.1\r\nHost: a\r\nK-Original-Host: c",
			"GET /x HTTP/1.1\r\nHost: c\r\n" + xff},
		{"hop-by-hop fields end here",
			"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, x\r\nX: y\r\nKeep-Alive: z\r\nProxy-Connection: z\r\nProxy-Authenticate: z\r\nProxy-Authorization: z\r\nTE: gzip\r\nUpgrade: z\r\nA: b",
			"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n" + xff},
		{"so does the routing of revisions, not its tag",
			"GET / HTTP/1.1\r\nHost: a\r\nKnative-Serving-Namespace: n\r\nKnative-Serving-Revision: r\r\nKnative-Serving-Tag: t\r\nK-Proxy-Request: activator",
			"GET / HTTP/1.1\r\nHost: a\r\nKnative-Serving-Tag: t\r\nK-Proxy-Request: activator\r\n" + xff},
		{"chunked is generated in its position", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-encoding:CHUNKED\r\nA: b",
			"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nA: b\r\n" + xff},
		{"even if Connection names it", "GET / HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked",
			"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + xff},
		{"a length keeps its place and the case of its name", "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\ncontent-LENGTH:5 \r\nC: d",
			"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\ncontent-LENGTH: 5\r\nC: d\r\n" + xff},
		{"without leading zeros", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 005\r\nA: b",
			"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nA: b\r\n" + xff},
		{"lines of X-Forwarded-For become one, at the first",
			"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1\r\nA: b\r\nX-Forwarded-For:\r\nx-forwarded-for: 2, 3\r\nForwarded: x",
			"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1, 2, 3, 192.0.2.7\r\nA: b\r\nForwarded: x\r\n"},
		{"Forwarded is made from them if there is none",
			"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1, ::2\r\nForwarded:\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b:1",
			"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1, ::2, 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b:1\r\n" +
				"Forwarded: for=1;host=\"b:1\";proto=https, for=\"[::2]\"\r\n"},
		{"and not from nothing", "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ,\r\nForwarded:\r\nX-Forwarded-Proto:",
			"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ,, 192.0.2.7\r\nX-Forwarded-Proto:\r\n"},
		{"TE names trailers or nothing", "GET / HTTP/1.1\r\nHost: a\r\nTE: gzip;q=1, Trailers\r\nA: b",
			"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n" + xff + "TE: trailers\r\n"},
		{"an upgrade is forwarded", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\nUpgrade: h2c, x/1",
			"GET / HTTP/1.1\r\nHost: a\r\n" + xff + "Connection: Upgrade\r\nUpgrade: WebSocket, x/1\r\n"},
		{"not to h2c", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: H2C\r\nConnection: upgrade, http2-settings\r\nHTTP2-Settings: x",
			"GET / HTTP/1.1\r\nHost: a\r\n" + xff},
		{"not from HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade",
			"GET / HTTP/1.1\r\nHost: a\r\n" + xff},
		{"an expectation is forwarded", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1",
			"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n" + xff},
		{"not from HTTP/1.0, where it means nothing", "POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1",
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n" + xff},
		{"Trailer announces what may trail", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Host,te , Expires\r\nTrailer: content-length",
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Expires\r\n" + xff},
		{"and goes if Connection names it", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: trailer\r\nTrailer: X-Sum, Host",
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + xff},
		{"only the gate speaks in K-Gate fields", "GET / HTTP/1.1\r\nHost: a\r\nK-Gate-Outcome: x\r\nk-gate-: y\r\nK-Gat: z",
			"GET / HTTP/1.1\r\nHost: a\r\nK-Gat: z\r\n" + xff},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rewritten(t, c.in); got != c.want+"\r\n" {
				t.Errorf("got  %q\nwant %q", got, c.want+"\r\n")
			}
		})
	}
}

func TestAClientCannotRemoveTheHost(t *testing.T) {
	for _, name := range []string{"host", "Ho\u017ft", "HO\u017fT"} {
		want := "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"
		if got := rewritten(t, "GET / HTTP/1.1", "Host: a", "Connection: "+name); got != want {
			t.Errorf("naming %q: got %q", name, got)
		}
	}
}

func TestAppendHeadKeepsPreviousBytes(t *testing.T) {
	r := mustRequest(t, "GET / HTTP/1.1", "Host: a", "X-Forwarded-Proto: https")
	peer := netip.MustParseAddr("::1")
	if got, want := string(r.AppendHead([]byte("before"), peer, nil)), "before"+string(r.AppendHead(nil, peer, nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAPercentSignWithoutTwoHexDigitsIsRejected(t *testing.T) {
	for gap := range 40 {
		for _, tail := range []string{"", "%", "%4", "%41", "%4g", "%g1", "%%41", "%41%41", "%41%", "%41%4", "%41x%4", "%41%4x", "%414%", "%GF%00"} {
			for _, more := range []string{"", "x", strings.Repeat("y", 17), strings.Repeat("y", 17) + "%", strings.Repeat("%41", 9) + "%ZZ"} {
				path := "/" + strings.Repeat("x", gap) + tail + more
				wantSame(t, path, validEscaping([]byte(path)), validEscapes(path))
			}
		}
	}
}

// TestFramingFieldsAreGeneratedFromTheBody checks that received framing fields are not
// forwarded.
func TestFramingFieldsAreGeneratedFromTheBody(t *testing.T) {
	for _, received := range []string{"", "Content-Length: 0\r\n", "Content-Length: 020\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"} {
		for kind, want := range []string{"", "Content-Length: 7\r\n", "Transfer-Encoding: chunked\r\n"} {
			r := new(Request)
			readRequest(r, []byte("POST / HTTP/1.1\r\nHost: a\r\n"+received+"\r\n"))
			r.Body, r.Length = BodyKind(kind), 7
			head := string(r.AppendHead(nil, netip.MustParseAddr("192.0.2.7"), nil))
			for _, line := range []string{"Content-Length", "Transfer-Encoding"} {
				n := 0
				if strings.HasPrefix(want, line) {
					n = 1
				}
				if strings.Count(head, line) != n || !strings.Contains(head, want) {
					t.Errorf("%q with a body of kind %d is sent as %q", received, kind, head)
				}
			}
		}
	}
}
