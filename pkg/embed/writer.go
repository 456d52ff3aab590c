package embed

import (
	"errors"
	"io"
	"net/http"
)

// Header implements http.ResponseWriter.
func (x *call) Header() http.Header {
	x.headerUsed = true
	return x.w.Header()
}

// WriteHeader implements http.ResponseWriter.
func (x *call) WriteHeader(status int) {
	if x.hijacked || x.wrote {
		x.w.WriteHeader(status) // net/http only logs the problem
		return
	}
	x.clean()
	if status >= 200 {
		announceClose(x.gate, x.w)
		x.responding()
	}
	x.w.WriteHeader(status)
	if status >= 200 || status == http.StatusSwitchingProtocols {
		x.wrote, x.status = true, status
	}
}

// start prepares the implicit head with status 200.
func (x *call) start() {
	if x.wrote || x.hijacked {
		return
	}
	x.clean()
	announceClose(x.gate, x.w)
	x.responding()
	x.wrote, x.status = true, http.StatusOK
}

// finish prepares the end of the response after the handler has returned. If the handler
// has written a head, net/http now writes the trailers, so finish removes K-Gate-* from
// them. Otherwise net/http now writes a head with status 200.
func (x *call) finish() {
	if x.wrote {
		x.clean()
		return
	}
	x.start()
}

// clean removes K-Gate-* from the response header. The handler may have set these fields,
// but only the gate may send them.
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

// FlushError supports http.ResponseController.
func (x *call) FlushError() error {
	wrote := x.wrote
	x.start()
	err := http.NewResponseController(x.w).Flush()
	if !wrote && errors.Is(err, errors.ErrUnsupported) {
		x.wrote, x.status = false, 0 // Flush failed, so nothing has been sent
	}
	return err
}
