package wire

import "net/netip"

// Requester has a request: a side towards a client. The address is that of the
// client.
type Requester interface {
	Request() (*Request, netip.Addr)
}

// Responder has the head of an answer: a side towards the container.
type Responder interface{ Response() *Response }
