// Package loop runs network code on event loops: one epoll instance and one
// goroutine per loop. What is under way is a Routine, which its Handle runs in
// steps, or a Task: a coroutine, for what cannot be written in steps (TLS
// handshakes).
//
// The code of a Task reads from top to bottom and blocks in one place
// only, Task.Wait, which gives the thread back to the loop until one of its
// sockets has news, Wake is called, or its deadline passes. Everything
// that belongs to one loop runs on that loop's goroutine alone, so it needs no
// locks; only Wake and Post may be called from elsewhere.
//
// Sockets are registered edge-triggered once, for all events. A Sock
// remembers what is possible (read, write) until a call says EAGAIN, so an
// exchange costs no read that finds nothing. A connection that waits for its
// next request holds neither coroutine nor buffer.
//
// A Layer, for TLS, may lie between a Sock and its user. The user does not
// notice: Readable and Writable are true of decoded bytes, a write counts when
// the kernel has what it became, and the layer's own end is the end. A socket
// without one pays a branch for it.
//
// The loop blocks through Go's own netpoller (an epoll instance is itself
// pollable), not in a system call of its own: a thread that sits in a system
// call keeps the runtime's monitor awake at 20 µs intervals.
package loop
