package main

import (
	"io"
	"net"
	"net/http"
)

// fail aborts the exchange. The parameter value close ends the connection without a
// response, and reset does so with a TCP reset. half ends the connection in the middle
// of a body with a Content-Length. Over HTTP/2 each of them resets the stream.
func (c *container) fail(w http.ResponseWriter, r *http.Request) error {
	how, err := queryWord(r, "how", "close", "reset", "half")
	if err != nil {
		return err
	}
	// Read the body first: unread bytes would turn the close into a TCP reset.
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
