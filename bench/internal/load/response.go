package load

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

// Faults of a response.
var (
	errHead = errors.New("malformed response head")
	errCut  = errors.New("truncated response")
)

type parseState uint8

const (
	partHead parseState = iota
	partBody
	partUntilEnd
)

// A response parses consecutive HTTP/1.1 responses on one connection, and detects
// malformed responses.
type response struct {
	state  parseState
	body   wire.Body
	status int
	close  bool // the connection closes after this response
	begun  bool // the first byte of the response was received
}

// feed parses the bytes p. It returns how many of them it used, and whether the response
// is complete. It uses a head only when all bytes of the head are in p. If the parameter
// sink is not nil, feed passes body bytes to this function. A 101 response is complete
// after its head; feed skips other interim responses.
func (a *response) feed(p []byte, sink func([]byte)) (used int, isComplete bool, err error) {
	for {
		rest := p[used:]
		if len(rest) > 0 {
			a.begun = true
		}
		switch a.state {
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
				a.state, a.begun = partHead, false
				return used, true, nil
			}
		case partBody:
			n, done, err := a.body.Take(rest, sink)
			used += n
			if done {
				a.state, a.begun = partHead, false
			}
			return used, done, err
		case partUntilEnd:
			if sink != nil {
				sink(rest)
			}
			return len(p), false, nil
		}
	}
}

// discardable returns how many body bytes can be skipped without reading the end of the
// response.
func (a *response) discardable() int64 {
	if a.state != partBody {
		return 0
	}
	return a.body.Remaining - 2
}

func (a *response) discarded(n int64) { a.body.Remaining -= n }

// handleEOF handles EOF. It reports whether EOF completes the response.
func (a *response) handleEOF() (isComplete bool, err error) {
	switch {
	case a.state == partUntilEnd:
		return true, nil
	case a.begun:
		return false, errCut
	}
	return false, errClosed
}

// head parses a head, which ends with the CRLF of the last field. It reports whether the
// response has no body.
func (a *response) head(head []byte) (none bool, err error) {
	line, fields, _ := bytes.Cut(head, []byte("\r\n"))
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' {
		return false, errHead
	}
	framing, ok := wire.ReadFraming(fields)
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil || a.status < 100 || !ok {
		return false, errHead
	}
	a.body, a.close = framing.Body, framing.Close || line[7] == '0'
	switch {
	case a.status < 200 || a.status == 204 || a.status == 304:
		a.state = partHead
		return true, nil
	case !framing.Known:
		a.state, a.close = partUntilEnd, true
		return false, nil
	}
	a.state = partBody
	return !a.body.Expected(), nil
}
