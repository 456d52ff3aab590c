// Package http1 is HTTP/1.0 and 1.1 on event loops: the sides of a
// gate.Exchange towards clients and towards the user container.
//
// A session does all the work of a connection's current request, in steps on
// its event loop; none of them blocks. Heads are read once, strictly (RFC
// 9112), and go on as they came: order, case, repetitions and odd bytes of the target included. Framing is
// decided once and written anew; what two parsers could read differently is
// refused. Bodies stream in both directions at once through buffers of a
// fixed size.
package http1
