package otlp

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ParseEndpoint parses an endpoint. An endpoint is a URL (http or https), or host:port
// with or without a path. The form host:port means https, as in Knative; if insecure is
// true, it means http. If the endpoint has no path or the path "/", the result has the
// path given by the parameter path.
func ParseEndpoint(endpoint, path string, insecure bool) (*url.URL, error) {
	text := endpoint
	if !strings.Contains(text, "://") {
		authority, _, _ := strings.Cut(text, "/")
		host, port, err := net.SplitHostPort(authority)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
			return nil, endpointError(endpoint)
		}
		if text = "https://" + text; insecure {
			text = "http" + strings.TrimPrefix(text, "https")
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, endpointError(endpoint)
	case u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, endpointError(u.Redacted())
	}
	if u.Path == "" || u.Path == "/" {
		u.Path, u.RawPath = path, ""
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func endpointError(shown string) error {
	return fmt.Errorf("endpoint %q: want a URL (http or https) or host:port", shown)
}
