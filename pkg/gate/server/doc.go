// Package server accepts client connections on event loops, passes them to the
// protocols, and shuts down.
//
// A Server has a Worker for each loop. The packages http1 and http2 implement Protocol.
// An Engine is the part of a protocol on one worker. It owns the client and upstream
// connections of that worker. (The engine of the setting ENGINE_METRICS is a model server
// and has nothing to do with it.) On a plaintext port, a connection starts as HTTP/1 and
// switches to HTTP/2 if it begins with the HTTP/2 preface. On a TLS port, ALPN selects
// the protocol.
package server
