package embed

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// writer is the ResponseWriter that next gets: with what HTTP/1 can do, or
// with what later versions can, so that a type assertion tells the truth.
func (x *call) writer() http.ResponseWriter {
	if x.r.ProtoMajor == 1 {
		return http1Writer{x}
	}
	if _, ok := x.w.(http.Pusher); ok {
		return pushWriter{x}
	}
	return x
}

// http1Writer can hand its connection over.
type http1Writer struct{ *call }

// Hijack is http.Hijacker. The slot is held until the connection is closed.
func (w http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := http.NewResponseController(w.w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	x := w.call
	x.hijacked = true
	x.exchange.Switch()
	x.gate.notifyDrain()
	if x.status == 0 {
		x.status = http.StatusSwitchingProtocols
	}
	return &tunnel{Conn: c, exchange: x}, buffered, nil
}

// pushWriter can push (RFC 9113 section 8.4).
type pushWriter struct{ *call }

// Push is http.Pusher.
func (w pushWriter) Push(target string, opts *http.PushOptions) error {
	return w.w.(http.Pusher).Push(target, opts)
}

// Unwrap is for http.ResponseController.
func (x *call) Unwrap() http.ResponseWriter { return x.w }

// Header is http.ResponseWriter.
func (x *call) Header() http.Header {
	x.headerUsed = true
	return x.w.Header()
}

// WriteHeader is http.ResponseWriter.
func (x *call) WriteHeader(status int) {
	if x.hijacked || x.wrote {
		x.w.WriteHeader(status) // net/http says in its log what is wrong
		return
	}
	x.clean()
	if status >= 200 {
		x.gate.announceClose(x.w)
	}
	x.w.WriteHeader(status)
	if status >= 200 || status == http.StatusSwitchingProtocols {
		x.wrote, x.status = true, status
	}
}

// start is what happens to an implicit head before net/http writes it.
func (x *call) start() {
	if x.wrote || x.hijacked {
		return
	}
	x.clean()
	x.gate.announceClose(x.w)
	x.wrote, x.status = true, http.StatusOK
}

// finish prepares what net/http writes after next has returned: the head of an
// answer without a body, or trailers.
func (x *call) finish() {
	if x.wrote {
		x.clean()
		return
	}
	x.start()
}

// clean removes what next may have set in the gate's name. A header that next
// has not asked for is left alone: net/http copies those that were asked for.
func (x *call) clean() {
	if x.headerUsed {
		dropGateFields(x.w.Header())
	}
}

// Write is http.ResponseWriter.
func (x *call) Write(p []byte) (int, error) {
	x.start()
	n, err := x.w.Write(p)
	x.written += int64(n)
	return n, err
}

// WriteString is io.StringWriter.
func (x *call) WriteString(s string) (int, error) {
	x.start()
	n, err := io.WriteString(x.w, s)
	x.written += int64(n)
	return n, err
}

// ReadFrom is io.ReaderFrom: a file goes through the kernel where net/http
// does that.
func (x *call) ReadFrom(src io.Reader) (n int64, err error) {
	x.start()
	if to, ok := x.w.(io.ReaderFrom); ok {
		n, err = to.ReadFrom(src)
	} else {
		n, err = io.Copy(struct{ io.Writer }{x.w}, src)
	}
	x.written += n
	return n, err
}

// Flush is http.Flusher.
func (x *call) Flush() { _ = x.FlushError() }

// FlushError is what http.ResponseController asks for.
func (x *call) FlushError() error {
	wrote := x.wrote
	x.start()
	err := http.NewResponseController(x.w).Flush()
	if !wrote && errors.Is(err, errors.ErrUnsupported) {
		x.wrote, x.status = false, 0 // nothing has gone out
	}
	return err
}
