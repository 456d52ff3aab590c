// Package lines writes log lines without ever blocking on the program that reads them.
//
// Lines wait in a bounded queue. A goroutine renders and writes them, a burst in one
// write, and sleeps without a timer while there is nothing to write. If the reader is
// slow, has disconnected or hangs, lines are dropped and counted; neither queueing a
// line nor closing blocks, except that Close waits as long as its caller allows.
//
// When a reader of stdout or stderr exits, SIGPIPE ends a Go program unless it ignores
// that signal.
package lines
