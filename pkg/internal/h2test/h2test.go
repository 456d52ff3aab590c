// Package h2test makes net/http's test servers use the HTTP/2 server of
// golang.org/x/net, because builds with the tag nethttpomithttp2 lack net/http's own.
// Only tests import it.
package h2test

import (
	"net/http"
	"net/http/httptest"

	"golang.org/x/net/http2"
)

// Start starts s without TLS. The server accepts HTTP/2 with prior knowledge. If the
// parameter withHTTP1 is true, the server also accepts HTTP/1.
func Start(s *httptest.Server, withHTTP1 bool) {
	configure(s)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.Protocols.SetHTTP1(withHTTP1)
	s.Start()
}

// StartTLS starts s with HTTP/2 over TLS.
func StartTLS(s *httptest.Server) {
	configure(s)
	s.TLS = s.Config.TLSConfig
	s.EnableHTTP2 = true
	s.StartTLS()
}

func configure(s *httptest.Server) {
	//lint:ignore SA1019 Server.Protocols needs net/http's HTTP/2, which a build may omit
	if err := http2.ConfigureServer(s.Config, nil); err != nil {
		panic(err)
	}
}
