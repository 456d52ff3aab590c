package main

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// request is a client's request, converted to HTTP/2.
type request struct {
	method string
	fields [][2]string // pseudo-header fields first
	// The number of bytes in the body. -1 means that the body is chunked. -2 means that
	// Content-Length is invalid: the body is then the bytes that have arrived with the
	// head.
	length  int64
	tunnel  string // protocol of an extended CONNECT
	closing bool   // the request had Connection: close
}

func readRequest(head string) *request {
	lines := strings.Split(head, "\r\n")
	method, rest, _ := strings.Cut(lines[0], " ")
	target := rest[:max(0, strings.LastIndexByte(rest, ' '))]
	r := &request{method: method}
	var host []string
	var upgrade string
	var fields [][2]string
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		switch {
		case name == "host" && len(host) == 0:
			host = append(host, value)
			continue
		case name == "transfer-encoding" && strings.EqualFold(value, "chunked"):
			r.length = -1
			continue
		case name == "content-length":
			n, err := strconv.ParseUint(value, 10, 63)
			if r.length = int64(n); err != nil || r.length != 0 && strings.Contains(value, "+") {
				r.length = -2
			}
		case name == "connection" && (strings.EqualFold(value, "close") || strings.EqualFold(value, "keep-alive")):
			r.closing = strings.EqualFold(value, "close")
			continue
		case name == "connection" && slices.Contains(strings.Split(strings.ToLower(strings.ReplaceAll(value, " ", "")), ","), "upgrade"):
			continue
		case name == "upgrade":
			upgrade = value
			continue
		}
		fields = append(fields, [2]string{name, value})
	}
	scheme := "http"
	switch {
	case upgrade != "":
		r.tunnel = upgrade
		r.fields = append(r.fields, [2]string{":method", "CONNECT"}, [2]string{":protocol", upgrade})
	default:
		r.fields = append(r.fields, [2]string{":method", method})
	}
	if method != "CONNECT" {
		r.fields = append(r.fields, [2]string{":scheme", scheme}, [2]string{":path", target})
	}
	for _, h := range host {
		r.fields = append(r.fields, [2]string{":authority", h})
	}
	r.fields = append(r.fields, fields...)
	return r
}

// body sends the request body. An error means that the client's connection ended.
func (s *session) body(st *stream, r *request) error {
	switch {
	case r.tunnel != "":
		return s.tunnel(st)
	case r.length == -1:
		return s.chunks(st)
	case r.length == -2:
		st.data(s.in, true)
		s.in = nil
		return nil
	}
	for remaining := r.length; remaining > 0; {
		if len(s.in) == 0 {
			if err := s.more(); err != nil {
				return err
			}
		}
		n := min(int64(len(s.in)), remaining)
		remaining -= n
		st.data(s.in[:n], remaining == 0)
		s.in = s.in[n:]
	}
	return nil
}

// chunks sends a chunked body, or resets the stream if the body is malformed.
func (s *session) chunks(st *stream) error {
	for {
		line, err := s.line()
		if err != nil {
			return err
		}
		remaining, err := strconv.ParseUint(line, 16, 31)
		if err != nil {
			st.cancel()
			return nil
		}
		if remaining == 0 {
			break
		}
		for remaining > 0 {
			if len(s.in) == 0 {
				if err := s.more(); err != nil {
					return err
				}
			}
			n := min(uint64(len(s.in)), remaining)
			remaining -= n
			st.data(s.in[:n], false)
			s.in = s.in[n:]
		}
		if _, err := s.line(); err != nil {
			return err
		}
	}
	var trailers [][2]string
	for {
		line, err := s.line()
		if err != nil {
			return err
		}
		if line == "" {
			st.finish(trailers)
			return nil
		}
		name, value, _ := strings.Cut(line, ":")
		trailers = append(trailers, [2]string{strings.ToLower(name), strings.Trim(value, " \t")})
	}
}

// tunnel forwards the client's bytes as DATA, and the client's FIN as END_STREAM. After a
// FIN it waits until the gate has ended the other direction. If the gate declines the
// tunnel, tunnel returns nil, because further bytes are the client's next request.
func (s *session) tunnel(st *stream) error {
	for {
		st.data(s.in, false)
		s.in = nil
		if err := s.more(); err != nil {
			if errors.Is(err, io.EOF) {
				st.data(nil, true)
				st.awaitEnd()
			}
			return err
		}
		if st.declined() {
			st.data(nil, true)
			return nil
		}
	}
}
