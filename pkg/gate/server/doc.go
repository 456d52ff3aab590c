// Package server accepts client connections on event loops, passes them to the
// protocols, and shuts down. It is independent of the protocol.
//
// A Server has a Worker for each loop. HTTP/1 and HTTP/2 each implement Protocol, with
// a Part on each worker that owns their client and upstream connections. A connection
// stays on its worker. On a plaintext port it starts as HTTP/1, which passes a
// connection that begins with the HTTP/2 preface on to HTTP/2; on a TLS port, ALPN
// selects the protocol.
package server
