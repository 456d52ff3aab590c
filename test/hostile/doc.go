// Package hostile has a corpus of malformed and ambiguous HTTP/1 messages, and judges
// that check the bytes on both sides of a gate.
//
// The corpus is in testdata, with its syntax in testdata/README.md. Each case runs over
// raw loopback sockets against the real queue binary, in front of a container that
// records all bytes. Two parsers then parse both sides: a strict one, which shares no
// code with the gate, and net/http. These are faults: the parsers frame the bytes
// differently, a response reaches the wrong request, bytes of a rejected message reach
// the container, a valid message is rejected or changed, something hangs for longer than
// a minute, or the gate does not respond to the next request.
//
// Variables:
//
//	QUEUEGATE_RACE=1                    build the gate with the race detector
//	QUEUEGATE_HOSTILE_CASE=text         run only the cases with text in their name
//	QUEUEGATE_HOSTILE_TARGET=host:port  judge a running proxy, without variants, and
//	QUEUEGATE_HOSTILE_CONTAINER_PORT=n  listen as its container on this port
package hostile
