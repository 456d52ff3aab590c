package server

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Protocol implements an HTTP version for clients and for the container.
type Protocol interface {
	// NewEngine returns a new engine of the protocol for w.
	NewEngine(w *Worker) Engine
	// NumClosing returns the number of connections for which a shutdown waits after the
	// last request has ended, so that clients can read their responses and close the
	// connections. It counts the connections of all workers.
	NumClosing() int
}

// Engine is a protocol on one worker. Its methods are called on the worker's loop.
// NewEngine calls Worker.AddIdleSource for the connections that may be closed to free
// descriptors.
type Engine interface {
	// Adopt serves a client connection. The engine owns the descriptor fd, which is
	// non-blocking and already charged to the gate's descriptor budget. The parameter
	// layer is the TLS layer of the connection; nil = plaintext. The parameter read has
	// the bytes that have already been read from the connection.
	Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte)
	// StopAccepting stops accepting requests and closes idle connections. The result
	// silent is true if the client of some connection has not sent a byte. Such
	// connections stay open, because their first request may be in flight.
	StopAccepting() (silent bool)
	// Clients returns the number of client connections.
	Clients() int
	// Connector returns the object that provides connections to the container for the
	// exchanges of this worker.
	Connector() exchange.Connector
	// IdleUpstreams returns the number of idle connections to the container.
	IdleUpstreams() int
	// CloseIdleUpstreams closes the idle connections to the container.
	CloseIdleUpstreams()
}
