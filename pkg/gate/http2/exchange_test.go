package http2

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// echo responds with the body and the trailers of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Path", r.URL.RequestURI())
	w.Header().Set("X-Host", r.Host)
	w.Header().Set("Trailer", "X-Sum")
	n, _ := io.Copy(w, r.Body)
	w.Header().Set("X-Sum", fmt.Sprint(n, r.Trailer))
}

// overBothProtocols runs a test with a container of each protocol.
func overBothProtocols(t *testing.T, h http.HandlerFunc, test func(t *testing.T, c *container, h2c bool)) {
	t.Run("HTTP/1.1", func(t *testing.T) { test(t, serveHTTP1(t, h), false) })
	t.Run("h2c", func(t *testing.T) { test(t, serveH2C(t, h), true) })
}

func TestARequestWithBodyAndTrailersIsForwarded(t *testing.T) {
	overBothProtocols(t, echo, func(t *testing.T, up *container, _ bool) {
		c := newRig(t, up).dial()
		id := c.open(false, request("POST", "/a?b", "trailer", "x-end")...)
		_ = c.data(id, false, "hello ")
		_ = c.data(id, false, "you")
		_ = c.do(func() error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields([]string{"x-end", "yes"}), EndHeaders: true, EndStream: true})
		})
		g := c.want(id, "200", "hello you")
		if g.head["x-path"] != "/a?b" || g.head["x-host"] != "h" || g.trailers["x-sum"] != "9 map[X-End:[yes]]" {
			t.Errorf("head %v, trailers %v", g.head, g.trailers)
		}
		c.works()
	})
}

func TestAnHTTP1ClientReachesAnHTTP2OnlyContainer(t *testing.T) {
	r := newRig(t, serveH2C(t, echo))
	r.dial().works() // this request lets the gate detect that the container speaks HTTP/2
	for range 3 {
		if status, _ := r.get("/"); status != 200 {
			t.Errorf("status %d", status)
		}
	}
}

func TestInterimAndEarlyResponsesAreForwarded(t *testing.T) {
	early := func(t *testing.T, up *container) {
		c := newRig(t, up).dial()
		for range 50 {
			id := c.open(false, request("POST", "/")...)
			_ = c.data(id, false, "the first of much")
			g := c.want(id, "413", "too much")
			if len(g.interim) != 1 || g.interim[0][":status"] != "103" || g.interim[0]["link"] != "</x>" {
				t.Errorf("interim %v", g.interim)
			}
			until(t, "the reset after an early response", func() bool { g := c.of(id); return g.reset })
			if g := c.of(id); g.code != http2.ErrCodeNo {
				t.Errorf("reset with %v", g.code)
			}
		}
	}
	t.Run("HTTP/1.1", func(t *testing.T) {
		early(t, serveRaw(t, func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 413 Too Large\r\nContent-Length: 8\r\n\r\ntoo much")
			}
		}))
	})
	t.Run("h2c", func(t *testing.T) {
		early(t, serveH2C(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</x>")
			w.WriteHeader(103)
			w.WriteHeader(413)
			_, _ = io.WriteString(w, "too much")
		}))
	})
}

func TestACancelledStreamReachesTheContainer(t *testing.T) {
	t.Parallel()
	begun, cancelled := make(chan struct{}, 1), make(chan struct{}, 1)
	overBothProtocols(t, func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
		cancelled <- struct{}{}
	}, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up)
		c := r.dial()
		id := c.get("/")
		testkit.Receive(t, "the request", begun)
		_ = c.do(func() error { return c.WriteRSTStream(id, http2.ErrCodeCancel) })
		testkit.Receive(t, "the cancellation", cancelled)
		until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })
		id = c.get("/")
		testkit.Receive(t, "the request", begun)
		_ = c.conn.Close()
		testkit.Receive(t, "the end of the connection", cancelled)
	})
}

func TestAnUploadLargerThanAllWindowsIsForwarded(t *testing.T) {
	t.Parallel()
	overBothProtocols(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, n, err)
	}, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up)
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		defer tr.CloseIdleConnections()
		const size = 2 << 20
		results := make(chan string, 4)
		for range 4 {
			go func() {
				res, err := (&http.Client{Transport: tr, Timeout: testkit.Timeout}).Post("http://"+r.addr+"/", "", io.LimitReader(zeros{}, size))
				if err != nil {
					results <- err.Error()
					return
				}
				defer res.Body.Close()
				b, _ := io.ReadAll(res.Body)
				results <- string(b)
			}()
		}
		for range 4 {
			if got := testkit.Receive(t, "an upload", results); got != fmt.Sprintln(size, nil) {
				t.Errorf("got %q", got)
			}
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// serveZeros responds with a body of zero bytes. The query of the request is the length
// of the body in decimal.
func serveZeros(w http.ResponseWriter, r *http.Request) {
	n := int64(0)
	_, _ = fmt.Sscan(r.URL.RawQuery, &n)
	_, _ = io.Copy(w, io.LimitReader(zeros{}, n))
}

func TestALargeDownloadWithSmallWindowsIsForwarded(t *testing.T) {
	t.Parallel()
	overBothProtocols(t, serveZeros, func(t *testing.T, up *container, _ bool) {
		c := newRig(t, up).dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
		const size = 2 << 20
		id := c.get(fmt.Sprint("/?", size))
		if g := c.await(id); g.size != size || !g.ended {
			t.Errorf("%d bytes, ended %v, reset %v %v; connection %v %v", g.size, g.ended, g.reset, g.code, c.err, c.goAways)
		}
		c.works()
	})
}

func TestManyStreamsMakeProgressConcurrently(t *testing.T) {
	t.Parallel()
	overBothProtocols(t, serveZeros, func(t *testing.T, up *container, _ bool) {
		c := newRig(t, up).dial()
		const size, n = 100 << 10, 100
		ids := make([]uint32, n)
		for i := range ids {
			ids[i] = c.get(fmt.Sprint("/?", size))
		}
		for _, id := range ids {
			if g := c.await(id); g.size != size || !g.ended {
				t.Fatalf("stream %d: %d bytes, ended %v, reset %v %v; connection %v %v", id, g.size, g.ended, g.reset, g.code, c.err, c.goAways)
			}
		}
	})
}

func TestASmallResponseIsNotDelayedByLargeOnes(t *testing.T) {
	overBothProtocols(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/works" {
			return
		}
		_, _ = io.Copy(w, zeros{})
	}, func(t *testing.T, up *container, _ bool) {
		c := newRig(t, up).dial()
		var large []uint32
		for range 20 {
			large = append(large, c.get("/endless"))
		}
		for range 20 {
			c.works()
		}
		for _, id := range large {
			until(t, "progress of all", func() bool { g := c.of(id); return g.size > 64<<10 })
			_ = c.do(func() error { return c.WriteRSTStream(id, http2.ErrCodeCancel) })
		}
		c.works()
	})
}

func TestExtendedConnectReachesAnHTTP1ContainerAsUpgrade(t *testing.T) {
	up := serveRaw(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if req.Header.Get("Upgrade") != "websocket" || req.Header.Get("Sec-Websocket-Key") == "" || req.Method != "GET" {
			t.Errorf("%s %v", req.Method, req.Header)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nhello")
		_, _ = io.Copy(conn, in)
	})
	r := newRig(t, up, func(o *options) { o.protocol = 1 })
	c := r.dial()
	id := c.open(false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/chat", ":authority", "h", "sec-websocket-version", "13")
	_ = c.data(id, false, " and back")
	until(t, "the echo", func() bool { g := c.of(id); return string(g.body) == "hello and back" })
	if g := c.of(id); g.status() != "200" {
		t.Errorf("head %v", g.head)
	}
	until(t, "a tunnel", func() bool { return r.gate.Drain.Tunnels() == 1 })
	_ = c.data(id, true, "")
	if g := c.await(id); !g.ended || g.reset {
		t.Errorf("%+v", g)
	}
	c.conn.Close()
}

func TestRejectionsReachClientsAsHTTPAndGRPCStatuses(t *testing.T) {
	hold := make(chan struct{})
	up := serveHTTP1(t, func(_ http.ResponseWriter, r *http.Request) { <-hold })
	r := newRig(t, up, func(o *options) { o.gate.ConcurrencyLimit, o.gate.QueueCapacity = 1, 0 })
	c := r.dial()
	first := c.get("/")
	until(t, "one in flight", func() bool { return r.gate.Admission.InFlight() == 1 })
	g := c.want(c.get("/"), "503", "pending request queue full\n")
	if g.head["k-gate-outcome"] != "queue-full" {
		t.Errorf("head %v", g.head)
	}
	g = c.want(c.open(true, request("POST", "/", "content-type", "application/grpc")...), "200", "")
	if g.head["grpc-status"] != "8" || g.head["k-gate-outcome"] != "queue-full" {
		t.Errorf("head %v", g.head)
	}
	close(hold)
	c.want(first, "200", "")
}

func TestTheGateRepliesToProbes(t *testing.T) {
	up := serveHTTP1(t, func(http.ResponseWriter, *http.Request) { t.Error("forwarded") })
	c := newRig(t, up).dial()
	c.want(c.get("/", "k-network-probe", "queue", "user-agent", "kube-probe/1"), "200", "queue")
	if g := c.want(c.get("/healthz", "k-network-probe", "probe", "k-network-hash", "abc"), "200", ""); g.head["k-network-hash"] != "abc" {
		t.Errorf("head %v", g.head)
	}
	c.want(c.open(true, request("OPTIONS", "*")...), "200", "")
}

func TestADrainLosesNoStreamInTransit(t *testing.T) {
	overBothProtocols(t, echo, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up)
		c := r.dial()
		c.works()
		r.gate.Drain.Start()
		late := uint32(0)
		r.on(func() {
			late = c.get("/late") // the gate sends GOAWAY before it reads this request
			r.part.StopAccepting()
		})
		until(t, "a GOAWAY", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.goAways) > 0 })
		until(t, "the end of the connection", c.over)
		g := c.of(late)
		c.mu.Lock()
		defer c.mu.Unlock()
		last := c.goAways[len(c.goAways)-1].LastStreamID
		if len(c.goAways) != 2 || c.goAways[0].LastStreamID != 1<<31-1 {
			t.Errorf("GOAWAY %v", c.goAways)
		}
		if g.status() != "200" || !g.ended || late > last {
			t.Errorf("stream %d with GOAWAY up to %d: %+v", late, last, g)
		}
	})
}

// postponeGoAway reports whether the gate has sent the first GOAWAY on a connection to a
// client. If the client has not yet acknowledged the PING after this GOAWAY,
// postponeGoAway lets the gate wait longer for the acknowledgement.
func (r *rig) postponeGoAway() bool {
	for c := range r.part.clients.all() {
		if c.state == announced {
			if c.deadline-r.part.loop.Now() > goAwayGrace { // goAwayGrace follows the acknowledgement
				c.deadline += int64(testkit.Timeout)
			}
			return true
		}
	}
	return false
}

func TestADrainServesAStreamOpenedRightAfterItsPINGIsAcknowledged(t *testing.T) {
	overBothProtocols(t, echo, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up)
		c := r.dialUnread()
		_ = c.get("/works")
		r.gate.Drain.Start()
		r.inEachIteration(r.postponeGoAway)
		r.on(func() { r.part.StopAccepting() })
		responded := map[uint32]bool{}
		// The response may follow the last GOAWAY.
		for last := uint32(0); last == 0 || !responded[3]; {
			f, err := c.ReadFrame()
			if err != nil {
				t.Fatalf("%v after a GOAWAY up to %d, responses to %v", err, last, responded)
			}
			switch f := f.(type) {
			case *http2.PingFrame:
				late := frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, 3, getHead)
				if _, err := c.conn.Write(concat(frame(h2.Ping, h2.FlagAck, 0, string(f.Data[:])), late)); err != nil {
					t.Fatal(err)
				}
			case *http2.HeadersFrame:
				responded[f.StreamID] = true
			case *http2.GoAwayFrame:
				if f.LastStreamID == 1<<31-1 {
					continue
				}
				if last = f.LastStreamID; last != 3 {
					t.Fatalf("GOAWAY up to %d, responses to %v", last, responded)
				}
			}
		}
	})
}

func TestAShutdownWaitsForAStreamOpenedBeforeTheGOAWAY(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	up := serveHTTP1(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/late" {
			return
		}
		// The response takes longer than a shutdown waits for connections without
		// requests.
		select {
		case <-time.After(2 * time.Second):
		case <-done:
		}
	})
	r := newRig(t, up)
	c := r.dialUnread()
	_ = c.get("/works")
	for late := uint32(0); ; {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			if f.StreamID == late {
				_ = c.conn.Close()
				<-done
				return
			}
			r.inEachIteration(r.postponeGoAway)
			go func() {
				defer close(done)
				_ = r.server.Shutdown(context.Background())
			}()
		case *http2.PingFrame:
			time.Sleep(100 * time.Millisecond) // meanwhile the shutdown finds that no request is open
			late = c.get("/late")
			_ = c.raw(http2.FramePing, http2.FlagPingAck, 0, string(f.Data[:]))
		}
	}
}

// The client may have sent the frames before it received the reset.
func TestFramesOnAStreamResetByTheGateAreNoError(t *testing.T) {
	r := newRig(t, serveH2C(t, func(http.ResponseWriter, *http.Request) {}))
	c := r.dial()
	c.works()
	id := c.open(false, request("POST", "/")...)
	if g := c.await(id); g.status() != "200" {
		t.Fatalf("%+v", g)
	}
	until(t, "a reset", func() bool { return c.of(id).reset })
	c.flood(20_000, func(uint32) []byte { return frame(h2.Data, 0, id, "x") })
	c.works()
	c.flood(1_000_000, func(uint32) []byte { return frame(h2.Data, 0, id, "x") })
	c.wantGoAway(http2.ErrCodeEnhanceYourCalm)
}

// The client cannot know that the gate is shutting down. So the gate must serve the
// request, although the shutdown begins before the request is complete.
func TestAShutdownServesAClientWhoseFirstBytesArriveInPieces(t *testing.T) {
	t.Parallel()
	http1 := []byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	http2 := concat([]byte(h2.Preface), frame(h2.Settings, 0, 0, ""), headersFrame(1, true))
	for name, c := range map[string]struct {
		all    []byte
		before int
	}{
		"HTTP/1": {http1, 5}, "HTTP/2": {http2, 5}, "HTTP/2, complete preface": {http2, len(h2.Preface)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(testkit.Timeout))
			_, _ = conn.Write(c.all[:c.before])
			until(t, "the first bytes", func() bool { return r.http1.NumClosing()+r.protocol.NumClosing() == 1 })
			done := make(chan struct{})
			go func() { defer close(done); _ = r.server.Shutdown(context.Background()) }()
			until(t, "the shutdown", func() bool { draining := false; r.on(func() { draining = r.part.draining }); return draining })
			for i := c.before; i < len(c.all); i += 5 {
				_, _ = conn.Write(c.all[i:min(i+5, len(c.all))])
				iterated := make(chan struct{})
				r.part.loop.Post(func() { close(iterated) })
				select {
				case <-iterated:
				case <-done:
				}
			}
			got, _ := io.ReadAll(conn)
			if !bytes.Contains(got, []byte("HTTP/1.1 200 OK")) && !bytes.Contains(got, []byte("\x01\x05\x00\x00\x00\x01\x88")) { // HEADERS, :status 200
				t.Errorf("%q", got)
			}
			<-done
		})
	}
}

func TestAClientThatKeepsReadingGetsTheWholeResponse(t *testing.T) {
	for name, end := range map[string]func(r *rig, c *client){
		"an error": func(_ *rig, c *client) { _ = c.raw(http2.FrameSettings, http2.FlagSettingsAck, 0, "x") },
		"a drain":  func(r *rig, _ *client) { r.on(func() { r.part.StopAccepting() }) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, serveHTTP1(t, serveZeros), func(o *options) { o.smallSendBuffer = true })
			c := r.dialUnread(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
			_ = c.WriteWindowUpdate(0, 1<<30)
			var in *downConn
			sent := 0
			for pending := 0; pending < maxUnwritten/2; sent += 30_000 { // each response is buffered completely before the next request
				_ = c.get("/?30000")
				until(t, "a response", func() (whole bool) {
					r.on(func() {
						in = r.part.clients.idle.First()
						whole = in != nil && in.peers.Last() == c.last && len(in.table.open) == 0
						if whole {
							pending = in.pending()
						}
					})
					return whole
				})
			}
			end(r, c)
			until(t, "the end", func() (ends bool) {
				r.on(func() {
					if in.state == announced { // as if the round trip took too long
						in.expired()
					}
					ends = in.state == closing
				})
				return ends
			})
			got, ticks, part := 0, 0, make([]byte, 8<<10)
			for {
				n, err := c.conn.Read(part)
				if got += n; err != nil {
					break
				}
				r.on(func() {
					if in.live && in.deadline-in.eng.loop.Now() > lingerCheckInterval {
						t.Errorf("the next check whether the client reads is in %v", time.Duration(in.deadline-in.eng.loop.Now()))
					}
					// The client has read bytes since the last check: the connection must
					// stay open, even if lingerReadTimeout has passed.
					if in.live && in.pending()+in.sock.Unsent() < int(in.lingering.unread) {
						ticks++
						in.deadline, in.lingering.progressAt = in.eng.loop.Now(), in.lingering.progressAt-lingerReadTimeout
						in.handle.Wake()
					}
				})
			}
			if ticks == 0 {
				t.Errorf("the progress of the client was never checked")
			}
			if got < sent {
				t.Errorf("%d bytes arrived", got)
			}
		})
	}
}

func TestADrainServesAClientWhoseFirstBytesAreInTransit(t *testing.T) {
	t.Parallel()
	overBothProtocols(t, echo, func(t *testing.T, up *container, _ bool) {
		for _, first := range []int{0, 5, len(h2.Preface)} {
			r := newRig(t, up)
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(testkit.Timeout))
			all := concat([]byte(h2.Preface), frame(h2.Settings, 0, 0, ""), headersFrame(1, true))
			_, _ = conn.Write(all[:first])
			if first > 0 {
				until(t, "the connection", func() bool { return r.protocol.Stats().Connections == 1 || first < len(h2.Preface) })
			}
			r.gate.Drain.Start()
			r.on(func() { r.part.StopAccepting() })
			_, _ = conn.Write(all[first:])
			framer := http2.NewFramer(conn, conn)
			responded, goAways := false, 0
			for {
				f, err := framer.ReadFrame()
				if err != nil {
					break
				}
				switch f := f.(type) {
				case *http2.HeadersFrame:
					responded = f.StreamID == 1
				case *http2.GoAwayFrame:
					goAways++
				case *http2.PingFrame:
					if !f.IsAck() {
						_ = framer.WritePing(true, f.Data)
					}
				}
			}
			if !responded || goAways != 2 {
				t.Errorf("%d bytes before: responded %v, %d GOAWAY", first, responded, goAways)
			}
		}
	})
}

func TestAContainerWithoutHTTP2GetsTheRequestOverHTTP1(t *testing.T) {
	var paths []string
	up := serveHTTP1(t, func(_ http.ResponseWriter, r *http.Request) {
		// The gate sends the HTTP/2 preface to detect the protocol. net/http passes it to
		// the handler as a request with the method PRI, which this test ignores.
		if r.Method != "PRI" {
			paths = append(paths, r.Method+r.URL.Path)
		}
	})
	r := newRig(t, up)
	c := r.dial()
	c.want(c.open(true, request("POST", "/once")...), "200", "")
	if got := strings.Join(paths, " "); got != "POST/once" {
		t.Errorf("the container received %s", got)
	}
	if f := r.faults(); len(f) > 0 {
		t.Errorf("faults %v", f)
	}
}
