package server

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Protocol is what clients and the container are spoken to in.
type Protocol interface {
	// NewPart makes the part of the protocol that belongs to w.
	NewPart(w *Worker) Part
	// Unfinished counts the connections, of all workers, that a shutdown waits
	// for after the last request, since their clients close them.
	Unfinished() int
}

// Part is a protocol on one worker. Its methods are called on the worker's loop.
// On tells the worker by Reclaims which connections may be closed.
type Part interface {
	// Adopt serves a client's connection: fd is non-blocking, holds a descriptor
	// of the gate's budget, and belongs to the part from then on. layer, nil for
	// none, lies between its bytes and the protocol; read has been read from it
	// by another protocol.
	Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte)
	// StopAccepting takes no further requests and closes what is idle. It reports
	// whether there are connections on which nothing has come yet: the first
	// request may be on its way.
	StopAccepting() (silent bool)
	// Connector finds connections to the container.
	Connector() exchange.Connector
	// IdleUpstreams counts the connections to the container that carry nothing.
	IdleUpstreams() int
}
