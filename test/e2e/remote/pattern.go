package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// PatternPeriod is the length after which [Pattern] repeats. It is prime, so that a
// lost or doubled buffer of any usual size is detected.
const PatternPeriod = 251

// period contains the first bytes of the pattern. Their number is 64 KiB plus
// PatternPeriod, so at least 64 KiB follow each offset in the first period. Pattern can
// therefore copy 64 KiB at once.
var period = func() []byte {
	p := make([]byte, 64<<10+PatternPeriod)
	for i := range p {
		p[i] = byte(i % PatternPeriod)
	}
	return p
}()

// Pattern fills p with the bytes of the test pattern that begin at offset.
func Pattern(p []byte, offset int64) {
	for len(p) > 0 {
		n := copy(p, period[offset%PatternPeriod:])
		p, offset = p[n:], offset+int64(n)
	}
}

// CheckPattern reads r to EOF and fails unless r contained exactly the first n bytes of
// the pattern.
func CheckPattern(r io.Reader, n int64) error {
	got := make([]byte, 64<<10)
	want := make([]byte, len(got))
	for at := int64(0); ; {
		k, err := r.Read(got)
		Pattern(want[:k], at)
		if !bytes.Equal(got[:k], want[:k]) {
			return fmt.Errorf("a byte between %d and %d is not as sent", at, at+int64(k))
		}
		at += int64(k)
		switch {
		case errors.Is(err, io.EOF) && at == n:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("got %d bytes of %d", at, n)
		case err != nil:
			return fmt.Errorf("after %d bytes of %d: %w", at, n, err)
		}
	}
}
