package origin

import (
	"bufio"
	"bytes"
	"errors"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

type route uint8

const (
	routeUnknown route = iota
	routeRoot
	routeBytes
	routeEvents
	routeWebSocket
	routeSlots
)

var (
	crlfcrlf          = []byte("\r\n\r\n")
	rootResponse      = []byte("HTTP/1.1 200 OK\r\nDate: " + date + "\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n")
	rootResponseClose = bytes.Replace(rootResponse, crlfcrlf, []byte("\r\nConnection: close\r\n\r\n"), 1)
	notFound          = []byte("HTTP/1.1 404 Not Found\r\nDate: " + date + "\r\nContent-Length: 0\r\n\r\n")
	badRequest        = []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
)

// A request holds the parts of an HTTP request that determine the response.
type request struct {
	route  route
	size   int64         // number of bytes of /bytes/N, or number of slots of /slots/N
	delay  time.Duration // delay of the response
	slots  int           // number of concurrent requests without slowdown; 0 = unlimited
	spread float64       // delay varies by a random factor from 1-spread to 1+spread
	every  time.Duration // interval of events
	close  bool          // close the connection after the response
	key    string        // Sec-WebSocket-Key
	body   wire.Body
}

// parseRequest parses a head, which ends with the CRLF of the last field. It validates
// little, because all clients are proxies.
func parseRequest(head []byte) (request, bool) {
	line, fields, found := bytes.Cut(head, crlfcrlf[:2])
	if !found {
		return request{}, false
	}
	method, rest, found := bytes.Cut(line, []byte(" "))
	target, version, found2 := bytes.Cut(rest, []byte(" "))
	if !found || !found2 || len(method) == 0 {
		return request{}, false
	}
	r := request{close: string(version) == "HTTP/1.0"}
	if len(target) == 1 && target[0] == '/' {
		r.route = routeRoot
	} else if !r.takeTarget(string(target)) {
		return request{}, false
	}
	framing, ok := wire.ReadFraming(fields)
	r.body, r.close = framing.Body, framing.Close || r.close
	if r.route == routeWebSocket {
		// No empty line follows the header fields here, so ReadMIMEHeader returns an
		// error. Ignore this error, because ReadMIMEHeader also returns all fields.
		header, _ := textproto.NewReader(bufio.NewReader(bytes.NewReader(fields))).ReadMIMEHeader()
		r.key = header.Get("Sec-WebSocket-Key")
	}
	return r, ok
}

func (r *request) takeTarget(target string) bool {
	path, query, _ := strings.Cut(target, "?")
	switch {
	case path == "/" || path == "/upload":
		r.route = routeRoot
	case path == "/events":
		r.route = routeEvents
		r.every = time.Millisecond
	case path == "/websocket":
		r.route = routeWebSocket
	case strings.HasPrefix(path, "/bytes/"), strings.HasPrefix(path, "/slots/"):
		n, err := strconv.ParseInt(path[len("/bytes/"):], 10, 64)
		if err != nil || n < 0 {
			return false
		}
		r.route, r.size = routeBytes, n
		if path[1] == 's' {
			r.route = routeSlots
		}
	}
	if query == "" {
		return true
	}
	values, err := url.ParseQuery(query)
	read := func(name string, parse func(string) error) {
		if text := values.Get(name); text != "" {
			err = errors.Join(err, parse(text))
		}
	}
	read("slots", func(s string) (err error) { r.slots, err = strconv.Atoi(s); return err })
	read("spread", func(s string) (err error) { r.spread, err = strconv.ParseFloat(s, 64); return err })
	read("delay", func(s string) (err error) { r.delay, err = time.ParseDuration(s); return err })
	read("every", func(s string) (err error) { r.every, err = time.ParseDuration(s); return err })
	return err == nil && r.slots >= 0 && r.spread >= 0 && r.spread <= 1 && r.delay >= 0 && (r.every > 0 || r.route != routeEvents)
}
