package embed

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// closeNotifier is http.CloseNotifier. It is deprecated, but frameworks such as gin
// require it.
type closeNotifier interface{ CloseNotify() <-chan bool }

// features is a set of optional interfaces of a ResponseWriter. The handler's writer
// implements the same set as the writer that the gate has received. It must not implement
// more, because a handler that finds an interface expects its methods to work.
type features uint8

const (
	flushes features = 1 << iota
	hijacks
	notifies
	pushes
	readsFrom
)

// The features of the writers of net/http, for HTTP/1 and for HTTP/2.
const (
	http1Features = flushes | hijacks | notifies | readsFrom
	http2Features = flushes | notifies | pushes
)

func featuresOf(w http.ResponseWriter) (f features) {
	if _, ok := w.(http.Flusher); ok {
		f |= flushes
	}
	if _, ok := w.(http.Hijacker); ok {
		f |= hijacks
	}
	if _, ok := w.(closeNotifier); ok {
		f |= notifies
	}
	if _, ok := w.(http.Pusher); ok {
		f |= pushes
	}
	if _, ok := w.(io.ReaderFrom); ok {
		f |= readsFrom
	}
	return f
}

// writer returns the ResponseWriter for next. For the writers of net/http it does not
// allocate.
func (x *call) writer() http.ResponseWriter {
	switch f := featuresOf(x.w); f {
	case 0:
		return x
	case http1Features:
		return http1Writer{x}
	case http2Features:
		return http2Writer{x}
	default:
		return combine(x, f)
	}
}

// http1Writer has the features of net/http's writer for HTTP/1.
type http1Writer struct{ *call }

func (w http1Writer) Flush()                                       { flusher{w.call}.Flush() }
func (w http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) { return hijacker{w.call}.Hijack() }
func (w http1Writer) CloseNotify() <-chan bool                     { return notifier{w.call}.CloseNotify() }
func (w http1Writer) ReadFrom(src io.Reader) (int64, error)        { return readerFrom{w.call}.ReadFrom(src) }

// http2Writer has the features of net/http's writer for HTTP/2.
type http2Writer struct{ *call }

func (w http2Writer) Flush()                   { flusher{w.call}.Flush() }
func (w http2Writer) CloseNotify() <-chan bool { return notifier{w.call}.CloseNotify() }
func (w http2Writer) Push(target string, opts *http.PushOptions) error {
	return pusher{w.call}.Push(target, opts)
}

type flusher struct{ x *call }

// Flush implements http.Flusher.
func (f flusher) Flush() { _ = f.x.FlushError() }

type hijacker struct{ x *call }

// Hijack implements http.Hijacker. The slot is held until the connection is closed.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	x := h.x
	c, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	x.hijacked = true
	x.exchange.Switch()
	x.gate.NotifyDrain()
	if x.status == 0 {
		x.status = http.StatusSwitchingProtocols
	}
	return &tunnel{Conn: c, exchange: x}, buffered, nil
}

type notifier struct{ x *call }

// CloseNotify implements http.CloseNotifier.
func (n notifier) CloseNotify() <-chan bool { return n.x.w.(closeNotifier).CloseNotify() }

type pusher struct{ x *call }

// Push implements http.Pusher (RFC 9113 section 8.4).
func (p pusher) Push(target string, opts *http.PushOptions) error {
	return p.x.w.(http.Pusher).Push(target, opts)
}

type readerFrom struct{ x *call }

// ReadFrom implements io.ReaderFrom, so that net/http can use sendfile.
func (r readerFrom) ReadFrom(src io.Reader) (int64, error) {
	r.x.start()
	n, err := r.x.w.(io.ReaderFrom).ReadFrom(src)
	r.x.written += n
	return n, err
}

// Unwrap supports http.ResponseController. It returns the writer that the gate has
// received. If that writer wraps an http.Hijacker, Unwrap adds a Hijack method that holds
// the slot until the connection is closed. Otherwise http.ResponseController would call
// the Hijack method of the wrapped writer, which does not hold the slot.
func (x *call) Unwrap() http.ResponseWriter {
	for w := x.w; ; {
		if _, ok := w.(http.Hijacker); ok && w != x.w {
			return hijackable{x.w, hijacker{x}}
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return x.w
		}
		w = inner.Unwrap()
	}
}

// hijackable adds Hijack to a writer.
type hijackable struct {
	http.ResponseWriter
	hijacker
}

// Unwrap supports http.ResponseController.
func (h hijackable) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// combine returns a writer for x with exactly the features f.
func combine(x *call, f features) http.ResponseWriter {
	switch f {
	case flushes:
		return struct {
			*call
			flusher
		}{x, flusher{x}}
	case hijacks:
		return struct {
			*call
			hijacker
		}{x, hijacker{x}}
	case flushes | hijacks:
		return struct {
			*call
			flusher
			hijacker
		}{x, flusher{x}, hijacker{x}}
	case notifies:
		return struct {
			*call
			notifier
		}{x, notifier{x}}
	case flushes | notifies:
		return struct {
			*call
			flusher
			notifier
		}{x, flusher{x}, notifier{x}}
	case hijacks | notifies:
		return struct {
			*call
			hijacker
			notifier
		}{x, hijacker{x}, notifier{x}}
	case flushes | hijacks | notifies:
		return struct {
			*call
			flusher
			hijacker
			notifier
		}{x, flusher{x}, hijacker{x}, notifier{x}}
	case pushes:
		return struct {
			*call
			pusher
		}{x, pusher{x}}
	case flushes | pushes:
		return struct {
			*call
			flusher
			pusher
		}{x, flusher{x}, pusher{x}}
	case hijacks | pushes:
		return struct {
			*call
			hijacker
			pusher
		}{x, hijacker{x}, pusher{x}}
	case flushes | hijacks | pushes:
		return struct {
			*call
			flusher
			hijacker
			pusher
		}{x, flusher{x}, hijacker{x}, pusher{x}}
	case notifies | pushes:
		return struct {
			*call
			notifier
			pusher
		}{x, notifier{x}, pusher{x}}
	case hijacks | notifies | pushes:
		return struct {
			*call
			hijacker
			notifier
			pusher
		}{x, hijacker{x}, notifier{x}, pusher{x}}
	case flushes | hijacks | notifies | pushes:
		return struct {
			*call
			flusher
			hijacker
			notifier
			pusher
		}{x, flusher{x}, hijacker{x}, notifier{x}, pusher{x}}
	case readsFrom:
		return struct {
			*call
			readerFrom
		}{x, readerFrom{x}}
	case flushes | readsFrom:
		return struct {
			*call
			flusher
			readerFrom
		}{x, flusher{x}, readerFrom{x}}
	case hijacks | readsFrom:
		return struct {
			*call
			hijacker
			readerFrom
		}{x, hijacker{x}, readerFrom{x}}
	case flushes | hijacks | readsFrom:
		return struct {
			*call
			flusher
			hijacker
			readerFrom
		}{x, flusher{x}, hijacker{x}, readerFrom{x}}
	case notifies | readsFrom:
		return struct {
			*call
			notifier
			readerFrom
		}{x, notifier{x}, readerFrom{x}}
	case flushes | notifies | readsFrom:
		return struct {
			*call
			flusher
			notifier
			readerFrom
		}{x, flusher{x}, notifier{x}, readerFrom{x}}
	case hijacks | notifies | readsFrom:
		return struct {
			*call
			hijacker
			notifier
			readerFrom
		}{x, hijacker{x}, notifier{x}, readerFrom{x}}
	case pushes | readsFrom:
		return struct {
			*call
			pusher
			readerFrom
		}{x, pusher{x}, readerFrom{x}}
	case flushes | pushes | readsFrom:
		return struct {
			*call
			flusher
			pusher
			readerFrom
		}{x, flusher{x}, pusher{x}, readerFrom{x}}
	case hijacks | pushes | readsFrom:
		return struct {
			*call
			hijacker
			pusher
			readerFrom
		}{x, hijacker{x}, pusher{x}, readerFrom{x}}
	case flushes | hijacks | pushes | readsFrom:
		return struct {
			*call
			flusher
			hijacker
			pusher
			readerFrom
		}{x, flusher{x}, hijacker{x}, pusher{x}, readerFrom{x}}
	case notifies | pushes | readsFrom:
		return struct {
			*call
			notifier
			pusher
			readerFrom
		}{x, notifier{x}, pusher{x}, readerFrom{x}}
	case flushes | notifies | pushes | readsFrom:
		return struct {
			*call
			flusher
			notifier
			pusher
			readerFrom
		}{x, flusher{x}, notifier{x}, pusher{x}, readerFrom{x}}
	case hijacks | notifies | pushes | readsFrom:
		return struct {
			*call
			hijacker
			notifier
			pusher
			readerFrom
		}{x, hijacker{x}, notifier{x}, pusher{x}, readerFrom{x}}
	case flushes | hijacks | notifies | pushes | readsFrom:
		return struct {
			*call
			flusher
			hijacker
			notifier
			pusher
			readerFrom
		}{x, flusher{x}, hijacker{x}, notifier{x}, pusher{x}, readerFrom{x}}
	}
	return x
}
