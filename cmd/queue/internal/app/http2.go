package app

import (
	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/http2"
)

// upstreamProtocols are the values of UPSTREAM_PROTOCOL.
var upstreamProtocols = map[string]http2.Protocol{"auto": http2.Auto, "http1": http2.HTTP1, "h2c": http2.H2C}

func newHTTP2(cfg *config.Config, g *gate.Gate, c http2.Config) (*http2.Server, error) {
	c.Protocol = upstreamProtocols[cfg.UpstreamProtocol]
	return http2.NewServer(g, c)
}
