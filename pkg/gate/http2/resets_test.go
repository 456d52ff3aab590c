package http2

import (
	"sync"
	"testing"

	"go.uber.org/atomic"
	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
)

// The container closes a connection after 200 resets, as a defence against
// CVE-2023-44487.
func TestCancellationsOfOneClientDoNotEndRequestsOfOthers(t *testing.T) {
	const allowed = 200
	var ended atomic.Int64
	var mu sync.Mutex
	resets := map[int64]int{} // resets of each connection
	held := make(chan uint32, 1)
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			switch f.PseudoValue("path") {
			case "/innocent":
				held <- f.StreamID
			case "/done":
				p.respond(f.StreamID, "")
			}
		case *http2.RSTStreamFrame:
			mu.Lock()
			defer mu.Unlock()
			if resets[p.number]++; resets[p.number] > allowed {
				ended.Inc()
				return false
			}
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	innocent := r.dial()
	id := innocent.open(true, request("POST", "/innocent")...)
	testkit.Receive(t, "the innocent request", held)
	attacker := r.dial()
	for range 2 * allowed {
		_ = attacker.raw(http2.FrameRSTStream, 0, attacker.get("/cancelled"), u32(uint32(http2.ErrCodeCancel)))
		// The response to /done shows that the container has received /cancelled.
		attacker.want(attacker.get("/done"), "200", "")
	}
	if g := innocent.of(id); g.over() || ended.Load() != 0 {
		t.Errorf("%d connections were ended by the container; the innocent request: %+v", ended.Load(), g)
	}
	_ = innocent.raw(http2.FrameRSTStream, 0, id, u32(uint32(http2.ErrCodeCancel)))
}
