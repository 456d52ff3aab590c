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
// kernel has accepted their encoded form. Read returns io.EOF only if the protocol of the
// layer has signalled the end of data, such as TLS with a close_notify. Only the
// handshake, which blocks in crypto/tls, runs on another goroutine (Sock.StartHandshake).
//
// An idle loop waits in Go's netpoller and does not call epoll_wait. While a thread is in
// a blocking system call, the monitor of the Go runtime would wake every 20 µs. The
// netpoller can wait for the events of a loop, because it can watch the loop's epoll
// instance like any other descriptor.
package loop
