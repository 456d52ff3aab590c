// Package lines writes log lines without ever blocking on the program that reads them.
//
// Lines wait in a bounded queue. One goroutine renders and writes them. It writes a
// burst of lines at once, and needs no timer while the queue is empty. If the reader is
// slow, has disconnected or hangs, lines are dropped and counted.
//
// Put never blocks. Flush and Close wait until the queued lines have been written. They
// give up if their context ends, or if one write takes longer than a second. Sync waits
// for at most 250 ms.
//
// A program that writes to stdout or stderr must ignore SIGPIPE, or it ends when the
// reader exits.
package lines
