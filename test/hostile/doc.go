// Package hostile tests a gate with a corpus of malformed and ambiguous HTTP/1 messages,
// and checks the bytes on both sides of the gate.
//
// The corpus is in testdata, and its syntax is in testdata/README.md. Each case runs over
// raw loopback sockets against the real queue binary, in front of a container that
// records all bytes. Two parsers then parse the bytes on both sides: a strict one, which
// shares no code with the gate, and net/http. These are faults: the parsers frame the
// bytes differently, a response reaches the wrong request, bytes of a rejected message
// reach the container, a valid message is rejected or changed, something hangs for longer
// than a minute, or the gate does not respond to the next request.
//
// Variables:
//
//	QUEUEGATE_RACE=1                    build the gate with the race detector
//	QUEUEGATE_HOSTILE_CASE=text         run only the cases with text in their name
//	QUEUEGATE_HOSTILE_TARGET=host:port  test the proxy that runs at this address,
//	                                    without the variants of the cases
//	QUEUEGATE_HOSTILE_CONTAINER_PORT=n  port on which the tests' container listens
//	                                    for that proxy
package hostile
