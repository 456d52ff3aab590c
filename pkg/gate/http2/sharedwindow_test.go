package http2

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
)

// As with Go's HTTP/2 server, one stream may use up the whole connection window.
func TestAnUnreadUploadDoesNotBlockOtherUploads(t *testing.T) {
	exhausted := make(chan struct{}, 1)
	var held uint32
	bytes := map[int64]int{} // upload bytes received on each connection
	up := serveFrames(t, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1 << 20}}, func(p *peer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if field(f, ":path") == "/blocked" {
				held = f.StreamID
			}
		case *http2.DataFrame:
			switch {
			case f.StreamID == held && p.number == 1:
				if bytes[p.number] += len(f.Data()); bytes[p.number] == 65535 {
					exhausted <- struct{}{}
				}
			case f.StreamEnded():
				p.respond(f.StreamID, "")
			}
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	attacker := r.dial()
	id := attacker.open(false, request("POST", "/blocked")...)
	go func() {
		for range 5 {
			_ = attacker.data(id, false, strings.Repeat("x", 65535/5))
		}
	}()
	testkit.Receive(t, "the whole window of the connection", exhausted)
	innocent := r.dial()
	for range 3 {
		until(t, "the timeout of an exhausted window", func() (over bool) {
			r.on(func() { over = r.part.pool.conns[0].starved() })
			return over
		})
		id := innocent.open(false, request("POST", "/")...)
		_ = innocent.data(id, true, "some")
		innocent.want(id, "200", "")
	}
	_ = attacker.raw(http2.FrameRSTStream, 0, id, u32(uint32(http2.ErrCodeCancel)))
}

// The upload of the innocent client is in progress when that of the attacker begins.
func TestAnUnreadUploadDoesNotBlockAnUploadInProgress(t *testing.T) {
	exhausted, begun := make(chan struct{}, 1), make(chan struct{}, 1)
	var mu sync.Mutex // each connection has a goroutine
	var unread uint32
	var unreadOn int64
	bytes := 0 // bytes received of the upload that the container does not read
	up := serveFrames(t, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1 << 20}}, func(p *peer, f http2.Frame) bool {
		mu.Lock()
		defer mu.Unlock()
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if field(f, ":path") == "/unread" {
				unread, unreadOn = f.StreamID, p.number
			} else {
				begun <- struct{}{}
			}
		case *http2.DataFrame:
			switch {
			case f.StreamID == unread && p.number == unreadOn:
				// This upload exhausts the connection window with 65,535 bytes. If the
				// innocent client's upload is on the same connection, it has used 4 bytes
				// of the window. Then 65,531 bytes suffice.
				if bytes += len(f.Data()); bytes == 65535-4 || bytes == 65535 {
					select {
					case exhausted <- struct{}{}:
					default:
					}
				}
			case f.StreamEnded():
				p.respond(f.StreamID, "")
			}
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	innocent := r.dial()
	id := innocent.open(false, request("POST", "/")...)
	_ = innocent.data(id, false, "some")
	testkit.Receive(t, "the head of the upload in progress", begun)
	attacker := r.dial()
	blocked := attacker.open(false, request("POST", "/unread")...)
	go func() {
		for range 5 {
			_ = attacker.data(blocked, false, strings.Repeat("x", 65535/5))
		}
	}()
	testkit.Receive(t, "the whole window of a connection", exhausted)
	_ = innocent.data(id, true, "more")
	innocent.want(id, "200", "")
	_ = attacker.raw(http2.FrameRSTStream, 0, blocked, u32(uint32(http2.ErrCodeCancel)))
}

// post sends a request with its body in one write.
func (c *client) post(body string) (id uint32) {
	_ = c.do(func() error {
		id = c.nextID()
		var both bytes.Buffer
		frames := http2.NewFramer(&both, nil)
		_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields(request("POST", "/")), EndHeaders: true})
		_ = frames.WriteData(id, true, []byte(body))
		_, err := c.conn.Write(both.Bytes())
		return err
	})
	return id
}

// Completely received bodies share connections with bodies of any client.
func TestFullyReceivedBodiesOfSeveralClientsShareAConnection(t *testing.T) {
	heads := make(chan int64, 16)
	up := servePeers(t, nil, func(p *peer, f http2.Frame) bool {
		if _, ok := f.(*http2.MetaHeadersFrame); ok {
			heads <- p.number
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	for range 8 {
		c := r.dial()
		id := c.post("some")
		if n := testkit.Receive(t, "a request", heads); n != 1 {
			t.Errorf("a complete body was sent on connection %d", n)
		}
		defer func() { _ = c.raw(http2.FrameRSTStream, 0, id, u32(uint32(http2.ErrCodeCancel))) }()
	}
}

// hypercorn allows 100 streams from the first frame on, and closes the connection
// at the 101st.
func TestAConnectionCarriesAtMost100StreamsBeforeSETTINGS(t *testing.T) {
	const allowed, streams = 100, 240
	heads := make(chan int64, 2*streams)
	begun := make(chan struct{}, 2*streams)
	up := servePeers(t, nil, func(p *peer, f http2.Frame) bool {
		if _, ok := f.(*http2.MetaHeadersFrame); ok {
			heads <- p.number
			begun <- struct{}{}
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	for range streams {
		c.get("/")
	}
	most := map[int64]int{}
	for range streams {
		testkit.Receive(t, "a request", begun)
		most[<-heads]++
	}
	for n, k := range most {
		if k > allowed {
			t.Errorf("connection %d: %d streams before its SETTINGS", n, k)
		}
	}
}

// Node.js resets streams with ENHANCE_YOUR_CALM while a session exceeds its memory
// limit, and closes the session after 100 such resets.
func TestAConnectionTakesNoNewRequestsAfterManyENHANCE_YOUR_CALM(t *testing.T) {
	const allowed = 100
	held := make(chan uint32, 1)
	rejected, ended := map[int64]int{}, make(chan int64, 100)
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		head, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			return true
		}
		if field(head, ":path") == "/innocent" {
			held <- head.StreamID
			return true
		}
		if p.number > 1 {
			p.respond(head.StreamID, "")
			return true
		}
		if rejected[p.number]++; rejected[p.number] > allowed {
			ended <- p.number
			return false
		}
		_ = p.do(func() error { return p.WriteRSTStream(head.StreamID, http2.ErrCodeEnhanceYourCalm) })
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	innocent := r.dial()
	id := innocent.open(true, request("POST", "/innocent")...)
	testkit.Receive(t, "the innocent request", held)
	other := r.dial()
	for range 2 * allowed {
		other.await(other.open(true, request("POST", "/rejected")...))
	}
	if g := innocent.of(id); g.over() || len(ended) != 0 {
		t.Errorf("%d connections were ended by the container; the innocent request: %+v", len(ended), g)
	}
	other.want(other.get("/after"), "200", "")
	_ = innocent.raw(http2.FrameRSTStream, 0, id, u32(uint32(http2.ErrCodeCancel)))
}
