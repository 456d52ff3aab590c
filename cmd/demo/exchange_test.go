package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// exchange sends raw bytes on a new connection and returns the response.
func exchange(t *testing.T, address, raw string) (*http.Response, string) {
	t.Helper()
	conn := dial(t, address)
	io.WriteString(conn, raw)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", raw, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%.60q: body: %v", raw, err)
	}
	return res, string(body)
}

func get(t *testing.T, address, target string) (*http.Response, string) {
	t.Helper()
	return exchange(t, address, "GET "+target+" HTTP/1.1\r\nHost: demo\r\n\r\n")
}

func TestTheIndexNamesEveryEndpoint(t *testing.T) {
	_, body := get(t, start(t), "/")
	for _, path := range []string{"/echo", "/delay", "/stream", "/events", "/bytes", "/upload", "/hints", "/status/", "/fail", "/ws", "/healthz"} {
		if !strings.Contains(body, "\n"+path) {
			t.Errorf("the index lacks %s", path)
		}
	}
}

func TestEchoShowsTheTargetAsItWasSent(t *testing.T) {
	_, body := get(t, start(t), "/echo//a/../b%2Fc;d?q=%41;&&")
	if want := "GET /echo//a/../b%2Fc;d?q=%41;&& HTTP/1.1\nHost: demo\n\n"; body != want {
		t.Errorf("echo is %q, want %q", body, want)
	}
}

func TestEchoShowsFieldsBodyAndTrailers(t *testing.T) {
	_, body := exchange(t, start(t), "POST /echo HTTP/1.1\r\nHost: demo\r\nX-B: 2\r\nX-A: 1\r\nX-A: 0\r\n"+
		"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n")
	want := "POST /echo HTTP/1.1\nHost: demo\nTransfer-Encoding: chunked\nX-A: 1\nX-A: 0\nX-B: 2\n\nhello\n\nX-Sum: 7\n"
	if body != want {
		t.Errorf("echo is %q, want %q", body, want)
	}
}

func TestEchoRespondsDuringTheUpload(t *testing.T) {
	conn := dial(t, start(t))
	io.WriteString(conn, "POST /echo?as=body HTTP/1.1\r\nHost: demo\r\nContent-Length: 8\r\nContent-Type: x/y\r\n\r\nhalf")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "half" {
		t.Fatalf("first half arrived as %q, %v", first, err)
	}
	io.WriteString(conn, "rest")
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != "rest" || res.Header.Get("Content-Type") != "x/y" {
		t.Errorf("second half arrived as %q, %v, type %q", rest, err, res.Header.Get("Content-Type"))
	}
}

func TestBytesAreCountedInBothDirections(t *testing.T) {
	address := start(t)
	res, body := get(t, address, "/bytes?n=100000")
	if len(body) != 100000 || res.ContentLength != 100000 || !strings.HasPrefix(body[64:], patternLine) {
		t.Errorf("got %d bytes, announced %d", len(body), res.ContentLength)
	}
	_, body = exchange(t, address, fmt.Sprintf("PUT /upload HTTP/1.1\r\nHost: demo\r\nContent-Length: 100000\r\n\r\n%s", body))
	if !strings.HasPrefix(body, "received 100000 bytes in ") {
		t.Errorf("upload responds with %q", body)
	}
}

func TestHEADHasNoBody(t *testing.T) {
	address := start(t)
	for _, target := range []string{"/", "/echo", "/bytes", "/stream", "/events?n=0", "/healthz"} {
		conn := dial(t, address)
		io.WriteString(conn, "HEAD "+target+" HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(string(all), "\r\n\r\n") {
			t.Errorf("HEAD %s: %q, %v", target, all, err)
		}
	}
}

func TestTheDemoDelaysResponsesAndReturnsStatusesAsRequested(t *testing.T) {
	address := start(t)
	if res, body := get(t, address, "/delay?ms=1"); res.StatusCode != 200 || body != "waited 1 ms\n" {
		t.Errorf("delay: %d %q", res.StatusCode, body)
	}
	for _, code := range []int{200, 204, 304, 418, 503, 599} {
		if res, _ := get(t, address, fmt.Sprintf("/status/%d", code)); res.StatusCode != code {
			t.Errorf("status is %d, want %d", res.StatusCode, code)
		}
	}
	if res, _ := get(t, address, "/nowhere"); res.StatusCode != 404 {
		t.Errorf("unknown path gives %d", res.StatusCode)
	}
}

func TestTheDemoRejectsInvalidParametersWith400AndNamesThem(t *testing.T) {
	address := start(t)
	for target, want := range map[string]string{
		"/delay?ms=fast":    "ms=\"fast\": want a number from 0 to 3600000\n",
		"/delay?ms=3600001": "ms=\"3600001\": want a number from 0 to 3600000\n",
		"/delay?ms=":        "ms=\"\": want a number from 0 to 3600000\n",
		"/stream?n=-1":      "n=\"-1\": want a number from 0 to 1000000\n",
		"/events?ms=0x10":   "ms=\"0x10\": want a number from 0 to 3600000\n",
		"/bytes?n=1e3":      "n=\"1e3\": want a number from 0 to 17179869184\n",
		"/bytes?n=%zz":      "query=\"n=%zz\": want name=value pairs joined by &\n",
		"/hints?ms=1.5":     "ms=\"1.5\": want a number from 0 to 3600000\n",
		"/fail?how=gently":  "how=\"gently\": want one of close, reset, half\n",
		"/echo?as=json":     "as=\"json\": want text or body\n",
		"/status/teapot":    "status=\"teapot\": want a status from 200 to 599\n",
		"/status/103":       "status=\"103\": want a status from 200 to 599\n",
	} {
		if res, body := get(t, address, target); res.StatusCode != 400 || body != want {
			t.Errorf("%s: %d %q, want 400 %q", target, res.StatusCode, body, want)
		}
	}
}

func TestTheDemoSendsEarlyHintsExceptToHTTP10Clients(t *testing.T) {
	address := start(t)
	for version, want := range map[string][]int{"1.1": {103, 200}, "1.0": {200}} {
		conn := dial(t, address)
		io.WriteString(conn, "GET /hints?ms=1 HTTP/"+version+"\r\nHost: demo\r\n\r\n")
		in := bufio.NewReader(conn)
		for _, code := range want {
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != code || res.Header.Get("Link") == "" {
				t.Fatalf("HTTP/%s: %v, %v; want %d with Link", version, res, err, code)
			}
		}
	}
}

func TestTheDemoAbortsResponsesAsRequested(t *testing.T) {
	address := start(t)
	ask := func(how string) (string, error) {
		conn := dial(t, address)
		io.WriteString(conn, "POST /fail?how="+how+" HTTP/1.1\r\nHost: demo\r\nContent-Length: 3\r\n\r\nabc")
		all, err := io.ReadAll(conn)
		return string(all), err
	}
	if got, err := ask("close"); got != "" || err != nil {
		t.Errorf("close: %q, %v; want a clean end", got, err)
	}
	if got, err := ask("reset"); got != "" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: %q, %v; want a reset", got, err)
	}
	got, err := ask("half")
	head, body, _ := strings.Cut(got, "\r\n\r\n")
	if !strings.Contains(head, "Content-Length: 1000") || len(body) != 500 || err != nil {
		t.Errorf("half: %d bytes after %q, %v", len(body), head, err)
	}
}

func TestH2CWithPriorKnowledgeIsSupported(t *testing.T) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: testTimeout}
	base := "http://" + start(t)

	res, err := client.Post(base+"/echo?as=body", "text/plain", strings.NewReader("over h2c"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if res.ProtoMajor != 2 || string(body) != "over h2c" || err != nil {
		t.Errorf("%s %q, %v", res.Proto, body, err)
	}

	res, err = client.Get(base + "/fail?how=half")
	if err != nil {
		t.Fatal(err)
	}
	body, err = io.ReadAll(res.Body)
	res.Body.Close()
	if len(body) != 500 || err == nil {
		t.Errorf("half: %d bytes, %v; want 500 and an error", len(body), err)
	}
}

func TestAClientThatDisconnectsEndsItsRequest(t *testing.T) {
	address, stop := startStoppable(t)
	conn := dial(t, address)
	io.WriteString(conn, "GET /stream?n=2&ms=3600000 HTTP/1.1\r\nHost: demo\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, len("chunk 1 of 2\n"))); err != nil {
		t.Fatal(err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
	if err := stop(); err != nil {
		t.Errorf("the stream outlived its client: %v", err)
	}
}
