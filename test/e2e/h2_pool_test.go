package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func h2Post(t *testing.T, c *http.Client, url, body string) <-chan h2Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	must(t, err)
	responses := make(chan h2Response, 1)
	go func() {
		res, err := c.Do(r)
		if err != nil {
			responses <- h2Response{err: err}
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		responses <- h2Response{res.StatusCode, res.Proto, res.Header, string(body), err}
	}()
	return responses
}

func TestOverHTTP2AConnectionThatTheContainerClosedIsNotUsed(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "UPSTREAM_PROTOCOL=http1")
	client := h2Client(t, nil)
	for range 20 {
		for _, method := range []string{"close", "half-close", "reset"} {
			first := h2Post(t, client, "http://"+g.addr+"/first", "abc")
			p := k.accept()
			p.head()
			p.expect("abc")
			p.send(okBody)
			(<-first).is(t, 200, "ok")
			switch method {
			case "close":
				p.close()
			case "half-close":
				p.closeWrite()
			default:
				p.abort()
			}
			second := h2Post(t, client, "http://"+g.addr+"/second", "abc")
			q := k.accept()
			if got := parseHead(t, q.head()).line; got != "POST /second HTTP/1.1" {
				t.Fatalf("%s: the container got %q", method, got)
			}
			q.expect("abc")
			q.send(okClose)
			q.close()
			(<-second).is(t, 200, "ok")
		}
	}
	k.unseen("a retry of the request")
}

func TestOverHTTP2ANonIdempotentRequestIsNotRetriedAfterBytesWereSent(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"close", "reset"} {
		k := startContainer(t)
		// Each iteration needs a new gate. Once the container has closed a reused
		// connection, a gate no longer reuses connections of that age for a POST.
		g := startGate(t, k, "UPSTREAM_PROTOCOL=http1")
		client := h2Client(t, nil)
		first := h2Post(t, client, "http://"+g.addr+"/first", "abc")
		p := k.accept()
		p.head()
		p.expect("abc")
		p.send(okBody)
		(<-first).is(t, 200, "ok")

		second := h2Post(t, client, "http://"+g.addr+"/once", "abc")
		p.head()
		p.expect("abc")
		if method == "close" {
			p.close()
			(<-second).is(t, 502, "upstream closed the connection\n")
		} else {
			p.abort()
			if a := <-second; a.err != nil || a.status != 502 {
				t.Fatalf("%d %q, %v: want 502", a.status, a.body, a.err)
			}
		}
		k.unseen("a second attempt")
	}
}
