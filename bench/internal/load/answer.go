package load

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

// Faults of an answer.
var (
	errHead = errors.New("malformed head of an answer")
	errCut  = errors.New("answer cut off")
)

// Fields and a value that frame an answer.
var (
	contentLength, transferEncoding = []byte("content-length"), []byte("transfer-encoding")
	connection, closing             = []byte("connection"), []byte("close")
)

type part uint8

const (
	partHead part = iota
	partBody
	partUntilEnd
)

// An answer is a parser of HTTP/1.1 answers on one connection, one after the
// other. It is strict enough to notice a broken one and knows only the fields
// that frame it.
type answer struct {
	part   part
	body   wire.Body
	status int
	close  bool // the connection ends with this answer
	begun  bool // its first byte has come
}

// feed uses bytes of p and returns how many, and whether the answer is whole.
// With too few for the next step it uses none. Body bytes go to to, if there
// is one. A 101 is whole at the end of its head; other interim answers are
// passed over.
func (a *answer) feed(p []byte, to func([]byte)) (used int, whole bool, err error) {
	for {
		rest := p[used:]
		if len(rest) > 0 {
			a.begun = true
		}
		switch a.part {
		case partHead:
			end := bytes.Index(rest, []byte("\r\n\r\n"))
			if end < 0 {
				if len(rest) > wire.MaxHead {
					return used, false, errHead
				}
				return used, false, nil
			}
			none, err := a.head(rest[:end+2])
			if err != nil {
				return used, false, err
			}
			used += end + 4
			if a.status < 200 && a.status != 101 {
				continue
			}
			if none {
				a.part, a.begun = partHead, false
				return used, true, nil
			}
		case partBody:
			n, done, err := a.body.Take(rest, to)
			used += n
			if done {
				a.part, a.begun = partHead, false
			}
			return used, done, err
		case partUntilEnd:
			if to != nil {
				to(rest)
			}
			return len(p), false, nil
		}
	}
}

// discardable is how many body bytes may be dropped unread without losing the
// end of the answer.
func (a *answer) discardable() int64 {
	if a.part != partBody {
		return 0
	}
	return a.body.Left - 2
}

func (a *answer) discarded(n int64) { a.body.Left -= n }

// ended says what the end of the connection means to the answer under way.
func (a *answer) ended() (whole bool, err error) {
	switch {
	case a.part == partUntilEnd:
		return true, nil
	case a.begun:
		return false, errCut
	}
	return false, errClosed
}

// head reads a head that ends after the last field's CRLF, and says whether the
// answer has no body.
func (a *answer) head(head []byte) (none bool, err error) {
	line, fields, _ := bytes.Cut(head, []byte("\r\n"))
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' {
		return false, errHead
	}
	a.status = 0
	for _, d := range line[9:12] {
		if d < '0' || d > '9' {
			return false, errHead
		}
		a.status = a.status*10 + int(d-'0')
	}
	if a.status < 100 {
		return false, errHead
	}
	a.close = line[7] == '0'
	a.part, a.body = partUntilEnd, wire.Body{}
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		colon := bytes.IndexByte(field, ':')
		switch {
		case colon < 0:
			return false, errHead
		case colon == len(contentLength) && bytes.EqualFold(field[:colon], contentLength):
			n, err := strconv.ParseInt(string(bytes.TrimSpace(field[colon+1:])), 10, 64)
			if err != nil || n < 0 {
				return false, errHead
			}
			if a.part == partUntilEnd {
				a.part, a.body.Left = partBody, n
			}
		case colon == len(transferEncoding) && bytes.EqualFold(field[:colon], transferEncoding):
			a.part, a.body = partBody, wire.Body{Chunked: true}
		case colon == len(connection) && bytes.EqualFold(field[:colon], connection):
			a.close = a.close || bytes.EqualFold(bytes.TrimSpace(field[colon+1:]), closing)
		}
	}
	if a.status < 200 || a.status == 204 || a.status == 304 {
		a.part = partHead
		return true, nil
	}
	if a.part == partUntilEnd {
		a.close = true
	}
	return a.part == partBody && !a.body.Expected(), nil
}
