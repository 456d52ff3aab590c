package embed

import (
	"io"

	"go.uber.org/atomic"
)

// body is a request body that counts the bytes that the handler reads.
type body struct {
	src     io.ReadCloser
	x       *call
	numRead atomic.Int64

	measured bool
	readAt   atomic.Int64 // time of the last read, by the gate's clock; 0 if measured is false
}

// Read implements io.Reader. At the end of the body, net/http sets the trailers of the
// received request. Read then copies them to the request that the handler has got.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.numRead.Add(int64(n))
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
