package otlptest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/internal/h2test"
)

// Message is a message that a collector received.
type Message struct {
	Proto  string // HTTP/1.1 or HTTP/2.0
	Path   string
	Header http.Header
	Body   []byte // decompressed; gRPC: without the 5-byte prefix of the message
}

// Response is a response of the collector. The zero value reports success and has no
// body.
type Response struct {
	Status      int // 0 = 200
	Header      http.Header
	Body        []byte // over gRPC, the collector adds the 5-byte prefix of the message
	GRPCStatus  string // "" = 0
	GRPCMessage string
	HeadOnly    bool // gRPC: the response is Trailers-Only
}

// Collector is a server on loopback.
type Collector struct {
	*httptest.Server
	Messages chan Message // all received messages; capacity 1,024
	end      func()       // ends the contexts of all requests
	isGRPC   bool
	respond  func(context.Context, Message) Response
}

// HTTP starts a collector for POST requests. It calls respond for each message and sends
// the returned response. If respond is nil, it always reports success.
func HTTP(t testing.TB, respond func(context.Context, Message) Response) *Collector {
	c := newCollector(respond)
	c.Start()
	t.Cleanup(c.stop)
	return c
}

// GRPC starts a collector for gRPC calls in plaintext. It does not accept HTTP/1.
func GRPC(t testing.TB, respond func(context.Context, Message) Response) *Collector {
	c := newCollector(respond)
	c.isGRPC = true
	h2test.Start(c.Server, false)
	t.Cleanup(c.stop)
	return c
}

// GRPCOverTLS starts a collector for gRPC calls over TLS.
func GRPCOverTLS(t testing.TB) *Collector {
	c := newCollector(nil)
	c.isGRPC = true
	h2test.StartTLS(c.Server)
	t.Cleanup(c.stop)
	return c
}

func newCollector(respond func(context.Context, Message) Response) *Collector {
	ctx, end := context.WithCancel(context.Background())
	c := &Collector{Messages: make(chan Message, 1024), respond: respond, end: end}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	c.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	return c
}

func (c *Collector) stop() {
	// End the contexts of all requests, so that waiting handlers return. The disconnect
	// below is not sufficient: net/http does not notice it while a handler runs, if the
	// client has already sent its next request.
	c.end()
	c.CloseClientConnections()
	c.Close()
}

// Hang does not respond until the client has disconnected or the test has ended.
func Hang(ctx context.Context, _ Message) Response {
	<-ctx.Done()
	return Response{Status: http.StatusServiceUnavailable}
}

// Next waits for the next message and returns it.
func (c *Collector) Next(t testing.TB) Message {
	t.Helper()
	select {
	case m := <-c.Messages:
		return m
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing came to the collector")
		return Message{}
	}
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	encoding := r.Header.Get("Content-Encoding")
	if c.isGRPC {
		encoding = r.Header.Get("Grpc-Encoding")
		isCompressed := byte(0)
		if encoding != "" {
			isCompressed = 1
		}
		if len(body) < 5 || body[0] != isCompressed || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
			http.Error(w, "not a frame", http.StatusBadRequest)
			return
		}
		body = body[5:]
	}
	if body, err = decompress(encoding, body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := Message{r.Proto, r.URL.RequestURI(), r.Header, body}
	c.Messages <- m
	var a Response
	if c.respond != nil {
		a = c.respond(r.Context(), m)
	}
	for key, values := range a.Header {
		w.Header()[key] = values
	}
	switch {
	case c.isGRPC && (a.Status == 0 || a.Status == http.StatusOK):
		a.sendGRPC(w)
	case a.Status != 0:
		w.WriteHeader(a.Status)
		fallthrough
	default:
		_, _ = w.Write(a.Body)
	}
}

func decompress(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "":
		return body, nil
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("unknown compression %q", encoding)
}

func (a *Response) sendGRPC(w http.ResponseWriter) {
	status := a.GRPCStatus
	if status == "" {
		status = "0"
	}
	w.Header().Set("Content-Type", "application/grpc")
	if a.HeadOnly {
		w.Header().Set("Grpc-Status", status)
		w.Header().Set("Grpc-Message", a.GRPCMessage)
		w.WriteHeader(http.StatusOK)
		return
	}
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(a.Body)))
	_, _ = w.Write(append(frame, a.Body...))
	w.Header().Set("Grpc-Status", status)
	if a.GRPCMessage != "" {
		w.Header().Set("Grpc-Message", a.GRPCMessage)
	}
}
