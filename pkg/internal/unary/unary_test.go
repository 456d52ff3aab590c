package unary

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var server = &url.URL{Scheme: "http", User: url.UserPassword("me", "secret"), Host: "127.0.0.1:80", Path: "/a", RawQuery: "b"}

func TestAUnaryCallIsAPOSTOfOneFrameToThePathOfTheMethod(t *testing.T) {
	r, err := Request(t.Context(), server, "/p.S/M", "agent/1", []byte("message"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Method != "POST" || r.URL.String() != "http://me:secret@127.0.0.1:80/p.S/M" || r.ContentLength != 12 {
		t.Errorf("%s %s of %d bytes", r.Method, r.URL, r.ContentLength)
	}
	for range 2 { // the second body is the copy that net/http needs for a retry
		body, _ := io.ReadAll(r.Body)
		if string(body) != "\x00\x00\x00\x00\x07message" {
			t.Errorf("body %q", body)
		}
		if r.Body, err = r.GetBody(); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"Content-Type": "application/grpc", "Te": "trailers", "User-Agent": "agent/1", "Grpc-Timeout": ""}
	for name, value := range want {
		if r.Header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, r.Header.Get(name), value)
		}
	}
}

func TestAUnaryCallSendsItsDeadlineAsGRPCTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		time.Second: "1100m", 0: "100m", -time.Second: "100m", 10000 * time.Hour: "99999999m",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			r, err := Request(ctx, server, "/p.S/M", "", nil)
			if err != nil || r.Header.Get("Grpc-Timeout") != want {
				t.Errorf("%v: %q, want %q (%v)", timeout, r.Header.Get("Grpc-Timeout"), want, err)
			}
		})
	}
}

func TestEachResponseIsAMessageOrAnError(t *testing.T) {
	status := func(code int, message string) error { return &Status{code, message} }
	for name, c := range map[string]struct {
		contentType   string
		head, trailer string // Grpc-Status, optionally with a space and Grpc-Message
		body, want    string
		err           error
	}{
		"a message":           {"application/grpc+proto", "", "0", "\x00\x00\x00\x00\x02hi", "hi", nil},
		"an empty message":    {"application/grpc", "", "0", "\x00\x00\x00\x00\x00", "", nil},
		"another type":        {"text/html", "", "0", "\x00\x00\x00\x00\x00", "", ErrNotGRPC},
		"no status":           {"application/grpc", "", "", "\x00\x00\x00\x00\x00", "", ErrNoStatus},
		"an odd status":       {"application/grpc", "", "x", "", "", ErrNoStatus},
		"a status too large":  {"application/grpc", "", "65536", "", "", ErrNoStatus},
		"a status":            {"application/grpc", "", "5", "", "", status(5, "")},
		"a status and words":  {"application/grpc", "", "14 no%20room", "", "", status(14, "no room")},
		"words badly escaped": {"application/grpc", "", "14 100%", "", "", status(14, "100%")},
		"a status in a head":  {"application/grpc", "12 none", "", "", "", status(12, "none")},
		"no message":          {"application/grpc", "", "0", "", "", ErrFrame},
		"a short frame":       {"application/grpc", "", "0", "\x00\x00\x00\x00", "", ErrFrame},
		"half a message":      {"application/grpc", "", "0", "\x00\x00\x00\x00\x09hi", "", ErrFrame},
		"a length of 4 GiB":   {"application/grpc", "", "0", "\x00\xff\xff\xff\xff", "", ErrFrame},
		"two messages":        {"application/grpc", "", "0", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "", ErrFrame},
		"a compressed one":    {"application/grpc", "", "0", "\x01\x00\x00\x00\x02hi", "", ErrFrame},
	} {
		r := &http.Response{Header: fields(c.head), Trailer: fields(c.trailer)}
		r.Header.Set("Content-Type", c.contentType)
		got, err := Message(r, []byte(c.body))
		if string(got) != c.want || (err == nil) != (c.err == nil) || err != nil && err.Error() != c.err.Error() {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.want, c.err)
		}
		var s *Status
		if errors.As(err, &s) && !strings.Contains(err.Error(), strconv.Itoa(s.Code)) {
			t.Errorf("%s: %v does not name the code", name, err)
		}
	}
}

func fields(status string) http.Header {
	code, message, _ := strings.Cut(status, " ")
	return http.Header{"Grpc-Status": {code}, "Grpc-Message": {message}}
}
