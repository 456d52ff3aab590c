package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const index = `queuegate demo container

/echo            the request as it arrived here; a body is streamed back
/echo?as=body    the body alone (anything below /echo/ echoes too)
/delay           responds after ?ms=500
/stream          ?n=10 chunks, one every ?ms=200
/events          server-sent events, ?n=10 (0: until you leave), one every ?ms=1000; ?after=0 ms before the head
/bytes           ?n=1048576 bytes
/upload          counts the bytes of the body
/hints           103 Early Hints, the final response ?ms=500 later
/status/503      that status, 200 to 599
/fail            breaks off: ?how=close, reset, or half (in the middle of the body)
/ws              WebSocket echo
/healthz         ok
`

// container serves the demo's endpoints. Its field stopping is a context. When this
// context is cancelled, event streams and WebSockets end.
type container struct {
	stopping context.Context
	tunnels  sync.WaitGroup
}

// endpoints are the endpoints that have a fixed path.
var endpoints = map[string]func(*container, http.ResponseWriter, *http.Request) error{
	"/delay": (*container).delay, "/stream": (*container).stream, "/events": (*container).events,
	"/bytes": (*container).bytes, "/upload": (*container).upload, "/hints": (*container).hints,
	"/fail": (*container).fail, "/ws": (*container).webSocket,
}

// ServeHTTP selects the endpoint by the decoded path. It does not use http.ServeMux,
// because a ServeMux redirects paths that contain // or dot segments. The endpoint /echo
// must receive such paths, so that it can show them.
func (c *container) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	switch path := r.URL.Path; {
	case path == "/":
		text(w, http.StatusOK, index)
	case path == "/healthz":
		text(w, http.StatusOK, "ok\n")
	case path == "/echo" || strings.HasPrefix(path, "/echo/"):
		err = c.echo(w, r)
	case strings.HasPrefix(path, "/status/"):
		err = c.status(w, strings.TrimPrefix(path, "/status/"))
	case endpoints[path] != nil:
		err = endpoints[path](c, w, r)
	default:
		text(w, http.StatusNotFound, fmt.Sprintf("no endpoint %q, see /\n", path))
	}
	if bad, ok := errors.AsType[*badValue](err); ok {
		text(w, http.StatusBadRequest, bad.Error()+"\n")
	}
}

// waitTunnels waits until all WebSockets have ended. If ctx ends first, it returns
// ctx's error.
func (c *container) waitTunnels(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		c.tunnels.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// badValue is an error for an invalid parameter. The client gets a 400.
type badValue struct{ name, value, want string }

func (e *badValue) Error() string {
	return fmt.Sprintf("%s=%q: want %s", e.name, e.value, e.want)
}

// queryInt returns the value of a decimal query parameter. Its third argument is the
// default, which it returns if the query does not have the parameter. Its last argument
// is the maximum. If the value is not a number from 0 to this maximum, queryInt returns a
// badValue.
func queryInt(r *http.Request, name string, absent, most int64) (int64, error) {
	value, there, err := query(r, name)
	if err != nil || !there {
		return absent, err
	}
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || int64(n) > most {
		return 0, &badValue{name, value, fmt.Sprintf("a number from 0 to %d", most)}
	}
	return int64(n), nil
}

// queryWord returns a parameter, which must be one of the accepted words. The first
// accepted word is the default.
func queryWord(r *http.Request, name string, accepted ...string) (string, error) {
	value, there, err := query(r, name)
	switch {
	case err != nil:
		return "", err
	case !there:
		return accepted[0], nil
	case !slices.Contains(accepted, value):
		return "", &badValue{name, value, "one of " + strings.Join(accepted, ", ")}
	}
	return value, nil
}

// query returns a parameter, or a badValue if the query does not parse.
func query(r *http.Request, name string) (value string, there bool, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", false, &badValue{"query", r.URL.RawQuery, "name=value pairs joined by &"}
	}
	return values.Get(name), values.Has(name), nil
}

// text writes a plain-text response.
func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	io.WriteString(w, body)
}
