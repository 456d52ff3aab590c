package server

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Protocol is an HTTP version for both sides.
type Protocol interface {
	// NewPart returns the part of the protocol that belongs to w.
	NewPart(w *Worker) Part
	// Unfinished counts the connections of all workers that a shutdown waits for after
	// the last request, because their clients should close them.
	Unfinished() int
}

// Part is a protocol on one worker. Its methods are called on the worker's loop.
// NewPart registers connections that may be closed with Worker.AddIdleSource.
type Part interface {
	// Adopt serves a client connection. fd is non-blocking and has a descriptor of the
	// gate's budget; the part then owns both. layer is the connection's layer, nil for
	// none. read contains bytes that another protocol has read from the connection.
	Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte)
	// StopAccepting accepts no further requests and closes idle connections. It reports
	// whether there are connections without a byte so far, whose first request may be
	// under way.
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
