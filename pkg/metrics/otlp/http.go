package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// HTTP is a Sender that POSTs each message over HTTP/1.1. It treats a redirect as a
// failure. A connection that failed or timed out is not reused.
type HTTP struct {
	url         *url.URL
	contentType string
	options     Options
	transport   *http.Transport
}

// NewHTTP returns a Sender that POSTs messages of contentType to u.
func NewHTTP(u *url.URL, contentType string) *HTTP {
	return newHTTP(u, contentType, Options{})
}

func newHTTP(u *url.URL, contentType string, o Options) *HTTP {
	h := &HTTP{url: u, contentType: contentType, options: o, transport: newTransport()}
	h.transport.TLSClientConfig = o.tlsConfig()
	return h
}

// Timeout implements Sender.
func (h *HTTP) Timeout() time.Duration { return h.options.timeout() }

// Send implements Sender.
func (h *HTTP) Send(ctx context.Context, message []byte) ([]byte, error) {
	if h.options.Gzip {
		message = gzipped(message)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url.String(), bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Content-Type": {h.contentType}, "User-Agent": {userAgent}}
	h.options.addTo(r, "Content-Type", "Content-Encoding")
	if h.options.Gzip {
		r.Header["Content-Encoding"] = []string{"gzip"}
	}
	authorize(r)
	response, err := h.transport.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("sending to %s: %w", h.url.Host, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("reading the response of %s: %w", h.url.Host, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, httpStatus(response)
	}
	return body, nil
}

// Close implements Sender.
func (h *HTTP) Close() { h.transport.CloseIdleConnections() }

// httpStatus returns the error for a failure response. The retryable statuses come from
// the OTLP specification 1.5, OTLP/HTTP response.
func httpStatus(r *http.Response) *StatusError {
	e := &StatusError{Status: fmt.Sprintf("HTTP status %d", r.StatusCode)}
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Temporary = true
		e.RetryAfter = retryAfter(r.Header.Get("Retry-After"))
	}
	return e
}

func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
