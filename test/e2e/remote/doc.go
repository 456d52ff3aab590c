// Package remote lets a test drive the sockets of another process as if they
// were its own. The process that stands in for a user container runs a
// [Server]; the test holds a [Client]. The server opens, reads, writes, resets
// and closes TCP connections only on command, records what arrives, and
// stamps when a connection ended. It knows nothing of HTTP but, on request,
// where a head ends.
//
// Calls travel by net/rpc over a Unix socket. Times are wall-clock nanoseconds
// of the one machine that both processes share.
package remote
