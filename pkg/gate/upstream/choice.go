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

// Choice detects the protocols that the container speaks. Requests of HTTP/1
// clients use HTTP/1.1 unless the container speaks only HTTP/2; requests of HTTP/2
// clients use HTTP/2 if the container speaks it, else HTTP/1.1. The zero value
// detects both. All methods may be called from any goroutine; instants are on the
// clock of the event loops.
//
// A protocol is detected by proof: a valid response over HTTP/1, SETTINGS over
// HTTP/2. A connection closed without a byte, or silence, is only a guess, because
// the container may have other reasons than its protocol. A guess never overrides a
// proof and expires after guessTime. One request then tests it: either one that can be
// retried, or one that waits until the protocol is proven. A refused connection resets
// all detection, because the container is restarting and may have been replaced.
type Choice struct {
	fixed Protocol

	http1, http2 atomic.Bool  // proven
	not1, not2   atomic.Int64 // instant until which the container is assumed not to speak the protocol; 0 = it may
	misses       atomic.Int32 // consecutive inconclusive tests of HTTP/2
	emptyClose   atomic.Bool  // an HTTP/1 connection was closed without a byte before HTTP/2 was proven
}

const (
	guessTime   = int64(30 * time.Second)
	maxMisses   = 6             // each of this many inconclusive tests doubles the time to the next one
	noMoreTests = math.MaxInt64 // proven not to speak the protocol; never expires
)

// Fix sets the protocol; Auto detects it. Call it before any other method.
func (c *Choice) Fix(p Protocol) { c.fixed = p }

// Detects reports that the protocol is not fixed.
func (c *Choice) Detects() bool { return c.fixed == Auto }

// Known returns the protocol that requests of HTTP/2 clients use without a test, or
// Auto if a test is needed.
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

// SpeaksHTTP2 records that the container has sent SETTINGS over HTTP/2. If it
// closed an HTTP/1 connection without a byte before, it may speak only HTTP/2.
func (c *Choice) SpeaksHTTP2(now int64) {
	c.http2.Store(true)
	c.not2.Store(0)
	c.misses.Store(0)
	if c.emptyClose.Swap(false) && !c.http1.Load() {
		c.not1.Store(now + guessTime)
	}
}

// NotHTTP2 records that the container has responded to the HTTP/2 preface in
// another protocol, or has chosen another one by ALPN.
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

// MissedHTTP1 records that the container has closed a new HTTP/1 connection without
// a byte. It reports whether the container may speak only HTTP/2.
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

// MaySpeakHTTP1 reports that requests may use HTTP/1.1.
func (c *Choice) MaySpeakHTTP1() bool { return c.fixed != H2C && c.not1.Load() != noMoreTests }

// MaySpeakHTTP2 reports that a connection over HTTP/2 may be opened.
func (c *Choice) MaySpeakHTTP2(now int64) bool {
	return c.fixed == H2C || c.fixed == Auto && (c.http2.Load() || now >= c.not2.Load())
}

// For returns the protocol for the first attempt of x. Testing HTTP/2 is safe for
// any request, because x waits for SETTINGS. Upgrades ignore a guess against
// HTTP/1, because many of them work only there.
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

// tryProtocol reports whether the caller may use the protocol: there is no guess
// against it, or the guess has expired and the caller is the first to test it. Other
// callers keep following the guess until the test has a result.
func tryProtocol(until *atomic.Int64, now int64) bool {
	t := until.Load()
	return t == 0 || now >= t && until.CompareAndSwap(t, now+guessTime)
}
