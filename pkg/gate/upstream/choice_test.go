package upstream

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// requestAttributes is a Downstream with the request attributes that a Choice needs.
type requestAttributes struct {
	exchange.Downstream
	idempotent bool
}

func (a requestAttributes) Idempotent() bool { return a.idempotent }
func (a requestAttributes) FullyRead() bool  { return true }

// newRequest returns an exchange before its first attempt.
func newRequest(t *testing.T, protocol string, idempotent, upgrade bool) *exchange.Exchange {
	t.Helper()
	g := &exchange.Gate{}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	x := &exchange.Exchange{}
	x.Bind(g, func() int64 { return 1 }, func() {}, nil)
	x.Protocol, x.Upgrade = protocol, upgrade
	x.Begin(1, requestAttributes{idempotent: idempotent}, nil)
	return x
}

func TestAnExpiredProtocolGuessIsTestedByOneRetryableRequest(t *testing.T) {
	get, post, upgrade := newRequest(t, "HTTP/1.1", true, false), newRequest(t, "HTTP/1.1", false, false), newRequest(t, "HTTP/1.1", true, true)
	over2 := newRequest(t, "HTTP/2.0", false, false)
	const now = int64(1000)
	var c Choice
	want := func(what string, x *exchange.Exchange, now int64, want Protocol) {
		t.Helper()
		if got := c.For(x, now); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	if !c.MissedHTTP1(now) {
		t.Fatal("a connection closed without a response is not a guess against HTTP/1")
	}
	want("a request before HTTP/2 is proven", get, now, HTTP1)
	c.SpeaksHTTP2(now)
	want("a request within the guess", get, now+guessTime-1, H2C)
	want("an upgrade within the guess", upgrade, now+guessTime-1, HTTP1)
	want("a POST after the guess", post, now+guessTime, H2C)
	want("the first GET after the guess", get, now+guessTime, HTTP1)
	want("the second GET after the guess", get, now+guessTime, H2C)
	c.SpeaksHTTP1()
	want("a POST after a response over HTTP/1", post, now+guessTime, HTTP1)
	if c.MissedHTTP1(now) {
		t.Error("a guess contradicts a proof of HTTP/1")
	}
	c.NotHTTP1()
	want("a POST after a response with an HTTP/2 frame", post, now, HTTP1)
	c.MissedHTTP2(now)
	want("an HTTP/2 request after one failed connection", over2, now, H2C)

	c.Reset()
	c.MissedHTTP2(now)
	want("an HTTP/2 request within the guess", over2, now+guessTime-1, HTTP1)
	want("an HTTP/2 request after the guess", over2, now+guessTime, H2C)
	want("a second HTTP/2 request during the test", over2, now+guessTime, HTTP1)
	c.MissedHTTP2(now + guessTime)
	want("an HTTP/2 request after a second failed test", over2, now+3*guessTime-1, HTTP1)
	want("an HTTP/2 request after the longer guess", over2, now+3*guessTime, H2C)
	c.NotHTTP2()
	want("an HTTP/2 request after a response in HTTP/1", over2, now+1000*guessTime, HTTP1)
	c.Reset()
	c.NotHTTP1()
	want("an upgrade after an HTTP/2 frame", upgrade, now, H2C)
	c.Reset()
	want("an HTTP/2 request after a restart", over2, now, H2C)
	want("an HTTP/1 request after a restart", get, now, HTTP1)
}
