package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	mostMillis = 60 * 60 * 1000 // one hour, longer than all default timeouts
	mostChunks = 1_000_000
	mostBytes  = 16 << 30
)

// echo responds with the request's head as text, an empty line, the body while it
// arrives, and its trailers.
func (c *container) echo(w http.ResponseWriter, r *http.Request) error {
	as := r.URL.Query().Get("as")
	if as != "" && as != "text" && as != "body" {
		return &badValue{"as", as, "text or body"}
	}
	control := http.NewResponseController(w)
	// EnableFullDuplex returns an error over HTTP/2, which is always full duplex.
	_ = control.EnableFullDuplex()
	if as == "body" {
		if kind := r.Header.Get("Content-Type"); kind != "" {
			w.Header().Set("Content-Type", kind)
		} else {
			w.Header().Set("Content-Type", "application/octet-stream")
		}
		_, err := io.Copy(flushing{w, control}, r.Body)
		cutOn(err)
		return nil
	}

	var head strings.Builder
	fmt.Fprintf(&head, "%s %s %s\n", r.Method, r.RequestURI, r.Proto)
	fmt.Fprintf(&head, "Host: %s\n", r.Host)
	if r.ContentLength > 0 {
		fmt.Fprintf(&head, "Content-Length: %d\n", r.ContentLength)
	}
	if len(r.TransferEncoding) > 0 {
		fmt.Fprintf(&head, "Transfer-Encoding: %s\n", strings.Join(r.TransferEncoding, ", "))
	}
	writeFields(&head, r.Header, "Content-Length")
	head.WriteByte('\n')
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.ContentLength == 0 {
		text(w, http.StatusOK, head.String())
		return nil
	}
	out := flushing{w, control}
	io.WriteString(out, head.String())
	_, err := io.Copy(out, r.Body)
	cutOn(err)
	if len(r.Trailer) > 0 {
		var tail strings.Builder
		tail.WriteString("\n\n")
		writeFields(&tail, r.Trailer, "")
		io.WriteString(out, tail.String())
	}
	return nil
}

// writeFields writes one line for each field value, sorted by the names of the fields. It
// omits the field whose name is the argument except.
func writeFields(dst *strings.Builder, fields http.Header, except string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == except {
			continue
		}
		for _, value := range fields[name] {
			fmt.Fprintf(dst, "%s: %s\n", name, value)
		}
	}
}

// delay responds after ms milliseconds, unless the client has disconnected.
func (c *container) delay(w http.ResponseWriter, r *http.Request) error {
	ms, err := queryInt(r, "ms", 500, mostMillis)
	if err != nil {
		return err
	}
	if pause(r.Context(), millis(ms)) {
		text(w, http.StatusOK, fmt.Sprintf("waited %d ms\n", ms))
	}
	return nil
}

// bytes responds with n bytes of a repeating pattern and a Content-Length.
func (c *container) bytes(w http.ResponseWriter, r *http.Request) error {
	n, err := queryInt(r, "n", 1<<20, mostBytes)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	if r.Method == http.MethodHead {
		return nil
	}
	_, err = io.CopyN(w, new(pattern), n)
	cutOn(err)
	return nil
}

// upload reads the whole body and responds with its length in bytes.
func (c *container) upload(w http.ResponseWriter, r *http.Request) error {
	begin := time.Now()
	n, err := io.Copy(io.Discard, r.Body)
	cutOn(err)
	text(w, http.StatusOK, fmt.Sprintf("received %d bytes in %d ms\n", n, time.Since(begin).Milliseconds()))
	return nil
}

// hints sends 103 Early Hints (RFC 8297) at once, except over HTTP/1.0, and the final
// response after ms milliseconds.
func (c *container) hints(w http.ResponseWriter, r *http.Request) error {
	ms, err := queryInt(r, "ms", 500, mostMillis)
	if err != nil {
		return err
	}
	w.Header().Set("Link", "</style.css>; rel=preload; as=style")
	if r.ProtoAtLeast(1, 1) {
		w.WriteHeader(http.StatusEarlyHints)
	}
	if pause(r.Context(), millis(ms)) {
		text(w, http.StatusOK, "the hints came first\n")
	}
	return nil
}

// status responds with the final status in the path.
func (c *container) status(w http.ResponseWriter, value string) error {
	code, err := strconv.Atoi(value)
	if err != nil || len(value) != 3 || code < 200 || code > 599 {
		return &badValue{"status", value, "a status from 200 to 599"}
	}
	if code == http.StatusNoContent || code == http.StatusNotModified {
		w.WriteHeader(code)
		return nil
	}
	text(w, code, fmt.Sprintf("%d %s\n", code, http.StatusText(code)))
	return nil
}

// pattern is an endless source of printable lines of 64 bytes.
type pattern struct{ offset int }

const patternLine = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n"

func (s *pattern) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		copied := copy(p[n:], patternLine[s.offset:])
		s.offset = (s.offset + copied) % len(patternLine)
		n += copied
	}
	return len(p), nil
}

// flushing is a writer that flushes after each write.
type flushing struct {
	w       io.Writer
	control *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

// cutOn aborts the connection if err is not nil, so that the client cannot mistake a
// truncated response for a complete one.
func cutOn(err error) {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
