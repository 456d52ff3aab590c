// Package lines writes the lines of a log so that nothing waits for the program
// that reads them.
//
// Lines wait in a queue of bounded size; a goroutine renders and writes them,
// a burst with one write, and sleeps without a timer while there is nothing to
// write. A reader that is slow, has gone or hangs costs lines, which are
// counted, never time: neither where a line is queued nor at the end, which
// waits for it as long as its caller says.
//
// A reader of stdout or stderr that goes away ends a Go program by SIGPIPE,
// unless the program ignores that signal.
package lines
