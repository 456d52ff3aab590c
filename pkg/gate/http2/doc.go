// Package http2 implements HTTP/2 on event loops: the downstream side, one exchange for
// each stream of a client's connection, and the upstream side, for a user container that
// speaks HTTP/2.
//
// A connection is a struct and a descriptor. One read takes all frames that have
// arrived, the streams that they concern take a step, and one write carries the frames
// of all streams. A blocked stream holds its request head and the bytes that its peer
// has sent, but no goroutine and no buffer of its own.
//
// policy.go has all numbers of the package and the decisions made from them.
package http2
