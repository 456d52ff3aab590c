package gate

import (
	"strconv"
)

// Reply is an answer that the gate makes itself.
type Reply struct {
	Outcome Outcome
	Status  int
	Body    string
	Plain   bool   // a plain error: nosniff, and the body ends in a newline
	Retry   int    // Retry-After, in seconds; 0 = none
	Reason  string // K-Readiness-Reason; empty = none
	Hash    []byte // K-Network-Hash; nil = none
}

// ReplyTo is the reply that an outcome means.
func ReplyTo(o Outcome) Reply {
	m := o.Meaning()
	r := Reply{Outcome: o, Status: m.Status, Body: m.Body, Plain: m.Plain}
	if m.Retry {
		r.Retry = 1
	}
	return r
}

// Fields yields the header fields of the reply, but for those that frame it
// and Date.
func (r *Reply) Fields(yield func(name, value string) bool) {
	ok := true
	say := func(name, value string) { ok = ok && yield(name, value) }
	if r.Body != "" {
		say("Content-Type", "text/plain; charset=utf-8")
	}
	if r.Plain {
		say("X-Content-Type-Options", "nosniff")
	}
	if r.Status == 405 {
		say("Allow", "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE")
	}
	if r.Retry > 0 {
		say("Retry-After", strconv.Itoa(r.Retry))
	}
	if r.Reason != "" {
		say("K-Readiness-Reason", r.Reason)
	}
	if r.Hash != nil {
		say("K-Network-Hash", string(r.Hash))
	}
	say("K-Gate-Outcome", r.Outcome.String())
	if status := r.Outcome.ProxyStatus(); status != "" {
		say("Proxy-Status", status)
	}
}

// Length is that of the body on the wire.
func (r *Reply) Length() int {
	if r.Plain {
		return len(r.Body) + 1
	}
	return len(r.Body)
}

// AppendBody appends the body as it goes on the wire.
func (r *Reply) AppendBody(dst []byte) []byte {
	dst = append(dst, r.Body...)
	if r.Plain {
		dst = append(dst, '\n')
	}
	return dst
}
