// Package script is what the clients and the container of the torture test
// agree on: the fields of a request, and the body that answers it.
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
	ID   = "X-Torture-Id"   // its number in the ledger
	Do   = "X-Torture-Do"   // one of the behaviours below
	Wait = "X-Torture-Wait" // milliseconds before the answer
	Size = "X-Torture-Size" // bytes of the answer behind its first line
)

// Behaviours of the container.
const (
	Echo    = "echo"    // reads the body, then answers
	Early   = "early"   // answers without reading the body
	Interim = "interim" // as Echo, after a 103
	Dribble = "dribble" // as Echo, the answer in pieces of a few bytes
	Reset   = "reset"   // resets the connection, or the stream, without an answer
	Close   = "close"   // closes the connection without an answer
	Half    = "half"    // breaks off in the middle of the answer
	Hang    = "hang"    // never answers
)

// firstLine tells whose answer it is, and what arrived of the request's body.
func firstLine(id int, body int64, sum uint32) string {
	return fmt.Sprintf("%d %d %08x\n", id, body, sum)
}

// Length of the answer's body.
func Length(id int, body int64, sum uint32, size int64) int64 {
	return int64(len(firstLine(id, body, sum))) + size
}

// Answer writes the body that answers a request, whose own body had this
// length and checksum, in pieces. It ends with the first error.
func Answer(id int, body int64, sum uint32, size int64, piece int, write func([]byte) error) error {
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

// ErrWrong says that a body is not the answer to its request.
var ErrWrong = errors.New("wrong answer")

// Check reads the body of an answer to its end. An error of r is returned as
// it is; [ErrWrong] says that bytes differ, lack or are too many.
func Check(r io.Reader, id int, body int64, sum uint32, size int64) error {
	got := make([]byte, 16<<10)
	err := Answer(id, body, sum, size, len(got), func(want []byte) error {
		n, err := fill(r, got[:len(want)])
		switch {
		case string(got[:n]) != string(want[:n]):
			return fmt.Errorf("%w: %.60q in the place of %.60q", ErrWrong, got[:n], want)
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
		return fmt.Errorf("%w: %d bytes behind it", ErrWrong, n)
	}
	return nil
}

// fill reads until p is full. Unlike io.ReadFull it leaves the error as it is,
// so that an end in good order differs from a broken one.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = r.Read(p[n:])
		n += k
	}
	return n, err
}

// Sum is the checksum of a request's body.
func Sum(body []byte) uint32 { return crc32.ChecksumIEEE(body) }
