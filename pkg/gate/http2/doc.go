// Package http2 is the HTTP/2 engine: it serves connections that began with
// the preface of HTTP/2, or chose it in their TLS handshake, with the server
// of the standard library, and sends their requests on to the user container,
// over HTTP/2 without TLS if the container speaks it and over HTTP/1.1 if not.
//
// What a request is, whether it may run, how long, and how it ended is decided
// by package gate, as for HTTP/1. What the gate refuses or breaks reaches a
// gRPC client as a gRPC status in trailers, any other client as the answer of
// HTTP/1, or as a reset stream where an answer is under way.
package http2
