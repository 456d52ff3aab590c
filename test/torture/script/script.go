// Package script is the protocol between clients and container of the torture test: the
// fields of a request, and the body of the response.
package script

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/queuegate/queuegate/test/e2e/remote"
)

// Fields of a request.
const (
	ID   = "X-Torture-Id"   // number of the request
	Do   = "X-Torture-Do"   // one of the behaviours below
	Wait = "X-Torture-Wait" // delay of the response in milliseconds
	Size = "X-Torture-Size" // response bytes after the first line
)

// Behaviours of the container.
const (
	Echo    = "echo"    // reads the body, then responds
	Early   = "early"   // responds without reading the body
	Interim = "interim" // Echo, after a 103
	Dribble = "dribble" // Echo, in pieces of a few bytes
	Reset   = "reset"   // resets the connection or the stream without a response
	Close   = "close"   // closes the connection without a response
	Half    = "half"    // aborts in the middle of the response
	Hang    = "hang"    // never responds
)

// firstLine returns the first line of a response body. It contains the number of the
// request, and the length and the checksum of the request body that the container
// received.
func firstLine(id int, body int64, sum uint32) string {
	return fmt.Sprintf("%d %d %08x\n", id, body, sum)
}

// Length returns the length of the response body.
func Length(id int, body int64, sum uint32, size int64) int64 {
	return int64(len(firstLine(id, body, sum))) + size
}

// WriteBody writes the response body: a first line, and then size bytes. It passes these
// bytes to the function write in pieces of at most piece bytes. The parameters body and
// sum are the length and the checksum of the request body. WriteBody ends at the first
// error of write, and returns it.
func WriteBody(id int, body int64, sum uint32, size int64, piece int, write func([]byte) error) error {
	if err := write([]byte(firstLine(id, body, sum))); err != nil {
		return err
	}
	buf := make([]byte, piece)
	for at := int64(0); at < size; at += int64(len(buf)) {
		buf = buf[:min(int64(piece), size-at)]
		remote.Pattern(buf, int64(id)+at)
		if err := write(buf); err != nil {
			return err
		}
	}
	return nil
}

// ErrWrong reports a body that is not the response to the request.
var ErrWrong = errors.New("wrong response")

// Check reads a response body to EOF. Errors of r are returned unchanged. [ErrWrong]
// means that bytes are wrong, missing or excess.
func Check(r io.Reader, id int, body int64, sum uint32, size int64) error {
	got := make([]byte, 16<<10)
	err := WriteBody(id, body, sum, size, len(got), func(want []byte) error {
		n, err := fill(r, got[:len(want)])
		switch {
		case string(got[:n]) != string(want[:n]):
			return fmt.Errorf("%w: %.60q instead of %.60q", ErrWrong, got[:n], want)
		case n < len(want) && errors.Is(err, io.EOF):
			return fmt.Errorf("%w: it ended early", ErrWrong)
		case n < len(want):
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch n, err := io.Copy(io.Discard, r); {
	case err != nil:
		return err
	case n > 0:
		return fmt.Errorf("%w: %d excess bytes", ErrWrong, n)
	}
	return nil
}

// fill fills p. Unlike io.ReadFull it returns errors of r unchanged, so that EOF differs
// from a broken connection.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = r.Read(p[n:])
		n += k
	}
	return n, err
}

// Sum returns the checksum of a request body.
func Sum(body []byte) uint32 { return crc32.ChecksumIEEE(body) }
