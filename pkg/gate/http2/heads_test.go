package http2

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

func TestHeadsOfUpToOneMiBAreForwarded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 30<<10)
	overBothProtocols(t, func(w http.ResponseWriter, r *http.Request) {
		n := 0
		for _, v := range r.Header {
			n += len(v) * len(v[0])
		}
		w.Header().Set("X-Size", fmt.Sprint(n/len(long)))
		for i := range 31 {
			w.Header().Set(fmt.Sprint("X-", i), long)
		}
	}, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up, func(o *options) { o.engine.MaxHeaderList = 1 << 20 })
		c := r.dial()
		fields := request("GET", "/")
		for i := range 31 {
			fields = append(fields, fmt.Sprint("x-", i), long)
		}
		_ = c.do(func() error { return c.writeFieldBlock(1, c.fields(fields)) })
		c.last = 1
		g := c.await(1)
		if g.status() != "200" || g.head["x-size"] != "31" || g.head["x-30"] != long {
			t.Errorf("status %q, size %q, reset %v %v; connection over %v, %v; %v", g.status(), g.head["x-size"], g.reset, g.code, c.over(), c.goAways, r.faults())
		}
	})
}

// writeFieldBlock sends a field block of any length.
func (c *client) writeFieldBlock(id uint32, block []byte) error {
	n := min(len(block), 16<<10)
	err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:n], EndHeaders: n == len(block), EndStream: true})
	for block = block[n:]; err == nil && len(block) > 0; block = block[n:] {
		n = min(len(block), 16<<10)
		err = c.WriteContinuation(id, n == len(block), block[:n])
	}
	return err
}

func TestRepliesToTooLargeHeadsFollowTheRulesForHEADAndGRPC(t *testing.T) {
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
	c := r.dial()
	var many []string
	for i := range 4100 {
		many = append(many, fmt.Sprint("f", i%10), "")
	}
	g := c.want(c.open(true, request("HEAD", "/", many...)...), "431", "")
	if g.head["content-length"] == "0" || g.head["content-length"] == "" {
		t.Errorf("HEAD: %v", g.head)
	}
	g = c.want(c.open(true, append(request("POST", "/", "content-type", "application/grpc"), many...)...), "200", "")
	if g.head["grpc-status"] != "8" || g.head["k-gate-outcome"] != "head-too-large" {
		t.Errorf("gRPC: %v", g.head)
	}
	c.works()
}

func TestFramesForResetStreamsAreNoConnectionError(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	// Closing hold ends the handlers. Their contexts may not end, because net/http does not
	// detect the end of a connection while the request body is unread.
	defer close(hold)
	overBothProtocols(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/works" {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
	}, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up)
		for _, by := range []string{"the client", "the gate"} {
			c := r.dial()
			var ids []uint32
			for range maxStreams {
				ids = append(ids, c.open(false, request("POST", "/")...))
			}
			for _, id := range ids {
				if by == "the client" {
					_ = c.do(func() error { return c.WriteRSTStream(id, http2.ErrCodeCancel) })
				} else {
					_ = c.raw(http2.FrameWindowUpdate, 0, id, u32(0))
				}
			}
			c.works()
			// DATA and trailers of a reset stream must not end the connection. A client
			// may send them before it learns that the gate has reset the stream.
			for _, id := range ids {
				_ = c.data(id, false, "late")
				_ = c.do(func() error {
					return c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields([]string{"x-sum", "1"}), EndHeaders: true, EndStream: true})
				})
			}
			c.works()
			if c.over() {
				t.Errorf("streams reset by %s: %v", by, c.goAways)
			}
		}
	})
}

// serveInterimFlood responds with many interim heads.
func serveInterimFlood(t *testing.T, sent func(n int), block int) *container {
	return serveRaw(t, func(conn net.Conn) {
		f := http2.NewFramer(conn, conn)
		if _, err := conn.Read(make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		_ = f.WriteSettings()
		var b strings.Builder
		e := hpack.NewEncoder(&b)
		for {
			fr, err := f.ReadFrame()
			if err != nil {
				return
			}
			h, ok := fr.(*http2.HeadersFrame)
			if !ok {
				continue
			}
			for i := range 10_000 {
				b.Reset()
				_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "103"})
				_ = e.WriteField(hpack.HeaderField{Name: "link", Value: strings.Repeat("x", block), Sensitive: true})
				if f.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, BlockFragment: []byte(b.String()), EndHeaders: true}) != nil {
					return
				}
				sent(i)
			}
		}
	})
}

func TestUnreadInterimResponsesAreLimited(t *testing.T) {
	r := newRig(t, serveInterimFlood(t, func(int) {}, 8<<10), func(o *options) { o.protocol, o.smallSendBuffer = 2, true })
	c := r.dialUnread()
	_, _ = c.conn.Write(headersFrame(1, true))
	most := 0
	defer func() {
		if t.Failed() {
			t.Logf("faults %v, %d requests in flight, at most %d bytes of interim responses", r.faults(), r.gate.Admission.InFlight(), most)
		}
	}()
	until(t, "the end of the request", func() bool {
		r.on(func() {
			for _, u := range r.part.pool.conns {
				for _, s := range u.table.open {
					n := 0
					for i := range s.heads {
						n += s.heads[i].Cap()
					}
					most = max(most, n)
				}
			}
		})
		return r.faults()[h2.FaultHeaderBlock.String()] > 0 && r.gate.Admission.InFlight() == 0 || most > 4<<20
	})
	if most > 2<<20 {
		t.Errorf("%d bytes of interim responses", most)
	}
}
