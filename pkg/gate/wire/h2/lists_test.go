package h2

import (
	"bytes"

	"golang.org/x/net/http2/hpack"
)

type line struct{ name, value string }

var browserGet = []line{
	{":method", "GET"}, {":authority", "shop.example.com"}, {":scheme", "https"}, {":path", "/catalogue/shoes?page=3"},
	{"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Safari/537.36"},
	{"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"},
	{"accept-language", "en-GB,en;q=0.9"}, {"accept-encoding", "gzip, deflate, br, zstd"},
	{"referer", "https://shop.example.com/catalogue"}, {"cookie", "session=0123456789abcdef0123456789abcdef"},
	{"sec-fetch-mode", "navigate"}, {"upgrade-insecure-requests", "1"},
}

var grpcRequest = []line{
	{":method", "POST"}, {":scheme", "http"}, {":path", "/helloworld.Greeter/SayHello"}, {":authority", "greeter.default.svc"},
	{"content-type", "application/grpc"}, {"user-agent", "grpc-go/1.73.0"}, {"te", "trailers"}, {"grpc-timeout", "4999m"},
}

var grpcResponse = []line{{":status", "200"}, {"content-type", "application/grpc"}}

var grpcTrailers = []line{{"grpc-status", "0"}, {"grpc-message", ""}}

var smallGet = []line{
	{":method", "GET"}, {":path", "/"}, {":scheme", "http"}, {":authority", "127.0.0.1:8012"},
	{"user-agent", "h2load nghttp2/1.64.0"},
}

var smallResponse = []line{
	{":status", "200"}, {"content-type", "text/plain; charset=utf-8"}, {"content-length", "12"},
	{"date", "Tue, 29 Jul 2025 10:00:00 GMT"}, {"server", "demo"},
}

var benchLists = []struct {
	name  string
	lines []line
}{
	{"browser", browserGet}, {"grpc request", grpcRequest}, {"grpc response", grpcResponse}, {"grpc trailers", grpcTrailers},
	{"small request", smallGet}, {"small response", smallResponse},
}

// blocks encodes lines with x/net, with an empty table and with a warm table.
func blocks(lines []line) (cold, warm []byte) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, l := range lines {
		enc.WriteField(hpack.HeaderField{Name: l.name, Value: l.value})
	}
	cold = bytes.Clone(b.Bytes())
	b.Reset()
	for _, l := range lines {
		enc.WriteField(hpack.HeaderField{Name: l.name, Value: l.value})
	}
	return cold, b.Bytes()
}
