// Package http2 implements HTTP/2 on event loops: the downstream side, one exchange for
// each stream of a client's connection, and the upstream side, for a user container that
// speaks HTTP/2.
//
// An iteration of the loop reads frames, runs a step of each stream that received a frame,
// and writes the output of all streams of a connection with one write. A blocked stream
// holds its request head and the bytes that its peer has sent. It has no goroutine and no
// output buffer.
//
// policy.go has all numeric limits of the package, and the decisions that depend on them.
package http2
