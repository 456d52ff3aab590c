// Package h2conn implements an HTTP/2 client connection that carries one exchange at a
// time, for readiness checks and calls to collectors. net/http's client would add 0.5 MB
// to the binary.
package h2conn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Errors of RoundTrip. In addition, RoundTrip returns errors of the net.Conn and of the
// request body, and violations of HTTP/2 as *h2.Error.
var (
	ErrHTTP1   = errors.New("the server speaks HTTP/1")
	errSpent   = errors.New("the connection takes no more requests")
	errReset   = errors.New("the server reset the stream")
	errGoAway  = errors.New("the server closes the connection")
	errTooLong = errors.New("head too large")
	errInterim = errors.New("no final response")
)

const (
	maxList    = 1 << 20 // maximum size of a response head in octets
	maxInterim = 8
	readBytes  = 4 << 10
)

// Conn is one client connection. Its methods must not be called concurrently.
type Conn struct {
	conn    net.Conn
	in, out []byte // in: unprocessed received bytes; out: unwritten bytes

	reader  h2.Reader
	decoder h2.Decoder
	encoder h2.Encoder
	peer    h2.PeerSettings
	streams h2.OurStreams
	window  h2.SendWindow

	first   bool // nothing received yet
	closing bool // the server has sent GOAWAY
	spent   bool
}

// New returns the client side of conn, which must be connected. If conn uses TLS, ALPN
// must have selected "h2". The caller manages deadlines and closes conn.
func New(conn net.Conn) *Conn {
	c := &Conn{
		conn: conn, first: true, peer: h2.DefaultSettings(), window: h2.NewSendWindow(h2.InitialWindow),
		reader: h2.Reader{MaxBlock: maxList}, decoder: h2.Decoder{MaxList: maxList},
	}
	c.out = append(c.out, h2.Preface...)
	c.out = h2.AppendSettings(c.out, h2.Setting{ID: h2.SettingEnablePush}, h2.Setting{ID: h2.SettingMaxHeaderListSize, Value: maxList})
	return c
}

// Usable reports whether the connection can carry another exchange.
func (c *Conn) Usable() bool { return !c.spent }

// exchange is the state of the exchange in progress.
type exchange struct {
	stream   uint32
	unsent   []byte // unsent part of the request body
	window   h2.SendWindow
	response *http.Response
	message  h2.Message
	interim  int
	body     []byte
	limit    int
}

func (x *exchange) isDone() bool { return x.message.Ended() || len(x.body) > x.limit }

// RoundTrip sends r and returns the final response, with at most limit bytes of its
// body in memory. The fields of r must be valid in HTTP/2. Check Usable before the next
// call.
func (c *Conn) RoundTrip(r *http.Request, limit int) (*http.Response, error) {
	stream, ok := c.streams.Next()
	if c.spent || !ok {
		return nil, errSpent
	}
	c.spent = true
	x := &exchange{stream: stream, window: h2.NewSendWindow(c.peer.InitialWindow), limit: limit}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		x.unsent = body
	}
	c.appendHead(r, x)
	for !x.isDone() {
		c.appendData(x)
		if err := c.step(x); err != nil {
			return nil, err
		}
	}
	c.spent = c.closing || len(x.unsent) > 0 || !x.message.Ended()
	x.response.Body = io.NopCloser(bytes.NewReader(x.body[:min(len(x.body), limit)]))
	return x.response, nil
}

func (c *Conn) appendHead(r *http.Request, x *exchange) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	start := len(c.out)
	b := h2.BeginHeaders(c.out)
	b = c.encoder.AppendNamed(b, h2.NameMethod, []byte(r.Method))
	b = c.encoder.AppendNamed(b, h2.NameScheme, []byte(r.URL.Scheme))
	b = c.encoder.AppendNamed(b, h2.NamePath, []byte(r.URL.RequestURI()))
	b = c.encoder.AppendNamed(b, h2.NameAuthority, []byte(host))
	for name, values := range r.Header {
		for _, value := range values {
			if name == "Authorization" {
				b = c.encoder.AppendField(b, h2.NameAuthorization, []byte("authorization"), []byte(value), true)
				continue
			}
			b = c.encoder.AppendText(b, []byte(name), []byte(value))
		}
	}
	if len(x.unsent) > 0 {
		b = c.encoder.AppendNamed(b, h2.NameContentLength, strconv.AppendInt(nil, int64(len(x.unsent)), 10))
	}
	c.out = h2.EndHeaders(b, start, x.stream, len(x.unsent) == 0, int(c.peer.MaxFrame))
}

// appendData appends DATA to c.out within the flow-control windows.
func (c *Conn) appendData(x *exchange) {
	for {
		n := min(len(x.unsent), c.window.Credit(), x.window.Credit(), int(c.peer.MaxFrame))
		if n == 0 {
			return
		}
		c.window.Consume(n)
		x.window.Consume(n)
		c.out = h2.AppendDataHeader(c.out, x.stream, n, n == len(x.unsent))
		c.out = append(c.out, x.unsent[:n]...)
		x.unsent = x.unsent[n:]
	}
}

// step writes pending output, reads once, and processes complete frames.
func (c *Conn) step(x *exchange) error {
	if len(c.out) > 0 {
		_, _ = c.conn.Write(c.out) // ignore a write error: the server may have sent the reason
		c.out = c.out[:0]
	}
	c.in = append(c.in, make([]byte, readBytes)...)
	n, err := c.conn.Read(c.in[len(c.in)-readBytes:])
	c.in = c.in[:len(c.in)-readBytes+n]
	if err != nil && n == 0 {
		return err
	}
	if c.first && bytes.HasPrefix(c.in, []byte("HTTP/")) {
		return ErrHTTP1
	}
	b := c.in
	var f h2.Frame
	for {
		used, ok, err := c.reader.Next(b, &f)
		if err != nil {
			return err
		}
		b = b[used:]
		if !ok {
			break
		}
		c.first = false
		if err := c.handle(&f, x); err != nil {
			return err
		}
	}
	c.in = append(c.in[:0], b...)
	return nil
}

func (c *Conn) handle(f *h2.Frame, x *exchange) error {
	isOwnStream := f.Stream == x.stream
	if f.Err != nil && isOwnStream {
		return f.Err
	}
	switch f.Type {
	case h2.Settings:
		return c.settings(f, x)
	case h2.Ping:
		if !f.Ack() {
			c.out = h2.AppendPing(c.out, true, [8]byte(f.Payload))
		}
	case h2.WindowUpdate:
		switch {
		case f.Stream == 0:
			return asError(c.window.Update(f.Increment, h2.Connection))
		case isOwnStream:
			return asError(x.window.Update(f.Increment, h2.Stream))
		}
	case h2.GoAway:
		if c.closing = true; f.LastStream < x.stream {
			return errGoAway
		}
	case h2.RSTStream:
		if isOwnStream && !x.isDone() {
			return errReset
		}
	case h2.Headers:
		return c.headers(f, x, isOwnStream)
	case h2.Data:
		// Return the flow-control credit at once. The server cannot fill the memory with
		// this credit, because RoundTrip stops when the body exceeds the limit.
		if f.First && f.Length > 0 {
			c.out = h2.AppendWindowUpdate(c.out, 0, f.Length)
			if isOwnStream && !f.EndStream {
				c.out = h2.AppendWindowUpdate(c.out, x.stream, f.Length)
			}
		}
		if isOwnStream && !x.isDone() {
			x.body = append(x.body, f.Payload...)
			return asError(x.message.Data(len(f.Payload), f.EndStream))
		}
	}
	return nil
}

func (c *Conn) settings(f *h2.Frame, x *exchange) error {
	if f.Ack() {
		return nil
	}
	changes, err := c.peer.Apply(f.Payload, true)
	if err != nil {
		return err
	}
	c.encoder.Apply(changes, &c.peer)
	c.out = h2.AppendSettingsAck(c.out)
	return asError(x.window.ApplySettings(changes))
}

// headers processes the head or the trailers of a response. If the parameter isOwnStream
// is false, the header block belongs to another stream. Then headers only decodes it,
// because every block changes the HPACK state of the connection.
func (c *Conn) headers(f *h2.Frame, x *exchange, isOwnStream bool) error {
	var head h2.Head
	if err := c.decoder.Decode(f.Payload, &head); err != nil {
		return err
	}
	switch {
	case !isOwnStream || x.isDone():
		return nil
	case head.TooLarge:
		return errTooLong
	case !x.message.ExpectsHead():
		if err := head.CheckTrailers(); err != nil {
			return err
		}
		x.response.Trailer = fields(&head)
		return asError(x.message.Trailers(f.EndStream))
	}
	if err := head.CheckResponse(); err != nil {
		return err
	}
	if head.Status < 200 {
		if x.interim++; x.interim > maxInterim {
			return errInterim
		}
		return asError(x.message.Interim(f.EndStream))
	}
	x.response = &http.Response{
		Status: fmt.Sprintf("%d %s", head.Status, http.StatusText(head.Status)), StatusCode: head.Status,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: fields(&head), ContentLength: head.Length,
	}
	noBody := head.Status == http.StatusNoContent || head.Status == http.StatusNotModified
	return asError(x.message.Head(head.Length, noBody, f.EndStream))
}

func fields(head *h2.Head) http.Header {
	h := http.Header{}
	for name, value := range head.Each {
		h.Add(string(name), string(value))
	}
	return h
}

// asError converts a nil *h2.Error to a nil interface.
func asError(err *h2.Error) error {
	if err == nil {
		return nil
	}
	return err
}
