package origin

import (
	"bytes"
	"errors"
	"strconv"
)

var errChunk = errors.New("malformed chunk")

// A body is what is still to come of an upload.
type body struct {
	left    int64 // of the body, or of the chunk under way with its CRLF
	chunked bool
	last    bool // the last chunk has been seen, trailers follow
}

func (b *body) expected() bool { return b.chunked || b.left > 0 }

// take drops what of p belongs to the body, and says whether it ended.
func (b *body) take(p []byte) (used int, done bool, err error) {
	for {
		n := min(b.left, int64(len(p)-used))
		b.left -= n
		used += int(n)
		if b.left > 0 {
			return used, false, nil
		}
		if !b.chunked {
			return used, true, nil
		}
		end := bytes.IndexByte(p[used:], '\n')
		if end < 0 {
			if len(p)-used > maxHead {
				return used, false, errChunk
			}
			return used, false, nil
		}
		line := bytes.TrimRight(p[used:used+end], "\r")
		used += end + 1
		if b.last {
			if len(line) == 0 {
				return used, true, nil
			}
			continue // a trailer
		}
		if i := bytes.IndexByte(line, ';'); i >= 0 {
			line = line[:i]
		}
		size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 62)
		if err != nil {
			return used, false, errChunk
		}
		if size == 0 {
			b.last = true
		} else {
			b.left = int64(size) + 2
		}
	}
}
