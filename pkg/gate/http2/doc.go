// Package http2 implements HTTP/2 on event loops: the downstream side, one exchange for
// each stream of a client's connection, and the upstream side, for a user container that
// speaks HTTP/2.
//
// A connection is a struct and a descriptor. One read takes all frames that have arrived.
// Then each stream that received a frame runs a step, and one write carries the frames of
// all streams. A blocked stream holds its request head and the bytes that its peer has
// sent. It has no goroutine and no buffer for output.
//
// policy.go has all numeric limits of the package, and the decisions that depend on them.
package http2
