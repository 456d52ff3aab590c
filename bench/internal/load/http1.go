package load

import (
	"errors"
	"fmt"
	"strings"
)

const host = "bench.example"

// http1 speaks HTTP/1.1 without pipelining. With Spec.NewConnections each connection
// carries one request.
type http1 struct {
	worker  *worker
	request []byte
}

func newHTTP1(w *worker) *http1 {
	method := "GET"
	if w.spec.Body > 0 {
		method = "POST"
	}
	lines := []string{method + " " + w.spec.Path + " HTTP/1.1", "Host: " + host}
	if w.spec.Field != "" {
		lines = append(lines, w.spec.Field)
	}
	if w.spec.Body > 0 {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", w.spec.Body))
	}
	if w.spec.NewConnections {
		lines = append(lines, "Connection: close")
	}
	return &http1{worker: w, request: []byte(strings.Join(lines, "\r\n") + "\r\n\r\n")}
}

func (h *http1) open(*conn) bool { return true }

func (h *http1) send(c *conn, due int64) {
	c.busy, c.due = true, due
	c.response = response{}
	if h.worker.spec.NewConnections && c.fd < 0 {
		if err := c.dial(); err != nil {
			h.worker.broken = err
			return
		}
	}
	c.out.Bytes = append(c.out.Bytes, h.request...)
	c.out.Fill = h.worker.spec.Body
}

var errUnasked = errors.New("bytes without a request")

func (h *http1) receive(c *conn, p []byte) (used int, err error) {
	if !c.busy {
		if h.worker.spec.NewConnections {
			return len(p), errUnasked
		}
		return 0, errUnasked
	}
	used, isComplete, err := c.response.feed(p, nil)
	if err != nil || !isComplete {
		return used, err
	}
	c.busy = false
	// A response is early if it is complete before the upload. The worker then closes the
	// connection instead of sending the rest of the upload.
	//
	// The connection cannot carry another request after an early response, or if
	// NewConnections is set. In these two cases it must not be released yet. The method
	// lost releases the connection when it is closed.
	early := c.out.Pending() && !c.response.close
	if c.response.close && !h.worker.spec.NewConnections {
		c.hangUp()
		c.out.Drop()
	}
	h.worker.finishRequest(c, c.due, outcome{status: c.response.status, keepBusy: h.worker.spec.NewConnections || early})
	switch {
	case h.worker.spec.NewConnections:
	case early:
		return used, errEarly
	case c.fd < 0:
		return used, c.dial()
	}
	return used, nil
}

var errEarly = errors.New("response before the end of the upload")

func (h *http1) lost(c *conn, cause error) (reconnect bool) {
	if !c.opened && !h.worker.spec.NewConnections {
		return false
	}
	if !c.busy {
		// No request is in progress, so the end of the connection is not a failure. If
		// NewConnections is set, or after an early response, the connection was not
		// released when the response ended. So release it now.
		if h.worker.spec.NewConnections || errors.Is(cause, errEarly) {
			h.worker.release(c)
		}
		return true
	}
	c.busy = false
	isComplete, failure := c.response.handleEOF()
	if !errors.Is(cause, errClosed) {
		isComplete, failure = false, cause
	}
	if isComplete {
		h.worker.finishRequest(c, c.due, outcome{status: c.response.status})
	} else {
		h.worker.finishRequest(c, c.due, outcome{failure: failure})
	}
	return true
}
