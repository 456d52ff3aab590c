package exchange

import (
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
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

// responding is a connection to a container that has sent the head of its response, but
// not the body.
type responding struct {
	Upstream
	res wire.Response
}

func (u *responding) Receive() (HeadState, gate.Outcome) { return HeadFinal, gate.Undecided }
func (u *responding) Response() *wire.Response           { return &u.res }
func (u *responding) Status() int                        { return u.res.Status }
func (u *responding) Pump(Sink) bool                     { return false }
func (u *responding) Failed() bool                       { return false }
func (u *responding) Ended() bool                        { return false }

// stalledClient has not yet read bytes that the gate sent before the container's response.
type stalledClient struct {
	Downstream
	responded bool
}

func (c *stalledClient) Flush() (moved, empty bool) { return false, false }
func (c *stalledClient) Broken() bool               { return false }
func (c *stalledClient) Respond(*wire.Response)     { c.responded = true }

func TestAClientThatDoesNotReadCausesNoResponseStartTimeout(t *testing.T) {
	g := &Gate{Config: Config{ResponseStartTimeout: time.Second}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	x, c := &Exchange{}, &stalledClient{}
	x.gate, x.settings, x.state = g, g.settings.Load(), StateAwaiting
	x.down, x.up = c, &responding{res: wire.Response{Status: 200}}
	x.timeouts.Begin(x.settings, 1)
	if _, o := x.awaitResponse(2); o != gate.Undecided || !c.responded {
		t.Errorf("outcome %s, responded %v; want undecided, true", o, c.responded)
	}
	if o := x.timeouts.Expired(1 + int64(time.Minute)); o != gate.Undecided {
		t.Errorf("a minute later the exchange ends: %s", o)
	}
}
