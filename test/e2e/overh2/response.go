package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http2"
)

// responder converts the response on a stream to HTTP/1.1.
type responder struct {
	s       *session
	st      *stream
	r       *request
	out     *bufio.Writer
	chunked bool
}

func (a *responder) run() {
	headed := false
	for {
		e := a.st.next(func() { _ = a.out.Flush() })
		switch {
		case e.lost && !headed && (e.code == http2.ErrCodeProtocol || e.code == http2.ErrCodeStreamClosed):
			fmt.Fprintf(a.out, "HTTP/1.1 400 Stream Error\r\nX-Reset: %v\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", e.code)
			a.endConnection()
			return
		case e.lost:
			_ = a.out.Flush() // deliver the received bytes before the reset
			_ = a.s.client.SetLinger(0)
			_ = a.s.client.Close()
			return
		case e.fields != nil && headed: // trailers
			fmt.Fprintf(a.out, "0\r\n%s\r\n", lines(e.fields))
			a.finish()
			return
		case e.fields != nil:
			headed = a.head(e)
		default:
			if a.chunked && len(e.data) > 0 {
				fmt.Fprintf(a.out, "%x\r\n%s\r\n", len(e.data), e.data)
			} else {
				_, _ = a.out.Write(e.data)
			}
			a.st.consumed(e.flow)
		}
		if e.end {
			if a.chunked {
				_, _ = a.out.WriteString("0\r\n\r\n")
			}
			a.finish()
			return
		}
	}
}

// head writes the head in e to the client as HTTP/1.1. It reports whether this is the
// head of the final response, and not of an interim one.
func (a *responder) head(e event) bool {
	status := e.fields[0][1]
	code := 0
	_, _ = fmt.Sscanf(status, "%d", &code)
	if a.r.tunnel != "" && code == 200 {
		a.st.c.do(func() { a.st.switched = true })
		fmt.Fprintf(a.out, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s\r\n", a.r.tunnel, lines(e.fields[1:]))
		return true
	}
	fmt.Fprintf(a.out, "HTTP/1.1 %s %s\r\n%s", status, http.StatusText(code), lines(e.fields[1:]))
	if code < 200 {
		_, _ = a.out.WriteString("\r\n")
		return false
	}
	// The gate has declined the tunnel. Record this before the client can read the
	// response: its next bytes are then a new request, and not bytes of a tunnel.
	if a.r.tunnel != "" {
		a.st.c.do(func() { a.st.tunnelDeclined = true })
	}
	length := false
	for _, f := range e.fields {
		length = length || f[0] == "content-length"
	}
	if a.r.method != "HEAD" && code != 204 && code != 304 && !length {
		if e.end {
			_, _ = a.out.WriteString("Content-Length: 0\r\n")
		} else {
			a.chunked = true
			_, _ = a.out.WriteString("Transfer-Encoding: chunked\r\n")
		}
	}
	if a.r.closing || a.st.c.isUnusable() || !a.st.sent() && a.r.tunnel == "" {
		_, _ = a.out.WriteString("Connection: close\r\n")
		a.s.end()
	}
	_, _ = a.out.WriteString("\r\n")
	return true
}

func (a *responder) finish() {
	_ = a.out.Flush()
	a.st.recordResponse()
	if a.s.isClosing() {
		a.st.awaitSent()
		_ = a.s.client.CloseWrite()
	}
	if a.st.switched {
		_ = a.s.client.CloseWrite()
	}
}

func (a *responder) endConnection() {
	a.s.end()
	a.finish()
}

func lines(fields [][2]string) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(f[0] + ": " + f[1] + "\r\n")
	}
	return b.String()
}
