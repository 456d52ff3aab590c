// Package http2 is HTTP/2 on event loops: the side of an exchange towards
// clients, one for each stream of their connections, and the side towards a
// user container that speaks it.
//
// A connection is a struct and a descriptor. One read takes all frames that
// have come, then the streams that they concern take a step, and one write
// carries what all of them have to say. A stream that waits holds its head and
// what the peer has sent ahead, no stack and no buffer.
package http2
