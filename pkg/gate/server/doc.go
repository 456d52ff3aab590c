// Package server serves clients on event loops, independently of the protocol: it
// accepts connections, passes each to a protocol, and shuts down.
//
// A Server has one Worker for each loop. HTTP/1 and HTTP/2 are both a Protocol,
// with a Part on each worker that holds their clients' connections and their
// connections to the container. A connection belongs to its worker for life. It
// goes to HTTP/1 first, which hands on what begins with the preface of HTTP/2;
// behind TLS, ALPN has chosen.
package server
