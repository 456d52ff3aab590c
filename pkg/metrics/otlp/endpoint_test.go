package otlp

import (
	"strings"
	"testing"
)

func TestAnEndpointIsAURLOrHostAndPort(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		insecure bool
		want     string
	}{
		{"http://collector:4318", false, "http://collector:4318/v1/traces"},
		{"http://collector:4318/", false, "http://collector:4318/v1/traces"},
		{"https://collector/v1/traces", false, "https://collector/v1/traces"},
		{"http://collector/other/path?key=1", false, "http://collector/other/path?key=1"},
		{"http://collector?key=1#part", false, "http://collector/v1/traces?key=1"},
		{"HTTP://collector", false, "http://collector/v1/traces"},
		{"http://[::1]:4318", false, "http://[::1]:4318/v1/traces"},
		{"collector:4317", false, "https://collector:4317/v1/traces"},
		{"collector:4317", true, "http://collector:4317/v1/traces"},
		{"10.0.0.1:4317", true, "http://10.0.0.1:4317/v1/traces"},
		{"[::1]:4317", false, "https://[::1]:4317/v1/traces"},
		{"collector:4318/other/path", false, "https://collector:4318/other/path"},
		{"collector:4318/", true, "http://collector:4318/v1/traces"},
		{"http://collector:4317", true, "http://collector:4317/v1/traces"},
		{"https://collector:4317", true, "https://collector:4317/v1/traces"},
	} {
		u, err := ParseEndpoint(c.endpoint, "/v1/traces", c.insecure)
		if err != nil {
			t.Errorf("%s: %v", c.endpoint, err)
		} else if u.String() != c.want {
			t.Errorf("%s, insecure %v: %s, want %s", c.endpoint, c.insecure, u, c.want)
		}
	}
}

func TestAnInvalidEndpointIsShownWithoutItsPassword(t *testing.T) {
	for _, endpoint := range []string{
		"", "collector", ":4317", "collector:", "collector:0", "collector:65536", "collector:x", "collector/path", "collector:x/path", "/v1/traces",
		"ftp://collector", "http://", "http://:80", "http://a b", "grpc://user:secret@collector",
	} {
		u, err := ParseEndpoint(endpoint, "/v1/traces", false)
		if err == nil {
			t.Errorf("%q: taken as %s", endpoint, u)
		} else if !strings.Contains(err.Error(), "want a URL") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
