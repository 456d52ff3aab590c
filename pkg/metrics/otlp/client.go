package otlp

import (
	"net"
	"net/http"
	"time"
)

// idleTimeout is how long an idle connection is kept.
const idleTimeout = 90 * time.Second

// maxResponse is the maximum number of bytes read from a response.
const maxResponse = 64 << 10

const userAgent = "queuegate"

func newTransport() *http.Transport {
	dialer := net.Dialer{Timeout: RequestTimeout}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: RequestTimeout,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
		Protocols:           protocols,
	}
}

func authorize(r *http.Request) {
	if u := r.URL.User; u != nil {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
}
