package embed

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// writer returns the ResponseWriter for next, with the optional interfaces that its
// HTTP version supports.
func (x *call) writer() http.ResponseWriter {
	if x.r.ProtoMajor == 1 {
		return http1Writer{x}
	}
	if _, ok := x.w.(http.Pusher); ok {
		return pushWriter{x}
	}
	return x
}

// http1Writer adds Hijack.
type http1Writer struct{ *call }

// Hijack implements http.Hijacker. The slot is held until the connection is closed.
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

// pushWriter adds server push (RFC 9113 section 8.4).
type pushWriter struct{ *call }

// Push implements http.Pusher.
func (w pushWriter) Push(target string, opts *http.PushOptions) error {
	return w.w.(http.Pusher).Push(target, opts)
}

// Unwrap supports http.ResponseController.
func (x *call) Unwrap() http.ResponseWriter { return x.w }

// Header implements http.ResponseWriter.
func (x *call) Header() http.Header {
	x.headerUsed = true
	return x.w.Header()
}

// WriteHeader implements http.ResponseWriter.
func (x *call) WriteHeader(status int) {
	if x.hijacked || x.wrote {
		x.w.WriteHeader(status) // net/http logs the problem
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

// start prepares an implicit head before net/http writes it.
func (x *call) start() {
	if x.wrote || x.hijacked {
		return
	}
	x.clean()
	x.gate.announceClose(x.w)
	x.wrote, x.status = true, http.StatusOK
}

// finish prepares what net/http writes after next has returned: the head of a response
// without a body, or trailers.
func (x *call) finish() {
	if x.wrote {
		x.clean()
		return
	}
	x.start()
}

// clean removes the gate's fields that next may have set. A header that next has not
// requested is unchanged.
func (x *call) clean() {
	if x.headerUsed {
		dropGateFields(x.w.Header())
	}
}

// Write implements http.ResponseWriter.
func (x *call) Write(p []byte) (int, error) {
	x.start()
	n, err := x.w.Write(p)
	x.written += int64(n)
	return n, err
}

// WriteString implements io.StringWriter.
func (x *call) WriteString(s string) (int, error) {
	x.start()
	n, err := io.WriteString(x.w, s)
	x.written += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that net/http can use sendfile.
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

// Flush implements http.Flusher.
func (x *call) Flush() { _ = x.FlushError() }

// FlushError supports http.ResponseController.
func (x *call) FlushError() error {
	wrote := x.wrote
	x.start()
	err := http.NewResponseController(x.w).Flush()
	if !wrote && errors.Is(err, errors.ErrUnsupported) {
		x.wrote, x.status = false, 0 // nothing has been sent
	}
	return err
}
