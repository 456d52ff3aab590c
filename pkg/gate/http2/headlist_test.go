package http2

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/atomic"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/internal/testkit"
)

// listSize is the length of a header list (RFC 9113 section 6.5.2).
func listSize(fields []hpack.HeaderField) (n int) {
	for _, f := range fields {
		n += int(f.Size())
	}
	return n
}

// strictContainer closes the connection when a header list exceeds its limit, like
// hypercorn. It responds to /blocked only after release is closed.
type strictContainer struct {
	*container
	longest atomic.Int64
	begun   chan struct{}
	release chan struct{}
}

func serveStrict(t *testing.T, limit int, settings ...http2.Setting) *strictContainer {
	s := &strictContainer{begun: make(chan struct{}, 100), release: make(chan struct{})}
	s.container = serveFrames(t, settings, func(p *peer, f http2.Frame) bool {
		head, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			if d, ok := f.(*http2.DataFrame); ok && d.StreamEnded() {
				p.respond(d.StreamID, "")
			}
			return true
		}
		n := listSize(head.Fields)
		s.longest.Store(max(s.longest.Load(), int64(n)))
		switch {
		case n > limit:
			_ = p.do(func() error { return p.WriteGoAway(head.StreamID, http2.ErrCodeProtocol, nil) })
			return false
		case field(head, ":path") == "/blocked":
			s.begun <- struct{}{}
			go func() {
				<-s.release
				p.respond(head.StreamID, "held")
			}()
		case head.StreamEnded():
			p.respond(head.StreamID, "")
		}
		return true
	})
	return s
}

func TestAHeadAboveTheHeaderListLimitGets431AndAffectsNoOtherRequest(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    int
		settings []http2.Setting
	}{
		{"64 KiB if none is announced", 64 << 10, nil},
		{"announced", 16 << 10, []http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: 16 << 10}}},
		{"announced, small", 1000, []http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: 1000}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := serveStrict(t, c.limit, c.settings...)
			r := newRig(t, up.container, func(o *options) { o.engine = &Protocol{Scheme: "http", MaxHeaderList: 256 << 10} })
			innocent := r.dial()
			innocent.works()
			held := innocent.open(true, request("POST", "/blocked")...)
			testkit.Receive(t, "the request that must survive", up.begun)
			big := strings.Repeat("x", c.limit+1024)
			attacker := r.dial()
			for range 5 {
				fields := request("GET", "/")
				for i := 0; i < len(big); i += 4 << 10 {
					fields = append(fields, fmt.Sprint("x-", i), big[i:min(i+4<<10, len(big))])
				}
				if c.limit <= 16<<10 { // the head fits into one HEADERS frame
					if g := attacker.await(attacker.open(true, fields...)); g.status() != "431" || g.head["k-gate-outcome"] != "head-too-large" {
						t.Errorf("over HTTP/2: %v", g.head)
					}
				}
				req, _ := http.NewRequest("GET", "http://"+r.addr+"/", nil)
				req.Header.Set("X-Big", big)
				res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Timeout}).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != 431 {
					t.Errorf("over HTTP/1: %v", res.StatusCode)
				}
			}
			close(up.release)
			innocent.want(held, "200", "held")
		})
	}
}

func TestAHeadOfExactlyTheContainersLimitIsForwarded(t *testing.T) {
	const limit = 5000
	up := serveStrict(t, limit, http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: limit})
	r := newRig(t, up.container)
	c := r.dial()
	c.want(c.get("/", "x-pad", "x"), "200", "")
	unpadded := int(up.longest.Load()) - 1
	c.want(c.get("/", "x-pad", strings.Repeat("x", limit-unpadded)), "200", "")
	if n := up.longest.Load(); n != limit {
		t.Errorf("a header list of %d bytes, want %d", n, limit)
	}
	if g := c.await(c.get("/", "x-pad", strings.Repeat("x", limit-unpadded+1))); g.status() != "431" {
		t.Errorf("one byte more: %v", g.head)
	}
}

func TestALongHeadWaitsForSETTINGSOnANewConnection(t *testing.T) {
	up := serveStrict(t, 8<<10, http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 8 << 10})
	// The protocol 2 is H2C. With it, the gate sends short heads before SETTINGS arrive.
	r := newRig(t, up.container, func(o *options) { o.protocol = 2 })
	c := r.dial()
	if g := c.await(c.get("/", "x-big", strings.Repeat("x", 10<<10))); g.status() != "431" {
		t.Errorf("%v", g.head)
	}
	c.want(c.get("/", "x-big", strings.Repeat("x", 7<<10)), "200", "")
	if n := up.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
