// Package hostile holds a corpus of malformed and ambiguous HTTP/1 messages, and judges
// that check the bytes on both sides of a gate.
//
// The corpus is in testdata/requests and testdata/responses; testdata/README.md describes
// its syntax. Each case runs over raw loopback sockets against the real queue binary,
// in front of a container that records every received byte. Two parsers then parse both
// sides: a strict one of this package, which shares no code with the gate, and
// net/http. A case fails if they frame the bytes differently, if a response reaches the
// wrong request, if bytes of a rejected message reach the container, if a valid message
// is rejected or changed, if anything hangs for longer than a minute, or if the gate
// does not respond to the next request.
//
// The suite is configured by these variables:
//
//	QUEUEGATE_RACE=1                    build the gate with the race detector
//	QUEUEGATE_HOSTILE_CASE=text         run only the cases whose name contains text
//	QUEUEGATE_HOSTILE_TARGET=host:port  judge a proxy that already runs, without variants, and
//	QUEUEGATE_HOSTILE_CONTAINER_PORT=n  listen as its container on this port
package hostile
