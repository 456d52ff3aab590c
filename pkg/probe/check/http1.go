package check

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

const (
	// maxHead is the maximum number of bytes read from an HTTP/1 connection. It includes
	// interim responses, the head and the body. maxBody limits the body further.
	maxHead    = 1 << 20
	maxInterim = 8
)

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// limitedReader reads from conn, and returns io.EOF when its limit is reached.
type limitedReader struct {
	conn      net.Conn
	remaining int   // number of bytes that may still be read
	err       error // first error of conn
}

func (w *limitedReader) Read(b []byte) (int, error) {
	if w.remaining <= 0 {
		return 0, io.EOF
	}
	n, err := w.conn.Read(b[:min(len(b), w.remaining)])
	w.remaining -= n
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// overHTTP1 sends the request over HTTP/1.1 and reads the final response. It reads at
// most maxBody bytes of the body.
func overHTTP1(conn net.Conn, h hop) (Response, Cause) {
	// Read even if the write fails: the server may have responded early.
	_, writeErr := conn.Write(h.head())
	from := &limitedReader{conn: conn, remaining: maxHead}
	reader := readers.Get().(*bufio.Reader)
	reader.Reset(from)
	defer func() {
		reader.Reset(nil)
		readers.Put(reader)
	}()

	if start, err := reader.Peek(9); !bytes.HasPrefix(start, []byte("HTTP/")) {
		switch {
		case looksLikeHTTP2(start):
			return Response{}, causeSpeaksHTTP2
		case len(start) >= 2 && start[0] == 0x15 && start[1] == 0x03:
			return Response{}, Cause{Kind: CauseTLS, Detail: "the server speaks TLS"}
		case len(start) == 0:
			if writeErr != nil && !errors.Is(err, io.EOF) {
				err = writeErr
			}
			cause := causeOf(err)
			if cause.Kind == CauseClosed || cause.Kind == CauseReset {
				cause.Detail = detailEmptyClose
			}
			return Response{}, cause
		case err != nil && causeOf(err).Kind != CauseClosed:
			return Response{}, causeOf(err)
		default:
			return Response{}, Cause{Kind: CauseMalformed, Detail: "not HTTP"}
		}
	}
	response, cause := readResponse(reader, from)
	if response == nil {
		return Response{}, cause
	}
	defer response.Body.Close()
	return readBody(response, h.keepBody)
}

// readResponse skips interim responses (1xx) and returns the final response.
func readResponse(reader *bufio.Reader, from *limitedReader) (*http.Response, Cause) {
	for range maxInterim {
		response, err := http.ReadResponse(reader, nil)
		switch {
		case err != nil && from.remaining <= 0:
			return nil, Cause{Kind: CauseMalformed, Detail: "head too large"}
		case err != nil && from.err != nil:
			// The connection failed. Return this error, because the parser may report
			// only that the response is incomplete.
			return nil, causeOf(from.err)
		case err != nil:
			return nil, causeOf(err)
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, Cause{Kind: CauseMalformed, Detail: "switches protocols unasked"}
		case response.StatusCode >= 200:
			return response, Cause{}
		}
	}
	return nil, Cause{Kind: CauseMalformed, Detail: "no final response"}
}

// readBody reads at most maxBody bytes of the body, and discards them if keep is false.
// If the status is a redirect, the result also has the Location of the response.
func readBody(response *http.Response, keep bool) (Response, Cause) {
	result := Response{Status: response.StatusCode, ContentType: response.Header.Get("Content-Type")}
	limited := io.LimitReader(response.Body, maxBody)
	var err error
	if keep {
		result.Body, err = io.ReadAll(limited)
	} else {
		_, err = io.Copy(io.Discard, limited)
	}
	if err != nil {
		return result, causeOf(err)
	}
	switch response.StatusCode {
	case 301, 302, 303, 307, 308:
		result.location = response.Header.Get("Location")
	}
	return result, Cause{}
}

// looksLikeHTTP2 reports whether b is the frame header of SETTINGS on stream 0, the
// first frame of an HTTP/2 server (RFC 9113 section 3.4).
func looksLikeHTTP2(b []byte) bool {
	return len(b) == 9 && b[0] == 0 && b[3] == 4 && b[4]&^1 == 0 && b[5]|b[6]|b[7]|b[8] == 0
}

// head returns the request head in HTTP/1.1 format.
func (h hop) head() []byte {
	b := make([]byte, 0, 512)
	b = append(b, "GET "...)
	// RequestURI escapes the path but not the query, so escape spaces.
	b = append(b, strings.ReplaceAll(h.url.RequestURI(), " ", "%20")...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, h.host...)
	b = append(b, "\r\n"...)
	for _, header := range h.headers {
		if notForwarded(header.Name) || strings.EqualFold(header.Name, "Accept") && header.Value == "" {
			continue
		}
		b = append(b, header.Name...)
		b = append(b, ": "...)
		b = append(b, header.Value...)
		b = append(b, "\r\n"...)
	}
	return append(b, "Connection: close\r\n\r\n"...)
}
