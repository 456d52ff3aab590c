// Package hostile holds a corpus of malformed and tricky HTTP/1 messages, and
// judges that look at the bytes on both sides of a gate.
//
// The corpus lies in testdata/requests and testdata/answers; docs of its
// syntax are in testdata/README.md. Each case runs over raw loopback sockets
// against the real queue binary, in front of a container that records every
// byte it gets. Two parsers then read both sides: a strict one of this package,
// which shares no code with the gate, and net/http. A case fails if they frame
// the bytes differently, if an answer reaches the wrong request, if bytes of a
// refused message reach the container, if a valid message is refused or
// changed, if anything hangs for more than 5 s, or if the gate does not answer
// the next request.
//
// The suite is configured by these variables:
//
//	QUEUEGATE_RACE=1                    build the gate with the race detector
//	QUEUEGATE_HOSTILE_CASE=text         run only the cases whose name contains text
//	QUEUEGATE_HOSTILE_TARGET=host:port  judge a proxy that already runs, without variants, and
//	QUEUEGATE_HOSTILE_CONTAINER_PORT=n  listen as its container on this port
package hostile
