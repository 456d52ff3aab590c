// Package loop runs network code on event loops, each with one epoll instance and one
// goroutine. A Routine is work in progress, such as a request; its Handle runs it in
// steps. All objects of a loop are used on the loop's goroutine only and need no locks.
// Only Wake and Post may be called from other goroutines.
//
// Sockets are registered once, edge-triggered, for all events. A Sock remembers that it
// is readable or writable until a system call returns EAGAIN. A connection that waits for
// its next request holds no buffer.
//
// A Layer, such as TLS, encodes and decodes the bytes between a Sock and its user.
// Readable and Writable then refer to decoded bytes. Bytes count as written when the
// kernel has accepted their encoded form. EOF is the end that the layer's protocol
// signals. Only the handshake, which blocks in crypto/tls, runs on another goroutine
// (Sock.StartHandshake).
//
// The loop blocks in Go's netpoller and not in a system call of its own, because the
// runtime's monitor wakes every 20 µs while a thread is in a system call. This is
// possible because an epoll instance is itself pollable.
package loop
