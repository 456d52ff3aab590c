package otlp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/metrics/otlp/otlptest"
)

// http.ProxyFromEnvironment uses no proxy for loopback addresses, so this test calls
// tunnel directly.
func TestCallsUseTheProxyOfTheEnvironment(t *testing.T) {
	for response, want := range map[string]string{
		"HTTP/1.1 200 Connection established\r\n\r\n":                "",
		"HTTP/1.1 407 Proxy Authentication Required\r\nX: y\r\n\r\n": "407",
		"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno":    "502",
		"": "EOF",
	} {
		ours, theirs := net.Pipe()
		asked := make(chan *http.Request, 1)
		go func() {
			r, _ := http.ReadRequest(bufio.NewReader(theirs))
			asked <- r
			_, _ = io.WriteString(theirs, response)
			theirs.Close()
		}()
		proxy := &url.URL{Scheme: "http", Host: "proxy:3128", User: url.UserPassword("me", "secret")}
		_, err := tunnel(t.Context(), ours, proxy, "collector:4317")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", response, err)
		}
		r := <-asked
		if r.Method != "CONNECT" || r.Host != "collector:4317" || r.Header.Get("Proxy-Authorization") != "Basic bWU6c2VjcmV0" {
			t.Errorf("%s %s %v", r.Method, r.Host, r.Header)
		}
		ours.Close()
	}
	if _, err := tunnel(t.Context(), nil, &url.URL{Scheme: "socks5", Host: "proxy:1080"}, "collector:4317"); err == nil {
		t.Error("a proxy of another kind")
	}
}

func TestBytesAfterAProxysConnectResponseReachTheCaller(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = http.ReadRequest(bufio.NewReader(theirs))
		_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\n\r\nSETTINGS")
		theirs.Close()
	}()
	conn, err := tunnel(t.Context(), ours, &url.URL{Scheme: "http", Host: "proxy:3128"}, "collector:4317")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "SETTINGS" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestAConnectionClosedByTheCollectorIsReplaced(t *testing.T) {
	c := otlptest.GRPC(t, nil)
	s := sender(t, ProtocolGRPC, c.URL)
	for range 3 {
		if _, err := s.Send(t.Context(), []byte("message")); err != nil {
			t.Fatal(err)
		}
		c.CloseClientConnections()
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	c := otlptest.GRPC(t, nil)
	s := sender(t, ProtocolGRPC, c.URL).(*grpcSender)
	if _, err := s.Send(t.Context(), []byte("message")); err != nil {
		t.Fatal(err)
	}
	conn := s.client.idle
	s.client.end.Reset(0)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := conn.Write(nil); err != nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("still open")
		}
	}
	if s.client.take() != nil {
		t.Error("a closed connection is kept")
	}
}
