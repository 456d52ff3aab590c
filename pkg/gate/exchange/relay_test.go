package exchange

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

// brokenUpstream is a connection that has ended without an answer.
type brokenUpstream struct {
	Upstream
	reused, sent bool
}

func (u *brokenUpstream) Unprocessed() bool      { return false }
func (u *brokenUpstream) Reused() bool           { return u.reused }
func (u *brokenUpstream) Sent() bool             { return u.sent }
func (u *brokenUpstream) ResponseBegan() bool    { return false }
func (u *brokenUpstream) ProtocolMismatch() bool { return false }
func (u *brokenUpstream) Abort()                 {}

// smallClient has sent a request that can be read again.
type smallClient struct {
	Downstream
	idempotent bool
}

func (c *smallClient) Idempotent() bool        { return c.idempotent }
func (c *smallClient) Rewind(bool) bool        { return true }
func (c *smallClient) CheckDisconnected() bool { return false }

func TestASentRequestIsRetriedOnceAndAnUnsentOneUpToTheMaximum(t *testing.T) {
	g := &Gate{Config: Config{}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		tries       uint8
		idempotent  bool
		up          brokenUpstream
		isSentAgain bool
	}{
		{"a GET, on a kept connection", 0, true, brokenUpstream{reused: true, sent: true}, true},
		{"a GET, twice", 1, true, brokenUpstream{reused: true, sent: true}, false},
		{"a GET that a second kept connection has not taken", 1, true, brokenUpstream{reused: true}, true},
		{"a POST that a second kept connection has not taken", 1, false, brokenUpstream{reused: true}, true},
		{"a POST", 0, false, brokenUpstream{reused: true, sent: true}, false},
		{"a GET, on a fresh connection", 0, true, brokenUpstream{}, false},
		{"a GET that no connection takes", maxRetries, true, brokenUpstream{reused: true}, false},
	} {
		x := &Exchange{retries: c.tries}
		x.gate, x.state = g, StateAwaiting
		x.down, x.up = &smallClient{idempotent: c.idempotent}, &c.up
		o := x.failed(gate.UpstreamClosed, 1)
		done := o != gate.Undecided
		if done == c.isSentAgain || done && o != gate.UpstreamClosed || !done && x.State() != StateConnecting {
			t.Errorf("%s: over %v (%s), state %d", c.name, done, o, x.State())
		}
	}
}
