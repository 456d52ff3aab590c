package check

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/queuegate/queuegate/pkg/internal/h2conn"
)

// overHTTP2 sends the request of h over HTTP/2 with prior knowledge.
func overHTTP2(ctx context.Context, conn net.Conn, h hop) (Response, Cause) {
	request := &http.Request{Method: http.MethodGet, URL: h.url, Host: h.host, Header: http.Header{}}
	for _, header := range h.headers {
		if !notForwarded(header.Name) && (header.Value != "" || !strings.EqualFold(header.Name, "Accept")) {
			request.Header.Add(header.Name, header.Value)
		}
	}
	response, cause := roundTripHTTP2(ctx, conn, request, maxBody)
	if response == nil {
		return Response{}, cause
	}
	return readBody(response, h.keepBody)
}

// roundTripHTTP2 reads at most limit bytes of the body. The caller closes conn.
func roundTripHTTP2(ctx context.Context, conn net.Conn, request *http.Request, limit int) (*http.Response, Cause) {
	response, err := h2conn.New(conn).RoundTrip(request, limit)
	switch {
	case err == nil:
		return response, Cause{}
	case ctx.Err() != nil:
		return nil, causeOf(ctx.Err())
	case errors.Is(err, h2conn.ErrHTTP1):
		return nil, Cause{Kind: CauseMalformed, Detail: "the server speaks HTTP/1"}
	}
	return nil, causeOf(err)
}
