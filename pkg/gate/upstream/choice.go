package upstream

import (
	"fmt"
	"math"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Protocol is the protocol of the user container.
type Protocol uint32

// The protocols. Auto = detect it.
const (
	Auto Protocol = iota
	HTTP1
	H2C
)

// String returns the value for UPSTREAM_PROTOCOL.
func (p Protocol) String() string {
	switch p {
	case HTTP1:
		return "http1"
	case H2C:
		return "h2c"
	}
	return "auto"
}

// ParseProtocol parses a value of UPSTREAM_PROTOCOL.
func ParseProtocol(s string) (Protocol, error) {
	for _, p := range [...]Protocol{Auto, HTTP1, H2C} {
		if s == p.String() {
			return p, nil
		}
	}
	return Auto, fmt.Errorf("protocol %q: want auto, h2c or http1", s)
}

// Choice detects the protocols that the container supports. Requests of HTTP/1 clients
// use HTTP/1.1, unless the container supports only HTTP/2. Requests of HTTP/2 clients use
// HTTP/2 if the container supports it, otherwise HTTP/1.1. The zero value detects both
// protocols. All methods may be called from any goroutine. Times are on the clock of the
// event loops.
//
// A valid response over HTTP/1, or SETTINGS over HTTP/2, proves that the container
// supports the protocol. If the container closes a new connection without a byte, or sends
// nothing, the gate only guesses that it does not support the protocol. A guess never
// overrides a proof. It expires after guessTime, or later if several tests of HTTP/2 were
// inconclusive.
//
// After a guess has expired, a single request tests the protocol. The other requests
// continue to follow the guess. HTTP/1 is tested with a request that can be retried.
// HTTP/2 is tested with any request of an HTTP/2 client, because the gate does not send
// the request before it has received SETTINGS.
//
// A refused connection resets all detection, because the container may have been
// replaced.
type Choice struct {
	fixed Protocol

	http1, http2 atomic.Bool // the protocol is proven
	// Until the time in not1 or not2, the gate assumes that the container does not
	// support HTTP/1 or HTTP/2. The value 0 means that there is no such assumption.
	not1, not2 atomic.Int64
	misses     atomic.Int32 // number of consecutive inconclusive tests of HTTP/2
	emptyClose atomic.Bool  // an HTTP/1 connection was closed without a byte before HTTP/2 was proven
}

const (
	guessTime = int64(30 * time.Second)
	// maxMisses limits the time between two tests of HTTP/2. After one inconclusive test,
	// this time is guessTime. It doubles with each further inconclusive test. From the
	// sixth on, it stays at 16 minutes.
	maxMisses = 6
	// noMoreTests is the value of not1 or not2 if the container has proved that it does
	// not support the protocol.
	noMoreTests = math.MaxInt64
)

// Fix sets the protocol; Auto detects it. Call it before any other method.
func (c *Choice) Fix(p Protocol) { c.fixed = p }

// Detects reports whether the protocol is detected, and not fixed.
func (c *Choice) Detects() bool { return c.fixed == Auto }

// Known returns the protocol that requests of HTTP/2 clients can use without a test. It
// returns Auto if a test is needed.
func (c *Choice) Known() Protocol {
	switch {
	case c.fixed != Auto:
		return c.fixed
	case c.http2.Load():
		return H2C
	case c.not2.Load() != 0:
		return HTTP1
	}
	return Auto
}

// SpeaksHTTP1 records a valid response over HTTP/1.
func (c *Choice) SpeaksHTTP1() {
	if !c.http1.Load() {
		c.http1.Store(true)
		c.emptyClose.Store(false)
		c.not1.Store(0)
	}
}

// SpeaksHTTP2 records that the container has sent SETTINGS over HTTP/2. If it has also
// closed an HTTP/1 connection without a byte, it is assumed to support only HTTP/2.
func (c *Choice) SpeaksHTTP2(now int64) {
	c.http2.Store(true)
	c.not2.Store(0)
	c.misses.Store(0)
	if c.emptyClose.Swap(false) && !c.http1.Load() {
		c.not1.Store(now + guessTime)
	}
}

// NotHTTP2 records that the container has responded to the HTTP/2 preface in another
// protocol, or that ALPN has selected another protocol.
func (c *Choice) NotHTTP2() {
	c.http2.Store(false)
	c.emptyClose.Store(false)
	c.not1.Store(0)
	c.not2.Store(noMoreTests)
}

// MissedHTTP2 records that a new HTTP/2 connection was closed, or timed out,
// without a byte from the container.
func (c *Choice) MissedHTTP2(now int64) {
	if !c.http2.Load() {
		n := min(c.misses.Inc(), maxMisses)
		c.not2.Store(now + guessTime<<(n-1))
	}
}

// NotHTTP1 records that the container has responded to an HTTP/1 request with an
// HTTP/2 frame. It reports whether the request may be sent over HTTP/2.
func (c *Choice) NotHTTP1() bool {
	if c.fixed == Auto && !c.http1.Load() {
		c.not1.Store(noMoreTests)
	}
	return c.fixed == Auto
}

// MissedHTTP1 records that the container has closed a new HTTP/1 connection without a
// byte. It reports whether the container may support only HTTP/2.
func (c *Choice) MissedHTTP1(now int64) bool {
	if c.fixed != Auto || c.http1.Load() {
		return false
	}
	if c.http2.Load() {
		c.not1.Store(now + guessTime)
	} else {
		c.emptyClose.Store(true)
	}
	return true
}

// Reset restarts the detection of both protocols.
func (c *Choice) Reset() {
	c.http1.Store(false)
	c.http2.Store(false)
	c.emptyClose.Store(false)
	c.misses.Store(0)
	c.not1.Store(0)
	c.not2.Store(0)
}

// MaySpeakHTTP1 reports whether requests may use HTTP/1.1.
func (c *Choice) MaySpeakHTTP1() bool { return c.fixed != H2C && c.not1.Load() != noMoreTests }

// MaySpeakHTTP2 reports whether a connection over HTTP/2 may be opened.
func (c *Choice) MaySpeakHTTP2(now int64) bool {
	return c.fixed == H2C || c.fixed == Auto && (c.http2.Load() || now >= c.not2.Load())
}

// For returns the protocol for the first attempt of x. Any request of an HTTP/2 client
// may test HTTP/2, because the gate does not send the request before it has received
// SETTINGS. An upgrade of an HTTP/1 client ignores a guess that the container does not
// support HTTP/1, because many upgrades work only over HTTP/1.
func (c *Choice) For(x *exchange.Exchange, now int64) Protocol {
	switch {
	case c.fixed != Auto:
		return c.fixed
	case x.Protocol == "HTTP/2.0":
		if c.http2.Load() || tryProtocol(&c.not2, now) {
			return H2C
		}
		return HTTP1
	case c.http1.Load():
		return HTTP1
	}
	switch not1 := c.not1.Load(); {
	case not1 == 0, x.Upgrade && not1 != noMoreTests:
		return HTTP1
	case x.Repeatable() && tryProtocol(&c.not1, now):
		return HTTP1
	}
	return H2C
}

// tryProtocol reports whether a request may use a protocol. The parameter
// unsupportedUntil has the time until which the gate guesses that the container does not
// support the protocol; 0 = no guess. Without a guess, every request may use the
// protocol. After the guess has expired, the first request may use it as a test. This
// test extends the guess for the other requests by guessTime.
func tryProtocol(unsupportedUntil *atomic.Int64, now int64) bool {
	t := unsupportedUntil.Load()
	return t == 0 || now >= t && unsupportedUntil.CompareAndSwap(t, now+guessTime)
}
