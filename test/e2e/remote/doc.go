// Package remote lets a test control the sockets of another process. The process that
// stands in for a user container runs a [Server]; the test uses a [Client]. The server
// accepts, reads, writes, resets and closes TCP connections only on command, and
// records received bytes and when connections ended. The only part of HTTP that it
// knows is the end of a head, for RespondAll.
//
// Calls use net/rpc over a Unix socket. Times are wall-clock nanoseconds; both
// processes run on the same machine.
package remote
