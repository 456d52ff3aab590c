// Package http1 is the HTTP/1.0 and 1.1 engine: it reads requests from
// clients, asks the gate whether they may run, relays them to the user
// container and the answers back.
//
// One coroutine on an event loop does all the work of a connection's current
// request. Heads are read once, strictly (RFC 9112), and go on as they came:
// order, case, repetitions and odd bytes of the target included. Framing is
// decided once and written anew; what two parsers could read differently is
// refused. Bodies stream in both directions at once through buffers of a
// fixed size.
package http1
