// Container stands in for a user container in the torture test. It writes the number of
// each request to descriptor 3 before it does anything else, so that the ledger is
// complete even if it is killed. Then it does what the request's fields say.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/test/torture/script"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(1)
	}
}

// run serves a port of 127.0.0.1 over HTTP/1, and over h2c if the second argument is h2c.
func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a port and http1 or h2c, got %d arguments", len(args))
	}
	l, err := net.Listen("tcp4", "127.0.0.1:"+args[0])
	if err != nil {
		return err
	}
	s := &http.Server{Handler: &handler{seen: os.NewFile(3, "ledger")}, Protocols: new(http.Protocols), ConnContext: withConn, MaxHeaderBytes: 2 << 20}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(args[1] == "h2c")
	return s.Serve(l)
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

type handler struct{ seen *os.File }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.Header.Get(script.ID))
	if err != nil {
		return // a probe
	}
	// A write of less than PIPE_BUF bytes is atomic.
	if _, err := fmt.Fprintf(h.seen, "%d\n", id); err != nil {
		panic(err)
	}
	wait, _ := strconv.Atoi(r.Header.Get(script.Wait))
	size, _ := strconv.ParseInt(r.Header.Get(script.Size), 10, 64)
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	time.Sleep(time.Duration(wait) * time.Millisecond)
	do := r.Header.Get(script.Do)
	switch do {
	case script.Reset, script.Close:
		breakOff(w, r, do == script.Reset)
	case script.Hang:
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
		return
	case script.Interim:
		w.Header().Set("Link", "</x>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	}
	n, sum := int64(0), uint32(0)
	if do != script.Early {
		hash := crc32.NewIEEE()
		if n, err = io.Copy(hash, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		sum = hash.Sum32()
	}
	w.Header().Set(script.ID, strconv.Itoa(id))
	if id%2 == 0 { // without a length, net/http sends the body in chunks
		w.Header().Set("Content-Length", strconv.FormatInt(script.Length(id, n, sum, size), 10))
	}
	if err := respond(w, do, id, n, sum, size); err != nil {
		panic(http.ErrAbortHandler)
	}
}

var errHalf = errors.New("aborted half-way, as requested")

func respond(w http.ResponseWriter, do string, id int, n int64, sum uint32, size int64) error {
	piece := 16 << 10
	if do == script.Dribble {
		piece = 16
	}
	sent := int64(0)
	return script.WriteBody(id, n, sum, size, piece, func(p []byte) error {
		if do == script.Half && (sent > 0 || size == 0) {
			_ = http.NewResponseController(w).Flush()
			return errHalf
		}
		k, err := w.Write(p)
		sent += int64(k)
		if do == script.Dribble && err == nil {
			err = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
		return err
	})
}

func breakOff(w http.ResponseWriter, r *http.Request, reset bool) {
	if r.ProtoMajor == 1 && reset {
		_ = r.Context().Value(connKey{}).(*net.TCPConn).SetLinger(0)
	}
	panic(http.ErrAbortHandler)
}
