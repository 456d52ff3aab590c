package script

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestCheckDistinguishesAWrongResponseFromATruncatedOne(t *testing.T) {
	var body bytes.Buffer
	if err := WriteBody(7, 3, Sum([]byte("abc")), 40_000, 1000, func(p []byte) error { _, err := body.Write(p); return err }); err != nil {
		t.Fatal(err)
	}
	all := body.Bytes()
	if got := Length(7, 3, Sum([]byte("abc")), 40_000); got != int64(len(all)) {
		t.Errorf("length %d, want %d", got, len(all))
	}
	changed := bytes.Clone(all)
	changed[30_000]++
	for name, c := range map[string]struct {
		r    io.Reader
		id   int
		want error
	}{
		"its own":            {bytes.NewReader(all), 7, nil},
		"in single bytes":    {iotest.OneByteReader(bytes.NewReader(all)), 7, nil},
		"another request's":  {bytes.NewReader(all), 8, ErrWrong},
		"one byte changed":   {bytes.NewReader(changed), 7, ErrWrong},
		"short, in order":    {bytes.NewReader(all[:20_000]), 7, ErrWrong},
		"empty, in order":    {bytes.NewReader(nil), 7, ErrWrong},
		"a byte too many":    {io.MultiReader(bytes.NewReader(all), bytes.NewReader([]byte("x"))), 7, ErrWrong},
		"broken in the body": {io.MultiReader(bytes.NewReader(all[:20_000]), iotest.ErrReader(io.ErrUnexpectedEOF)), 7, io.ErrUnexpectedEOF},
		"broken at its end":  {io.MultiReader(bytes.NewReader(all), iotest.ErrReader(io.ErrUnexpectedEOF)), 7, io.ErrUnexpectedEOF},
	} {
		if err := Check(c.r, c.id, 3, Sum([]byte("abc")), 40_000); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
