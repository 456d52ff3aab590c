package upstream

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// asker is a Downstream with only the request attributes that a Choice needs.
type asker struct {
	exchange.Downstream
	idempotent bool
}

func (a asker) Idempotent() bool { return a.idempotent }
func (a asker) Whole() bool      { return true }

// ask returns a request before its first attempt.
func ask(t *testing.T, protocol string, idempotent, upgrade bool) *exchange.Exchange {
	t.Helper()
	g := &exchange.Gate{}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	x := &exchange.Exchange{}
	x.Bind(g, func() int64 { return 1 }, func() {}, nil)
	x.Protocol, x.Upgrade = protocol, upgrade
	x.Begin(1, asker{idempotent: idempotent}, nil)
	return x
}

func TestAnExpiredProtocolGuessIsTestedByOneRetryableRequest(t *testing.T) {
	get, post, upgrade := ask(t, "HTTP/1.1", true, false), ask(t, "HTTP/1.1", false, false), ask(t, "HTTP/1.1", true, true)
	over2 := ask(t, "HTTP/2.0", false, false)
	const now = int64(1000)
	var c Choice
	want := func(what string, x *exchange.Exchange, now int64, want Protocol) {
		t.Helper()
		if got := c.For(x, now); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	if !c.MissedHTTP1(now) {
		t.Fatal("HTTP/1 that was never answered is no guess")
	}
	want("a request before HTTP/2 is proven", get, now, HTTP1)
	c.SpeaksHTTP2(now)
	want("a request within the guess", get, now+guessTime-1, H2C)
	want("an upgrade within the guess", upgrade, now+guessTime-1, HTTP1)
	want("a POST after the guess", post, now+guessTime, H2C)
	want("the first GET after the guess", get, now+guessTime, HTTP1)
	want("the second one", get, now+guessTime, H2C)
	c.SpeaksHTTP1()
	want("a POST after a response over HTTP/1", post, now+guessTime, HTTP1)
	if c.MissedHTTP1(now) {
		t.Error("a guess contradicts a proof of HTTP/1")
	}
	c.NotHTTP1()
	want("a POST after a frame of HTTP/2 in one response", post, now, HTTP1)
	c.MissedHTTP2(now)
	want("a request over HTTP/2 after one bad connection", over2, now, H2C)

	c.Forget()
	c.MissedHTTP2(now)
	want("HTTP/2 within the guess", over2, now+guessTime-1, HTTP1)
	want("HTTP/2 after the guess", over2, now+guessTime, H2C)
	want("and another request meanwhile", over2, now+guessTime, HTTP1)
	c.MissedHTTP2(now + guessTime)
	want("HTTP/2 after a second test", over2, now+3*guessTime-1, HTTP1)
	want("and later", over2, now+3*guessTime, H2C)
	c.NotHTTP2()
	want("HTTP/2 after an answer in HTTP/1", over2, now+1000*guessTime, HTTP1)
	c.Forget()
	c.NotHTTP1()
	want("an upgrade after a frame of HTTP/2", upgrade, now, H2C)
	c.Forget()
	want("HTTP/2 after a restart", over2, now, H2C)
	want("HTTP/1 after a restart", get, now, HTTP1)
}
