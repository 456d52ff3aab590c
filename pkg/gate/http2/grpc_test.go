package http2

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestAnUpstreamResetMapsToTheGRPCStatusOfItsCode(t *testing.T) {
	const timeout = 5 * time.Millisecond
	var code http2.ErrCode
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		head, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			return true
		}
		if field(head, "grpc-timeout") == "5m" {
			// The gate started the timeout before the container received the request, so
			// the timeout expires during this sleep.
			time.Sleep(2 * timeout)
		}
		if field(head, ":path") == "/responded" {
			p.head(head.StreamID, false, ":status", "200", "content-type", "application/grpc")
			_ = p.do(func() error { return p.WriteData(head.StreamID, false, []byte("some")) })
		}
		_ = p.do(func() error { return p.WriteRSTStream(head.StreamID, code) })
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	for _, v := range []struct {
		code            http2.ErrCode
		timeout, status string
	}{
		{http2.ErrCodeNo, "", "13"},
		{http2.ErrCodeProtocol, "", "13"},
		{http2.ErrCodeInternal, "", "13"},
		{http2.ErrCodeStreamClosed, "1H", "13"},
		{http2.ErrCodeRefusedStream, "", "14"},
		{http2.ErrCodeCancel, "", "1"},
		{http2.ErrCodeCancel, "99999999H", "1"},
		{http2.ErrCodeCancel, "123456789n", "1"}, // malformed: nine digits
		{http2.ErrCodeEnhanceYourCalm, "", "8"},
		{http2.ErrCodeInadequateSecurity, "", "7"},
		{http2.ErrCode(99), "", "13"},
		{http2.ErrCodeCancel, "5m", "4"},
		{http2.ErrCodeInternal, "5m", "4"},
	} {
		for _, path := range []string{"/", "/responded"} {
			code = v.code
			fields := request("POST", path, "content-type", "application/grpc", "te", "trailers")
			if v.timeout != "" {
				fields = append(fields, "grpc-timeout", v.timeout)
			}
			name := fmt.Sprintf("%v %s %s", v.code, v.timeout, path)
			g := c.await(c.open(true, fields...))
			last, outcome := g.head, "upstream-reset"
			if path == "/responded" {
				last, outcome = g.trailers, "upstream-broke-off"
			}
			if last["grpc-status"] != v.status || last["k-gate-outcome"] != outcome || !g.ended {
				t.Errorf("%s: head %v, trailers %v, want status %s", name, g.head, g.trailers, v.status)
			}
		}
	}
}
