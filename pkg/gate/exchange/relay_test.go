package exchange

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

// brokenUpstream is a connection that was closed without a response.
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

// smallClient is a client whose request fits into the replay buffer.
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
		name       string
		retries    uint8
		idempotent bool
		up         brokenUpstream
		wantRetry  bool
	}{
		{"a GET on a reused connection", 0, true, brokenUpstream{reused: true, sent: true}, true},
		{"a GET that was retried once", 1, true, brokenUpstream{reused: true, sent: true}, false},
		{"a retried GET of which nothing was sent on a reused connection", 1, true, brokenUpstream{reused: true}, true},
		{"a retried POST of which nothing was sent on a reused connection", 1, false, brokenUpstream{reused: true}, true},
		{"a POST on a reused connection", 0, false, brokenUpstream{reused: true, sent: true}, false},
		{"a GET on a new connection", 0, true, brokenUpstream{}, false},
		{"a GET after the maximum of retries", maxRetries, true, brokenUpstream{reused: true}, false},
	} {
		x := &Exchange{retries: c.retries}
		x.gate, x.state = g, StateAwaiting
		x.down, x.up = &smallClient{idempotent: c.idempotent}, &c.up
		o := x.failed(gate.UpstreamClosed, 1)
		done := o != gate.Undecided
		if done == c.wantRetry || done && o != gate.UpstreamClosed || !done && x.State() != StateConnecting {
			t.Errorf("%s: ended %v (%s), state %d", c.name, done, o, x.State())
		}
	}
}
