package server

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Protocol implements an HTTP version for clients and for the container.
type Protocol interface {
	// NewPart returns the part of the protocol that belongs to w.
	NewPart(w *Worker) Part
	// Unfinished returns the number of connections, on all workers, that a shutdown waits
	// for after the last request, because their clients should close them.
	Unfinished() int
}

// Part is a protocol on one worker. Its methods are called on the worker's loop. When
// NewPart creates it, it calls Worker.AddIdleSource for the connections that may be
// closed to free descriptors.
type Part interface {
	// Adopt serves a client connection. fd is non-blocking and counts in the gate's
	// descriptor budget; the part then owns the descriptor and its place in the budget.
	// layer is the connection's layer; nil = none. read has the bytes that another
	// protocol has read from the connection.
	Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte)
	// StopAccepting stops accepting requests and closes idle connections. silent reports
	// that there are connections that have not sent a byte. Their first request may
	// already be on its way.
	StopAccepting() (silent bool)
	// Clients returns the number of client connections.
	Clients() int
	// Connector returns the connector to the container.
	Connector() exchange.Connector
	// IdleUpstreams returns the number of idle connections to the container.
	IdleUpstreams() int
	// CloseIdleUpstreams closes the idle connections to the container.
	CloseIdleUpstreams()
}
