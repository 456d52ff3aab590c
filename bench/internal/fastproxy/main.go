// Fastproxy is a minimal reverse proxy with fasthttp, without admission, probes, metrics
// or draining. It shows the cost of the library alone.
//
//	fastproxy PORT UPSTREAM_PORT
package main

import (
	"log"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: fastproxy PORT UPSTREAM_PORT")
	}
	log.Fatal(newServer(os.Args[2]).ListenAndServe(":" + os.Args[1]))
}

// perHop are the hop-by-hop fields, which are not forwarded.
var perHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func newServer(upstreamPort string) *fasthttp.Server {
	client := &fasthttp.HostClient{
		Addr: "127.0.0.1:" + upstreamPort, MaxConns: 1 << 16, MaxIdleConnDuration: time.Minute,
		StreamResponseBody: true, NoDefaultUserAgentHeader: true, DisablePathNormalizing: true,
	}
	forward := func(ctx *fasthttp.RequestCtx) {
		for _, name := range perHop {
			ctx.Request.Header.Del(name)
		}
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error("upstream failed", fasthttp.StatusBadGateway)
			return
		}
		for _, name := range perHop {
			ctx.Response.Header.Del(name)
		}
	}
	return &fasthttp.Server{
		Handler: forward, StreamRequestBody: true, NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true,
		MaxRequestBodySize: 1 << 40, Concurrency: 1 << 20,
	}
}
