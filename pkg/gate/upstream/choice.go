package upstream

import (
	"fmt"

	"go.uber.org/atomic"
)

// Protocol is what the user container is spoken to in.
type Protocol uint32

// The protocols. Auto is found out.
const (
	Auto Protocol = iota
	HTTP1
	H2C
)

// String is the value of UPSTREAM_PROTOCOL that means p.
func (p Protocol) String() string {
	switch p {
	case HTTP1:
		return "http1"
	case H2C:
		return "h2c"
	}
	return "auto"
}

// ParseProtocol reads a value of UPSTREAM_PROTOCOL.
func ParseProtocol(s string) (Protocol, error) {
	for _, p := range [...]Protocol{Auto, HTTP1, H2C} {
		if s == p.String() {
			return p, nil
		}
	}
	return Auto, fmt.Errorf("protocol %q: want auto, h2c or http1", s)
}

// Choice is what is known of the protocol that the container speaks. Clients of
// HTTP/1 reach it over HTTP/1.1 unless it speaks HTTP/2 alone; clients of
// HTTP/2 reach it over HTTP/2 if it speaks that, else over HTTP/1.1. All
// methods may be called from any goroutine.
type Choice struct {
	fixed Protocol
	known atomic.Uint32
	only2 atomic.Bool // it does not answer over HTTP/1
}

// Fix sets the protocol once; Auto leaves it to be found out.
func (c *Choice) Fix(p Protocol) { c.fixed = p }

// Known is what the container is known to speak, or Auto.
func (c *Choice) Known() Protocol {
	if c.fixed != Auto {
		return c.fixed
	}
	return Protocol(c.known.Load())
}

// Learned notes what the container speaks.
func (c *Choice) Learned(p Protocol) {
	if p == HTTP1 {
		c.only2.Store(false)
	}
	c.known.Store(uint32(p))
}

// Refuted notes that the container has answered HTTP/1 with a frame of HTTP/2,
// which is all that it speaks.
func (c *Choice) Refuted() {
	if c.fixed == Auto {
		c.known.Store(uint32(Auto))
		c.only2.Store(true)
	}
}

// Suspect notes that the container has closed a connection over HTTP/1 without
// a word. It reports whether that means that it speaks HTTP/2 alone: one that
// is known to speak it may well behave so.
func (c *Choice) Suspect() bool {
	if c.fixed != Auto || c.Known() != H2C {
		return false
	}
	c.only2.Store(true)
	return true
}

// Forget makes the protocol be found out anew: the container may be another one
// after a restart.
func (c *Choice) Forget() {
	c.known.Store(uint32(Auto))
	c.only2.Store(false)
}

// MaySpeakHTTP1 reports that requests may go out over HTTP/1.1.
func (c *Choice) MaySpeakHTTP1() bool { return c.fixed != H2C && !c.only2.Load() }

// For is the protocol for a request of a client that speaks HTTP/2, or not. An
// unknown one is tried with HTTP/2, which costs no request if it is wrong.
func (c *Choice) For(http2 bool) Protocol {
	switch known := c.Known(); {
	case c.fixed != Auto:
		return c.fixed
	case known == HTTP1:
		return HTTP1
	case http2 || c.only2.Load():
		return H2C
	}
	return HTTP1
}
