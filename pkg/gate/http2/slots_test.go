package http2

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// responses serves responses with a length, chunked, with trailers, and larger than one
// read.
func responses(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/chunked":
		_, _ = io.WriteString(w, "hello ")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "you")
	case "/trailers":
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "sum")
		w.Header().Set("X-Sum", "3")
	case "/large":
		_, _ = io.WriteString(w, strings.Repeat("x", 15_000))
	case "/larger":
		_, _ = io.WriteString(w, strings.Repeat("x", 60_000))
	default:
		_, _ = io.WriteString(w, "hello")
	}
}

// Requests for UnlimitedPaths take no slot of ConcurrencyLimit. Instead,
// UnlimitedCapacity limits how many of them are in flight.
func TestAFullyBufferedResponseToAClientWithClosedWindowsHoldsNoUnlimitedCapacity(t *testing.T) {
	overBothProtocols(t, responses, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up, func(o *options) {
			pattern, err := exchange.ParsePathPattern("/metrics")
			if err != nil {
				t.Fatal(err)
			}
			o.gate.ConcurrencyLimit, o.gate.UnlimitedPaths, o.gate.UnlimitedCapacity = 1, []exchange.PathPattern{pattern}, 2
		})
		c := r.dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		ids := map[string]uint32{"first": c.get("/metrics"), "second": c.get("/metrics")}
		until(t, "both responses to be read", func() bool { return r.headsOf(c, ids) })
		until(t, "another client to be served", func() bool { status, body := r.get("/metrics"); return status == 200 && body == "hello" })
		_ = c.do(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) })
		c.want(ids["first"], "200", "hello")
		c.want(ids["second"], "200", "hello")
	})
}

func TestAFullyBufferedResponseToAClientWithClosedWindowsHoldsNoSlot(t *testing.T) {
	overBothProtocols(t, responses, func(t *testing.T, up *container, h2c bool) {
		r := newRig(t, up, func(o *options) { o.gate.ConcurrencyLimit = 2 })
		c := r.dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		ids := map[string]uint32{}
		for _, path := range []string{"/", "/chunked", "/trailers", "/large", "/again"} {
			ids[path] = c.get(path)
		}
		until(t, "every slot to be free", func() bool { return len(ids) == 5 && r.headsOf(c, ids) && r.gate.Admission.InFlight() == 0 })
		if n := r.gate.Drain.Requests(); n != 5 {
			t.Errorf("%d requests are open, want 5", n)
		}
		if status, body := r.get("/"); status != 200 || body != "hello" {
			t.Errorf("another client got %d %q", status, body)
		}
		_ = c.do(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) })
		c.want(ids["/"], "200", "hello")
		c.want(ids["/chunked"], "200", "hello you")
		if g := c.want(ids["/trailers"], "200", "sum"); g.trailers["x-sum"] != "3" {
			t.Errorf("trailers %v", g.trailers)
		}
		c.want(ids["/large"], "200", strings.Repeat("x", 15_000))
		c.works()
	})
}

func TestResponsesThatFillTheBuffersHoldNoSlotsWhileTheClientsWindowsAreClosed(t *testing.T) {
	overBothProtocols(t, responses, func(t *testing.T, up *container, h2c bool) {
		r := newRig(t, up, func(o *options) { o.gate.ConcurrencyLimit = 40 })
		c := r.dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		ids := map[string]uint32{}
		for n := range 40 {
			ids[fmt.Sprint(n)] = c.get("/larger")
		}
		until(t, "every slot to be free", func() bool { return r.headsOf(c, ids) && r.gate.Admission.InFlight() == 0 })
		_ = c.do(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) })
		_ = c.do(func() error { return c.WriteWindowUpdate(0, 1<<30) })
		for _, id := range ids {
			c.want(id, "200", strings.Repeat("x", 60_000))
		}
		c.works()
	})
}

// When the client stops reading, the gate reads the rest of the response if the rest fits
// into its buffer. The test repeats this with different numbers of bytes that the client
// has read before.
func TestAStalledClientHoldsNoSlotIfTheRestOfItsResponseFitsTheBuffer(t *testing.T) {
	overBothProtocols(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Path[1:])
		_, _ = io.WriteString(w, strings.Repeat("x", n))
	}, func(t *testing.T, up *container, _ bool) {
		for _, taken := range []int{1, 1_000, 5_000, 10_000, 20_000, 30_000, 50_000} {
			r := newRig(t, up, func(o *options) { o.gate.ConcurrencyLimit = 1 })
			c := r.dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(taken)})
			c.autoCredit = false
			id := c.get(fmt.Sprint("/", taken+60_000))
			until(t, fmt.Sprintf("a free slot after the client has read %d bytes", taken), func() bool {
				return c.of(id).size == taken && r.gate.Admission.InFlight() == 0
			})
			_ = c.do(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) })
			_ = c.do(func() error { return c.WriteWindowUpdate(0, 1<<20) })
			if g := c.await(id); g.status() != "200" || g.size != taken+60_000 || !g.ended {
				t.Errorf("%d bytes read: status %s, %d bytes (ended %v)", taken, g.status(), g.size, g.ended)
			}
		}
	})
}

// headsOf reports whether the heads of all responses have arrived.
func (r *rig) headsOf(c *client, ids map[string]uint32) bool {
	for _, id := range ids {
		if c.of(id).head == nil {
			return false
		}
	}
	return true
}

func TestAClientThatDoesNotReadHoldsNoSlotOnceItsResponsesAreRead(t *testing.T) {
	overBothProtocols(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fill" {
			_, _ = w.Write(make([]byte, 8<<20))
			return
		}
		responses(w, r)
	}, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up, func(o *options) { o.gate.ConcurrencyLimit, o.smallSendBuffer = 3, true })
		c := r.dialUnread(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
		_ = c.WriteWindowUpdate(0, 1<<30)
		c.get("/fill")
		until(t, "the socket to accept no more bytes", func() (full bool) {
			r.on(func() {
				for conn := range r.part.clients.all() {
					full = conn.full()
				}
			})
			return full
		})
		for range 4 {
			c.get("/")
		}
		until(t, "the slots of the responses that have been read", func() bool {
			return r.gate.Drain.Requests() == 5 && r.gate.Admission.InFlight() == 1
		})
		if status, body := r.get("/"); status != 200 || body != "hello" {
			t.Errorf("another client got %d %q", status, body)
		}
	})
}

func TestACloseDelimitedResponseReleasesItsSlotOnceItIsRead(t *testing.T) {
	for _, size := range []int{0, 1, 5_000, 40_000} {
		body := strings.Repeat("x", size)
		r := newRig(t, serveRaw(t, func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\n"+body)
		}), func(o *options) { o.gate.ConcurrencyLimit, o.protocol = 1, upstream.HTTP1 })
		c := r.dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		id := c.get("/")
		until(t, "the slot", func() bool { return c.of(id).head != nil && r.gate.Admission.InFlight() == 0 })
		_ = c.do(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) })
		c.want(id, "200", body)
	}
}

func TestAResponseBeyondTheBufferKeepsItsSlot(t *testing.T) {
	overBothProtocols(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 200_000))
	}, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up, func(o *options) { o.gate.ConcurrencyLimit = 1 })
		c := r.dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		id := c.get("/")
		until(t, "the head", func() bool { return c.of(id).head != nil })
		next := r.dial()
		queued := next.get("/")
		until(t, "a queued request", func() bool { return r.gate.Admission.QueueDepth() == 1 })
		_ = c.do(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) })
		if g := c.await(id); g.size != 200_000 || !g.ended {
			t.Errorf("%d bytes arrived, ended: %v", g.size, g.ended)
		}
		if g := next.await(queued); g.size != 200_000 {
			t.Errorf("the queued request got %d bytes", g.size)
		}
	})
}

func TestAnUnfinishedResponseKeepsItsSlot(t *testing.T) {
	finish := make(chan struct{})
	overBothProtocols(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "first")
		case "/chunked":
			_, _ = io.WriteString(w, "first")
		default:
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-finish:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, " last")
	}, func(t *testing.T, up *container, _ bool) {
		for _, path := range []string{"/length", "/chunked"} {
			finish = make(chan struct{})
			r := newRig(t, up, func(o *options) { o.gate.ConcurrencyLimit = 1 })
			c := r.dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			id := c.get(path)
			until(t, "the head", func() bool { return c.of(id).head != nil })
			next := r.dial()
			queued := next.get("/")
			until(t, "a queued request", func() bool { return r.gate.Admission.QueueDepth() == 1 })
			close(finish)
			next.want(queued, "200", "")
			_ = c.do(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) })
			c.want(id, "200", "first last")
		}
	})
}

// Once the container has read the reset, it no longer waits for the rest of the
// upload.
func TestAHardLimitFreesTheSlotOfAnUploadWhoseClientDisconnected(t *testing.T) {
	overBothProtocols(t, func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = fmt.Fprint(w, n)
		}
	}, func(t *testing.T, up *container, _ bool) {
		const limit = 5
		r := newRig(t, up, func(o *options) {
			o.gate.ConcurrencyLimit, o.gate.HardConcurrency, o.gate.RequestTimeout = limit, true, time.Hour
		})
		c := r.dial()
		for range limit {
			id := c.open(false, request("POST", "/", "content-length", "100000")...)
			_ = c.data(id, false, "some")
		}
		until(t, "all slots to be taken", func() bool { return r.gate.Admission.InFlight() == limit })
		_ = c.conn.Close()
		until(t, "the slots", func() bool { return r.gate.Admission.InFlight() == 0 })
		r.dial().works()
	})
}

func TestAHardLimitKeepsTheSlotWhileTheContainerIsWorking(t *testing.T) {
	begun, finish := make(chan struct{}, 2), make(chan struct{})
	up := serveH2C(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/work" {
			begun <- struct{}{}
			<-finish
		}
	})
	r := newRig(t, up, func(o *options) { o.gate.ConcurrencyLimit, o.gate.HardConcurrency = 1, true })
	c := r.dial()
	id := c.open(false, request("POST", "/work")...)
	_ = c.data(id, true, "all of the upload")
	testkit.Receive(t, "the request", begun)
	_ = c.conn.Close()
	until(t, "the end of the client's connection", func() bool { return r.protocol.Stats().Connections == 0 })
	next := r.dial()
	queued := next.get("/")
	until(t, "a queued request", func() bool { return r.gate.Admission.QueueDepth() == 1 })
	if n := r.gate.Admission.InFlight(); n != 1 {
		t.Errorf("%d slots are taken while the container works on the request", n)
	}
	close(finish)
	next.want(queued, "200", "")
}
