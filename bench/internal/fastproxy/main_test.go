package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestFastproxyForwardsRequestsAndResponses(t *testing.T) {
	more := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
		case "/events":
			fmt.Fprint(w, "one\n")
			w.(http.Flusher).Flush()
			<-more
			fmt.Fprint(w, "two\n")
		}
	}))
	defer origin.Close()
	at, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(at.Port())
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Shutdown() }()
	base := "http://" + listener.Addr().String()

	reply, err := http.Post(base+"/echo?a=b", "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(reply.Body)
	_ = reply.Body.Close()
	if err != nil || reply.StatusCode != 200 || string(body) != "POST /echo?a=b body" {
		t.Errorf("%d %q %v", reply.StatusCode, body, err)
	}

	// An event is forwarded before the response ends.
	events, err := http.Get(base + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	lines := bufio.NewReader(events.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "one\n" {
		t.Errorf("%q %v", line, err)
	}
	close(more)
	if line, err := lines.ReadString('\n'); err != nil || line != "two\n" {
		t.Errorf("%q %v", line, err)
	}
}
