package wire

import (
	"net/netip"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
	"golang.org/x/net/http2/hpack"
)

func TestANonASCIITargetIsPercentEncodedOverHTTP2(t *testing.T) {
	for target, want := range map[string]string{
		"/plain?a=%C3": "/plain?a=%C3", "/\xc3\xa9": "/%C3%A9", "/x?\xff&y": "/x?%FF&y", "/\x80\x7e": "/%80~",
	} {
		r := usedRequest()
		if v, _ := read(r, "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n", nil); v != accepted {
			t.Fatalf("%q: %v", target, v)
		}
		var got string
		decoder := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
			if f.Name == ":path" {
				got = f.Value
			}
		})
		if _, err := decoder.Write(r.AppendHTTP2(nil, new(h2.Encoder), netip.MustParseAddr("192.0.2.1"), []byte(fallbackHost), "http")); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%q: :path %q, want %q", target, got, want)
		}
	}
}
