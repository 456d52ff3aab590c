package e2e

import (
	"strings"
	"testing"
)

func TestInterimResponsesAreForwardedInOrder(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	for range 2 {
		c.send(request("GET", "/hints"))
	}
	p := k.accept()
	for range 2 {
		p.head()
		for _, interim := range []string{
			"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nLink: </b.js>\r\n\r\n",
			"HTTP/1.1 102 Processing\r\n\r\n",
			"HTTP/1.1 103 Early Hints\r\nLink: </c.css>\r\n\r\n",
			"HTTP/1.1 199 Own\r\nX-Own: 1\r\n\r\n",
		} {
			p.send(interim)
			c.expect(asSent(interim))
		}
		p.send(okBody)
		c.response("GET").is(200, "ok")
	}
}

func TestInterimResponsesInOneSegmentWithTheFinalOneAreForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/hints"))
	p := k.accept()
	p.head()
	interims := strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", 150)
	p.send(interims + okBody)
	c.expect(asSent(interims))
	c.response("GET").is(200, "ok")
}

func TestInterimResponsesAreNotSentToAnHTTP10Client(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send("GET / HTTP/1.0\r\nHost: gate.test\r\n\r\n")
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + okBody)
	a := c.response("GET")
	a.is(200, "ok")
	a.lacks("Link")
	c.closed()
}

func TestRequestTrailersReachTheContainer(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	for _, announced := range []string{"", "Trailer: X-Sum, X-Other\r\n"} {
		c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n" + announced + "X-Sum: head\r\n\r\n" +
			"3\r\nabc\r\n0\r\nX-Sum: 1\r\nx-other: \"2\"\r\nX-Sum: 3\r\n\r\n")
		p := k.accept()
		head := parseHead(t, p.head())
		head.field("X-Sum", "head")
		if announced != "" {
			head.field("Trailer", "X-Sum, X-Other")
		}
		body, trailers := p.chunked()
		if body != "abc" || trailers != asSent("X-Sum: 1\r\nx-other: \"2\"\r\nX-Sum: 3\r\n") {
			t.Errorf("the container got body %q, trailers %q", body, trailers)
		}
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		c.response("POST").is(200, "ok")
	}
}

func TestResponseTrailersReachTheClient(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/") + request("GET", "/"))
	p := k.accept()
	for _, announced := range []string{"", "Trailer: Grpc-Status\r\n"} {
		p.head()
		p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + announced + "\r\n3\r\nabc\r\n0\r\nGrpc-Status: 0\r\nx-b: y\r\n\r\n")
		a := c.response("GET")
		a.is(200, "abc")
		if a.trailers != asSent("Grpc-Status: 0\r\nx-b: y\r\n") {
			t.Errorf("the client got trailers %q", a.trailers)
		}
		if announced != "" {
			a.field("Trailer", "Grpc-Status")
		}
	}
}

func TestFramingAndRoutingFieldsAreDroppedFromTrailers(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	const bad = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: evil.test\r\n"
	up := bad
	if overHTTP2 {
		// Over HTTP/2, a request with Transfer-Encoding in its trailers is malformed. So
		// these trailers do not contain this field.
		up = "Content-Length: 5\r\nHost: evil.test\r\n"
	}
	c := dial(t, g)
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n" + up + "X-Request-Start: t=1\r\nX_Request_Start: t=1\r\nX-Good: 1\r\n\r\n")
	p := k.accept()
	p.head()
	if body, trailers := p.chunked(); body != "abc" || trailers != asSent("X-Good: 1\r\n") {
		t.Errorf("the container got body %q, trailers %q", body, trailers)
	}
	p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n" + bad + "K-Gate-Outcome: forged\r\nX-Good: 1\r\n\r\n")
	a := c.response("POST")
	a.is(200, "abc")
	if a.trailers != asSent("X-Good: 1\r\n") {
		t.Errorf("the client got trailers %q", a.trailers)
	}
}

func TestResponsesWithoutABodyEndAtTheirHead(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/first"))
	p := k.accept()
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
	for _, x := range []struct {
		method, response string
		length           []string
	}{
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n", []string{"42"}},
		{"HEAD", "HTTP/1.1 200 OK\r\n\r\n", nil},
		{"HEAD", "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\n", []string{"7"}},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: \"x\"\r\n\r\n", []string{"10"}},
		{"GET", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", nil},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", nil},
		{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", nil},
		{"POST", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nX-A: b\r\n\r\n", nil},
	} {
		c.send(request(x.method, "/"))
		if got := parseHead(t, p.head()).line; got != x.method+" / HTTP/1.1" {
			t.Fatalf("the container got %q", got)
		}
		p.send(x.response)
		a := c.response(x.method)
		if want, _, _ := strings.Cut(asSent(x.response), "\r\n"); a.line != want {
			t.Errorf("%q arrived as %q", want, a.line)
		}
		if got := a.all("Content-Length"); len(got) != len(x.length) || len(got) == 1 && got[0] != x.length[0] {
			t.Errorf("%s, %q: Content-Length %q, want %q", x.method, x.response, got, x.length)
		}
		a.lacks("Transfer-Encoding")
		if strings.Contains(x.response, "Content-Length") && !strings.Contains(x.response, "Content-Length: 0") {
			// The head announces a body that this response must not have. The container
			// may send that body nevertheless, so the gate closes the connection.
			p.awaitClose()
			c.send(request("GET", "/again"))
			p = k.accept()
			p.head()
			p.send(okBody)
			c.response("GET").is(200, "ok")
		}
	}
	// The next exchange shows that the gate neither sent nor awaited a body.
	c.send(request("GET", "/last"))
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}

func TestContentLengthIsRemovedFromInterimResponses(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/"))
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\nLink: </a>\r\n\r\n" + okBody)
	a := parseHead(t, c.head())
	if a.status != 103 {
		t.Fatalf("got %q", a.line)
	}
	a.lacks("Content-Length", "Transfer-Encoding")
	c.response("GET").is(200, "ok")
}

func TestStatusAndReasonAreForwardedUnchanged(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	lines := []string{
		"HTTP/1.1 200 OK", "HTTP/1.1 200 Not What You Think", "HTTP/1.1 299 Odd", "HTTP/1.1 599 Odder", "HTTP/1.1 418 I'm a teapot (\xc3\xa9)",
		"HTTP/1.1 404 ", "HTTP/1.1 500 Internal  Server\tError", "HTTP/1.1 302 Found", "HTTP/1.1 205 Reset Content", "HTTP/1.1 799 Far Out",
	}
	c := dial(t, g)
	c.send(strings.Repeat(request("GET", "/"), len(lines)))
	p := k.accept()
	for _, line := range lines {
		p.head()
		p.send(line + "\r\nContent-Length: 0\r\n\r\n")
		if a := c.response("GET"); a.line != strings.TrimSuffix(asSent(line+"\r\n"), "\r\n") {
			t.Errorf("%q arrived as %q", line, a.line)
		}
	}
}

func TestResponsesAreSentAsHTTP11(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/"))
	p := k.accept()
	p.head()
	p.send("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
	p.close()
	a := c.response("GET")
	a.is(200, "ok")
	if a.line != "HTTP/1.1 200 OK" {
		t.Errorf("a response in HTTP/1.0 arrived as %q", a.line)
	}
	// HTTP/1.0 without keep-alive: the connection is not reused.
	c.send(request("GET", "/next"))
	p = k.accept()
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}

func TestABodyDelimitedByCloseArrivesComplete(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, version := range []string{"HTTP/1.0", "HTTP/1.1"} {
		c := dial(t, g)
		c.send(request("GET", "/"))
		p := k.accept()
		p.head()
		p.send(version + " 200 OK\r\nContent-Type: text/plain\r\n\r\nfirst ")
		p.send("second")
		p.close()
		c.response("GET").is(200, "first second")
	}
}

func TestPipelinedRequestsGetResponsesInOrder(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(request("GET", "/1") +
		"POST /2 HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 4\r\n\r\nbody" +
		"POST /3 HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
		request("HEAD", "/4") + request("GET", "/5") + request("GET", "/6", "Connection: close"))
	p := k.accept()
	for i, method := range []string{"GET", "POST", "POST", "HEAD", "GET", "GET"} {
		line := method + " /" + string(rune('1'+i)) + " HTTP/1.1"
		head := parseHead(t, p.head())
		if head.line != line {
			t.Fatalf("the container got %q, want %q", head.line, line)
		}
		switch i {
		case 1:
			p.expect("body")
		case 2:
			if body, _ := p.chunked(); body != "abc" {
				t.Fatalf("the container got %q", body)
			}
		}
		if method == "HEAD" {
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
			// The head announces a body that the response to HEAD must not have. The
			// container may send that body nevertheless, so the gate closes the
			// connection and opens another one.
			p = k.accept()
		} else {
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nanswer to " + head.line[len(method)+1:len(method)+3] + " ok")
		}
	}
	for i, method := range []string{"GET", "POST", "POST", "HEAD", "GET", "GET"} {
		a := c.response(method)
		want := "answer to /" + string(rune('1'+i)) + " ok"
		if method == "HEAD" {
			want = ""
		}
		a.is(200, want)
	}
	c.closed()
}
