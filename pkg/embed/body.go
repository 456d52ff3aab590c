package embed

import (
	"io"

	"go.uber.org/atomic"
)

// body is a request body that counts the bytes read by next.
type body struct {
	src   io.ReadCloser
	x     *call
	taken atomic.Int64

	measured bool
	readAt   atomic.Int64 // only if measured: time of the last read, on the gate's clock
}

// Read implements io.Reader. At the end of the body, net/http adds trailers to x.r;
// Read copies them to x.forwarded.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.taken.Add(int64(n))
	if b.measured {
		b.readAt.Store(b.x.gate.Clock())
	}
	if err == io.EOF {
		b.x.forwarded.Trailer = cleanHeader(b.x.r.Trailer, b.x.trusted)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error { return b.src.Close() }
