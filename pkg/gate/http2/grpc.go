package http2

import (
	"net/http"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate"
)

// refuseGRPC answers a gRPC call that has got no answer from the container:
// headers that are the trailers as well (gRPC over HTTP/2, Trailers-Only).
func (s *stream) refuseGRPC(a *gate.Reply) {
	m := a.Outcome.Meaning()
	h := s.w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	h["Content-Length"] = nil // none would be made up
	h["Grpc-Status"] = []string{strconv.Itoa(m.GRPC)}
	h["Grpc-Message"] = []string{encodeMessage(a.Body)}
	h["K-Gate-Outcome"] = []string{a.Outcome.String()}
	s.sayGoodbye(h)
	s.w.WriteHeader(http.StatusOK)
}

// breakGRPC ends a gRPC call whose answer is under way: the status that
// follows tells the client what a reset could not.
func (s *stream) breakGRPC(outcome gate.Outcome) {
	m := outcome.Meaning()
	h := s.w.Header()
	h[trailerKey("Grpc-Status")] = []string{strconv.Itoa(m.GRPC)}
	h[trailerKey("Grpc-Message")] = []string{encodeMessage(m.Body)}
	h[trailerKey("K-Gate-Outcome")] = []string{outcome.String()}
}

// encodeMessage percent-encodes a status message: what is not printable ASCII,
// and "%" (gRPC over HTTP/2, Status-Message).
func encodeMessage(s string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}
