// Package loop runs network code on event loops: one epoll instance and one
// goroutine per loop. What is under way is a Routine, which its Handle runs in
// steps. Everything that belongs to one loop runs on that loop's goroutine
// alone, so it needs no locks; only Wake and Post may be called from elsewhere.
//
// Sockets are registered edge-triggered once, for all events. A Sock
// remembers what is possible (read, write) until a call says EAGAIN, so an
// exchange costs no read that finds nothing. A connection that waits for its
// next request holds no buffer.
//
// A Layer, for TLS, may lie between a Sock and its user. The user does not
// notice: Readable and Writable are true of decoded bytes, a write counts when
// the kernel has what it became, and the layer's own end is the end. A socket
// without one pays a branch for it. The handshake alone, which crypto/tls
// offers as a call that blocks, runs on a goroutine (Sock.Shake).
//
// The loop blocks through Go's own netpoller (an epoll instance is itself
// pollable), not in a system call of its own: a thread that sits in a system
// call keeps the runtime's monitor awake at 20 µs intervals.
package loop
