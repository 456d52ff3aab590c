package hostile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// stdlibRequests parses stream with net/http, and compares the result with found, the
// requests that the strict parser has found in the same bytes. If they differ, it returns
// an error and the index in found of the first difference. The parameter base is the
// offset in the whole connection at which stream begins.
func stdlibRequests(stream []byte, found []message, base int) (int, error) {
	source := bytes.NewReader(stream)
	r := bufio.NewReaderSize(source, 4<<20)
	for i, m := range found {
		request, err := http.ReadRequest(r)
		if err != nil {
			return i, fmt.Errorf("net/http rejects request %d: %w", i, err)
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return i, fmt.Errorf("net/http rejects the body of request %d: %w", i, err)
		}
		if request.Method != m.method || request.RequestURI != m.target {
			return i, fmt.Errorf("net/http reads request %d as %s %.60q", i, request.Method, request.RequestURI)
		}
		if at := base + len(stream) - source.Len() - r.Buffered(); at != m.end || !bytes.Equal(body, m.body) {
			return i, fmt.Errorf("net/http ends request %d at %d, the strict parser at %d", i, at, m.end)
		}
	}
	rest, _ := r.Peek(1)
	if len(rest) == 0 {
		return 0, nil
	}
	request, err := http.ReadRequest(r)
	if err != nil {
		return 0, nil
	}
	if _, err := io.ReadAll(request.Body); err == nil {
		return len(found), fmt.Errorf("net/http reads one request more: %s %.60q", request.Method, request.RequestURI)
	}
	return 0, nil
}

// stdlibResponses parses a stream of responses with net/http. It returns an error if the
// result differs from found, the responses that the strict parser has found. If whole is
// false, the last of these responses is incomplete. Then net/http must not accept it as
// complete, except if the end of the connection ends its body.
func stdlibResponses(stream []byte, found []message, methods []string, isComplete bool) error {
	source := bytes.NewReader(stream)
	r := bufio.NewReaderSize(source, 4<<20)
	nth := 0
	for i, m := range found {
		response, err := http.ReadResponse(r, &http.Request{Method: methodOf(methods, nth)})
		if err != nil {
			return fmt.Errorf("net/http rejects response %d: %w", i, err)
		}
		if response.StatusCode != m.status {
			return fmt.Errorf("net/http reads response %d as %d", i, response.StatusCode)
		}
		if m.status == http.StatusSwitchingProtocols {
			return nil
		}
		body, err := io.ReadAll(response.Body)
		if i == len(found)-1 && !isComplete {
			if err == nil && m.framing != frameClose {
				return fmt.Errorf("net/http accepts response %d as complete", i)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("net/http rejects the body of response %d: %w", i, err)
		}
		if at := len(stream) - source.Len() - r.Buffered(); at != m.end || !bytes.Equal(body, m.body) {
			return fmt.Errorf("net/http ends response %d at %d, the strict parser at %d", i, at, m.end)
		}
		if m.status >= 200 {
			nth++
		}
	}
	return nil
}

// methodOf returns the method of the nth request, or GET.
func methodOf(methods []string, nth int) string {
	if nth < len(methods) {
		return methods[nth]
	}
	return http.MethodGet
}
