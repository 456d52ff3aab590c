package embed

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v4"
	"github.com/valyala/fasthttp"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/embed/fast"
)

// timeout limits steps that normally take milliseconds.
const timeout = 20 * time.Second

// app is an application of a web framework. GET /stream sends "one", waits until the test
// sends to the channel goOn, and then sends "two". GET /socket is a WebSocket that echoes
// messages. In Fiber, GET /socket is a hijacked connection that echoes bytes.
type app struct {
	handler http.Handler            // nil = use fast
	fast    fasthttp.RequestHandler // the application on fasthttp; nil = use handler
}

// apps are constructors, by web framework.
var apps = map[string]func(t *testing.T, goOn chan struct{}) app{
	"gin": func(t *testing.T, goOn chan struct{}) app {
		gin.SetMode(gin.ReleaseMode)
		e := gin.New()
		e.Use(gin.Recovery())
		e.GET("/stream", func(c *gin.Context) {
			parts := []string{"two", "one"}
			c.Stream(func(w io.Writer) bool {
				_, _ = io.WriteString(w, parts[len(parts)-1])
				parts = parts[:len(parts)-1]
				if len(parts) > 0 {
					c.Writer.Flush()
					<-goOn
				}
				return len(parts) > 0
			})
		})
		e.GET("/socket", func(c *gin.Context) { echoSocket(t, c.Writer, c.Request) })
		return app{handler: e}
	},
	"echo": func(t *testing.T, goOn chan struct{}) app {
		e := echo.New()
		e.GET("/stream", func(c echo.Context) error {
			_, _ = io.WriteString(c.Response(), "one")
			c.Response().Flush()
			<-goOn
			_, err := io.WriteString(c.Response(), "two")
			return err
		})
		e.GET("/socket", func(c echo.Context) error {
			echoSocket(t, c.Response(), c.Request())
			return nil
		})
		return app{handler: e}
	},
	"chi": func(t *testing.T, goOn chan struct{}) app {
		m := chi.NewRouter()
		m.Use(middleware.Recoverer)
		m.With(middleware.Compress(5)).Get("/stream", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "one")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-goOn
			_, _ = io.WriteString(w, "two")
		})
		m.Get("/socket", func(w http.ResponseWriter, r *http.Request) { echoSocket(t, w, r) })
		return app{handler: m}
	},
	"fiber": func(t *testing.T, goOn chan struct{}) app {
		a := fiber.New()
		a.Get("/stream", func(c fiber.Ctx) error {
			return c.SendStreamWriter(func(w *bufio.Writer) {
				_, _ = w.WriteString("one")
				_ = w.Flush()
				<-goOn
				_, _ = w.WriteString("two")
			})
		})
		a.Get("/socket", func(c fiber.Ctx) error {
			c.Status(http.StatusSwitchingProtocols)
			c.Set("Connection", "Upgrade")
			c.Set("Upgrade", "echo")
			c.RequestCtx().Hijack(func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
			return nil
		})
		return app{fast: a.Handler()}
	},
}

// echoSocket echoes the messages of a WebSocket until it is closed.
func echoSocket(t *testing.T, w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.CloseNow()
	for {
		kind, text, err := c.Read(context.Background())
		if err != nil || c.Write(context.Background(), kind, text) != nil {
			return
		}
	}
}

// server is an application behind a gate with one slot.
type server struct {
	t        *testing.T
	gate     *embed.Gate
	address  string
	goOn     chan struct{}
	shutDown func(context.Context) error
}

func serve(t *testing.T, framework string) *server {
	t.Helper()
	g, err := embed.New(embed.Config{ConcurrencyLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, gate: g, address: ln.Addr().String(), goOn: make(chan struct{}, 1)}
	a := apps[framework](t, s.goOn)
	done := make(chan error, 1)
	if a.fast != nil {
		f := &fasthttp.Server{Handler: fast.Handler(g, a.fast)}
		go func() { done <- f.Serve(ln) }()
		s.shutDown = f.ShutdownWithContext
	} else {
		h := &http.Server{Handler: g.Handler(a.handler), Protocols: new(http.Protocols)}
		h.Protocols.SetHTTP1(true)
		h.Protocols.SetUnencryptedHTTP2(true)
		go func() { done <- h.Serve(ln) }()
		s.shutDown = h.Shutdown
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := s.shutDown(ctx); err != nil {
			t.Error(err)
		}
		<-done
		if g.InFlight() != 0 {
			t.Errorf("%d in flight at the end", g.InFlight())
		}
	})
	return s
}

// get returns the response. The caller closes its body.
func (s *server) get(path string, http2 bool) *http.Response {
	s.t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	s.t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.address+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// wantFull fails unless the gate's only slot is in use.
func (s *server) wantFull() {
	s.t.Helper()
	a := s.get("/stream", false)
	defer a.Body.Close()
	if a.StatusCode != 503 || a.Header.Get("K-Gate-Outcome") != "queue-full" {
		s.t.Errorf("another request got %d %v", a.StatusCode, a.Header)
	}
}

func (s *server) await(description string, condition func() bool) {
	s.t.Helper()
	for end := time.Now().Add(timeout); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%s: %d in flight", description, s.gate.InFlight())
		}
	}
}

// stream fails unless a streamed response occupies the only slot and delays the end of
// the drain until the response ends.
func (s *server) stream(http2 bool) {
	a := s.get("/stream", http2)
	defer a.Body.Close()
	first := make([]byte, 3)
	if _, err := io.ReadFull(a.Body, first); err != nil || string(first) != "one" || a.StatusCode != 200 {
		s.t.Fatalf("%d %q, %v", a.StatusCode, first, err)
	}
	s.wantFull()
	drained := make(chan error, 1)
	go func() { drained <- s.gate.Drain(context.Background()) }()
	<-s.gate.Draining()
	select {
	case err := <-drained:
		s.t.Errorf("the drain ended during the stream: %v", err)
	case <-time.After(20 * time.Millisecond): // the drain must not end in this time
	}
	s.goOn <- struct{}{}
	if rest, err := io.ReadAll(a.Body); err != nil || string(rest) != "two" {
		s.t.Errorf("the rest is %q, %v", rest, err)
	}
	if err := <-drained; err != nil {
		s.t.Error(err)
	}
}

func TestAStreamHoldsItsSlotAndDelaysTheDrain(t *testing.T) {
	for framework := range apps {
		t.Run(framework, func(t *testing.T) { serve(t, framework).stream(false) })
	}
}

func TestAStreamOverH2CHoldsItsSlotAndDelaysTheDrain(t *testing.T) {
	for _, framework := range []string{"gin", "echo", "chi"} { // fasthttp has no HTTP/2
		t.Run(framework, func(t *testing.T) { serve(t, framework).stream(true) })
	}
}

func TestAWebSocketHoldsItsSlotButDoesNotDelayTheDrain(t *testing.T) {
	for _, framework := range []string{"gin", "echo", "chi"} {
		t.Run(framework, func(t *testing.T) {
			s := serve(t, framework)
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			c, _, err := websocket.Dial(ctx, "ws://"+s.address+"/socket", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseNow()
			if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, text, err := c.Read(ctx); err != nil || string(text) != "hello" {
				t.Fatalf("%q, %v", text, err)
			}
			s.wantFull()
			if err := s.gate.Drain(ctx); err != nil {
				t.Errorf("the drain waits for the WebSocket: %v", err)
			}
			_ = c.Close(websocket.StatusNormalClosure, "")
			s.await("the end of the WebSocket", func() bool { return s.gate.InFlight() == 0 })
		})
	}
}

func TestAHijackedConnectionOfFiberHoldsItsSlotButDoesNotDelayTheDrain(t *testing.T) {
	s := serve(t, "fiber")
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n", s.address)
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 101 ") {
		t.Fatalf("%q, %v", line, err)
	}
	for line := ""; line != "hello\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	s.wantFull()
	if err := s.gate.Drain(t.Context()); err != nil {
		t.Errorf("the drain waits for the connection: %v", err)
	}
	c.Close()
	s.await("the end of the connection", func() bool { return s.gate.InFlight() == 0 })
}
