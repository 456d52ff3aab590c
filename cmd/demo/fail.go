package main

import (
	"io"
	"net"
	"net/http"
)

// fail aborts the exchange. how=close closes the connection without a response,
// how=reset resets it, and how=half closes it in the middle of the body. Over HTTP/2
// all three reset the stream.
func (c *container) fail(w http.ResponseWriter, r *http.Request) error {
	how, err := queryWord(r, "how", "close", "reset", "half")
	if err != nil {
		return err
	}
	// Unread bytes would turn the close into a reset.
	io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		if how == "half" {
			w.Header().Set("Content-Length", "1000")
			io.CopyN(flushing{w, http.NewResponseController(w)}, new(pattern), 500)
		}
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	switch how {
	case "reset":
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
	case "half":
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n")
		io.CopyN(conn, new(pattern), 500)
	}
	return nil
}
