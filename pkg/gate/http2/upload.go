package http2

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"go.uber.org/atomic"
)

// upload is a request's body on its way to the container. The transport that
// takes it closes it when it has had enough, or has failed; reopen makes it
// ready for another try.
type upload struct {
	stream  *stream
	src     io.Reader
	trailer http.Header  // of the request to the container
	taken   atomic.Int64 // bytes read from the client
	ended   atomic.Bool  // all of it has been read

	mu      sync.Mutex
	reading bool
	closed  bool
	cut     bool // nothing more comes from the client
}

var errUploadClosed = errors.New("reading the request's body: the container takes no more")

// Read takes what the client has sent.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return 0, errUploadClosed
	}
	u.reading = true
	u.mu.Unlock()

	n, err := u.src.Read(p)
	if n > 0 {
		u.taken.Add(int64(n))
		u.stream.moved()
	}
	if err == io.EOF {
		u.ended.Store(true)
		for name := range u.trailer {
			u.trailer[name] = u.stream.r.Trailer[name]
		}
	}

	u.mu.Lock()
	u.reading = false
	u.mu.Unlock()
	return n, err
}

// Close is the transport's: it takes no more, and a Read that waits for the
// client ends.
func (u *upload) Close() error {
	u.mu.Lock()
	u.closed = true
	reading := u.reading
	u.cut = u.cut || reading
	u.mu.Unlock()
	if reading {
		s := u.stream
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.over {
			s.stopReading()
		}
	}
	return nil
}

// reopen reports whether the body can be sent again from its beginning:
// nothing has been taken and nobody is taking.
func (u *upload) reopen() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reading || u.cut || u.taken.Load() > 0 {
		return false
	}
	u.closed = false
	return true
}
