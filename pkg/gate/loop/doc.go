// Package loop runs network code on event loops, each with one epoll instance and one
// goroutine. A Routine is work in progress, such as a request; its Handle runs it in
// steps. All objects of a loop are used on the loop's goroutine only and need no locks;
// only Wake and Post may be called from other goroutines.
//
// Sockets are registered once, edge-triggered, for all events. A Sock remembers that it
// is readable or writable until a system call returns EAGAIN. So no exchange makes a read
// call that finds nothing. A connection that waits for its next request holds no buffer.
//
// A Layer, such as TLS, may lie between a Sock and its user. It is transparent: Readable
// and Writable refer to decoded bytes. Bytes count as written when the kernel has
// accepted their encoded form. EOF means the end that the layer's protocol signals. A
// socket without a layer pays one branch. Only the handshake, which is a blocking call in
// crypto/tls, runs on another goroutine (Sock.StartHandshake).
//
// The loop blocks in Go's netpoller, because an epoll instance is itself pollable. It
// does not block in a system call of its own: while a thread is in a system call, the
// runtime's monitor wakes every 20 µs.
package loop
