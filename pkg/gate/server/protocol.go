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

// Part is a protocol on one worker. Its methods are called on the worker's loop. NewPart
// calls Worker.AddIdleSource for the connections that may be closed to free descriptors.
type Part interface {
	// Adopt serves a client connection. The part owns the descriptor fd, which is
	// non-blocking and already charged to the gate's descriptor budget. layer is the TLS
	// layer of the connection; nil = plaintext. read has the bytes that have already been
	// read.
	Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte)
	// StopAccepting stops accepting requests and closes idle connections. silent reports
	// that some connections have not sent a byte; their first request may be in flight.
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
