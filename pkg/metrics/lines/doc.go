// Package lines writes log lines without ever blocking on the program that reads them.
//
// Lines wait in a bounded queue. One goroutine renders and writes them. It writes a
// burst of lines at once, and sleeps without a timer while there is nothing to write.
// If the reader is slow, has disconnected or hangs, lines are dropped and counted.
// Putting a line never blocks. Flush and Close wait as long as their caller
// allows, Sync for at most 250 ms.
//
// If a program writes to stdout or stderr and the reader exits, SIGPIPE ends the
// program, unless it ignores that signal.
package lines
