package fast

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/queuegate/queuegate/pkg/embed"
)

// stepReader is a body in several parts. The test determines when each part arrives: the
// first part is available in r from the beginning, and the test sends each further part
// on the channel. The body ends when the test closes the channel.
type stepReader struct {
	next chan string
	r    io.Reader
}

func (s *stepReader) Read(p []byte) (int, error) {
	for {
		if n, err := s.r.Read(p); n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		text, ok := <-s.next
		if !ok {
			return 0, io.EOF
		}
		s.r = strings.NewReader(text)
	}
}

func TestEachKindOfStreamKeepsItsSlotAndDelaysDrain(t *testing.T) {
	for name, set := range map[string]func(ctx *fasthttp.RequestCtx, next chan string){
		"SetBodyStreamWriter": func(ctx *fasthttp.RequestCtx, next chan string) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				_, _ = w.WriteString("one ")
				_ = w.Flush()
				_, _ = w.WriteString(<-next)
			})
		},
		"SetBodyStream": func(ctx *fasthttp.RequestCtx, next chan string) {
			ctx.SetBodyStream(&stepReader{next, strings.NewReader("one ")}, -1)
		},
		"SetBodyStream of a known size": func(ctx *fasthttp.RequestCtx, next chan string) {
			ctx.Response.ImmediateHeaderFlush = true
			ctx.SetBodyStream(&stepReader{next, strings.NewReader("one ")}, len("one two"))
		},
		"StreamBody": func(ctx *fasthttp.RequestCtx, next chan string) {
			StreamBody(ctx, func(w *bufio.Writer) {
				_, _ = w.WriteString("one ")
				_ = w.Flush()
				_, _ = w.WriteString(<-next)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan string)
			r := newRig(t, embed.Config{ConcurrencyLimit: 1}, func(ctx *fasthttp.RequestCtx) { set(ctx, next) })
			a, err := r.client.Get("http://gate/")
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			if status, _, _ := r.get("/"); status != 503 {
				t.Errorf("another request got %d during the stream", status)
			}
			drained := make(chan error, 1)
			go func() { drained <- r.gate.Drain(context.Background()) }()
			<-r.gate.Draining()
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.gate.Drain(canceled); err == nil || !strings.Contains(err.Error(), "1 in flight") {
				t.Errorf("Drain during the stream: %v", err)
			}
			next <- "two"
			close(next)
			if body, err := io.ReadAll(a.Body); err != nil || string(body) != "one two" {
				t.Errorf("body %q, %v", body, err)
			}
			if err := <-drained; err != nil || r.gate.InFlight() != 0 {
				t.Errorf("Drain after the stream: %v, %d in flight", err, r.gate.InFlight())
			}
		})
	}
}

func TestAHijackThroughTheContextHoldsItsSlot(t *testing.T) {
	r := newRig(t, embed.Config{ConcurrencyLimit: 1}, func(ctx *fasthttp.RequestCtx) {
		ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(c, c) })
	})
	c, err := r.dial()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: gate\r\n\r\n")
	reader := bufio.NewReader(c)
	if _, err := http.ReadResponse(reader, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "echo\n")
	if line, err := reader.ReadString('\n'); line != "echo\n" || r.gate.InFlight() != 1 {
		t.Errorf("%q, %v, %d in flight", line, err, r.gate.InFlight())
	}
	c.Close()
	r.await("the end of the connection", func() bool { return r.gate.InFlight() == 0 })
}

func TestTheRequestTimeoutCutsAStream(t *testing.T) {
	outcomes := make(chan string, 1)
	g, err := embed.New(embed.Config{RequestTimeout: time.Hour, RequestEnded: func(r embed.Request) { outcomes <- r.Outcome }})
	if err != nil {
		t.Fatal(err)
	}
	goOn := make(chan struct{})
	var x *call
	var conn net.Conn
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &fasthttp.Server{Logger: silent{}, Handler: Handler(g, func(ctx *fasthttp.RequestCtx) {
		x, conn = ctx.UserValue(exchangeKey{}).(*call), ctx.Conn()
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			_, _ = w.WriteString("one")
			_ = w.Flush()
			<-goOn
			for err := error(nil); err == nil; {
				_, _ = w.WriteString("more")
				err = w.Flush()
			}
		})
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	defer func() {
		_ = ln.Close()
		<-done
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: gate\r\n\r\n")
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 3)
	if _, err := io.ReadFull(a.Body, first); err != nil || string(first) != "one" {
		t.Fatalf("%q, %v", first, err)
	}
	x.later.mu.Lock()
	armed := x.later.cut.Stop()
	x.later.mu.Unlock()
	if !armed {
		t.Error("the timeout is not set")
	}
	x.timeOut(conn) // the test has stopped the timer that would call this after an hour
	// The timeout ends the response while the handler is still waiting. The client must
	// notice at once that the response is incomplete.
	if rest, err := io.ReadAll(a.Body); len(rest) > 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("then %q, %v", rest, err)
	}
	if g.InFlight() != 1 {
		t.Errorf("%d in flight while the application works on it", g.InFlight())
	}
	close(goOn)
	if o := <-outcomes; o != "request-timeout" || g.InFlight() != 0 {
		t.Errorf("outcome %s, %d in flight", o, g.InFlight())
	}
}

// The writer of a stream may continue to work after its client has disconnected.
func TestStreamBodyHoldsTheSlotUntilItsWriterHasReturned(t *testing.T) {
	cut, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, embed.Config{ConcurrencyLimit: 1}, func(ctx *fasthttp.RequestCtx) {
		StreamBody(ctx, func(w *bufio.Writer) {
			for err := error(nil); err == nil; {
				_, _ = w.WriteString("more")
				err = w.Flush()
			}
			close(cut)
			<-goOn
		})
	})
	a, err := r.client.Get("http://gate/")
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	<-cut
	if r.gate.InFlight() != 1 {
		t.Errorf("%d in flight", r.gate.InFlight())
	}
	close(goOn)
	r.await("the end of the writer", func() bool { return r.gate.InFlight() == 0 })
}
