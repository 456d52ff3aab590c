package embed

import (
	"io"

	"go.uber.org/atomic"
)

// body counts what next takes of a request's body.
type body struct {
	src   io.ReadCloser
	x     *call
	taken atomic.Int64
}

// Read is io.Reader. At the end of the body net/http adds trailers to the
// request that came; next looks for them in the one that it got.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.taken.Add(int64(n))
	if err == io.EOF {
		b.x.forwarded.Trailer = cleanHeader(b.x.r.Trailer, b.x.trusted)
	}
	return n, err
}

// Close is io.Closer.
func (b *body) Close() error { return b.src.Close() }
