//go:build race

package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// BodyChecked reports whether BodyCheck is active.
const BodyChecked = true

// BodyCheck compares the body of an outgoing message with its head, which it parses
// independently, and panics if they differ. The zero value checks nothing. It is empty in
// builds without the race detector.
type BodyCheck struct {
	announced int64 // announced length of the body; -1 = unknown
	sent      int64
	active    bool
}

// Begin parses the head of an HTTP/1 message. bodiless means that the message has no body
// regardless of the head, as in a response to HEAD.
func (c *BodyCheck) Begin(head []byte, chunked, bodiless bool) {
	lines := strings.Split(string(head), "\r\n")
	var lengths, codings []string
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.ToLower(name) {
		case "content-length":
			lengths = append(lengths, value)
		case "transfer-encoding":
			codings = append(codings, value)
		}
	}
	if len(lengths)+len(codings) > 1 || len(codings) == 1 && codings[0] != "chunked" || (len(codings) == 1) != chunked {
		panic(fmt.Sprintf("BUG: lengths %q and codings %q before a body (chunked: %v)", lengths, codings, chunked))
	}
	*c = BodyCheck{active: true, announced: -1}
	switch response := strings.HasPrefix(lines[0], "HTTP/"); {
	case bodiless, !response && len(lengths)+len(codings) == 0:
		c.announced = 0
	case len(lengths) == 1:
		c.announce(lengths[0])
	}
}

// BeginHTTP2 is like Begin, for a head over HTTP/2. The function write encodes this head.
// The parameter end is true if the head has END_STREAM.
func (c *BodyCheck) BeginHTTP2(write func(dst []byte, e *h2.Encoder) []byte, bodiless, end bool) {
	d := h2.Decoder{MaxList: 4 << 20} // larger than any head the gate sends
	var h h2.Head
	if err := d.Decode(write(nil, new(h2.Encoder)), &h); err != nil {
		panic(fmt.Sprintf("BUG: a head that cannot be decoded: %v", err))
	}
	*c = BodyCheck{active: true, announced: -1}
	tunnel := false
	for i := range h.Fields {
		f := &h.Fields[i]
		name, value := string(h.NameOf(f)), string(h.ValueOf(f))
		switch {
		case name == ":protocol":
			tunnel = true
		case name == "transfer-encoding", tunnel && (name == "content-length" || name == "expect"), name == "content-length" && c.announced >= 0:
			panic(fmt.Sprintf("BUG: %s: %s in a head (extended CONNECT: %v)", name, value, tunnel))
		case name == "content-length":
			c.announce(value)
		}
	}
	if bodiless {
		c.announced = 0
	}
	c.active = !tunnel
	if end {
		c.End()
	}
}

func (c *BodyCheck) announce(value string) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		panic("BUG: Content-Length: " + value)
	}
	c.announced = n
}

// Sent counts n bytes of content.
func (c *BodyCheck) Sent(n int) {
	if c.sent += int64(n); c.active && c.announced >= 0 && c.sent > c.announced {
		panic(fmt.Sprintf("BUG: %d bytes of content, and the head announced %d", c.sent, c.announced))
	}
}

// End ends the check. It panics if an active check has counted fewer bytes of content
// than announced.
func (c *BodyCheck) End() {
	if c.active && c.announced >= 0 && c.sent != c.announced {
		panic(fmt.Sprintf("BUG: the content ends after %d bytes, and the head announced %d", c.sent, c.announced))
	}
	c.active = false
}

// Stop ends the check.
func (c *BodyCheck) Stop() { c.active = false }
