package wire

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

func decodedSize(t *testing.T, block []byte) (n int) {
	t.Helper()
	fields, err := hpack.NewDecoder(4096, nil).DecodeFull(block)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		n += int(f.Size())
	}
	return n
}

func TestTheHeaderListLimitAppliesToTheForwardedHeaders(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	peer, host := netip.MustParseAddr("2001:db8::1"), []byte("default.example")
	for range 2000 {
		var head strings.Builder
		fmt.Fprintf(&head, "GET /%s HTTP/1.1\r\nHost: h\r\n", strings.Repeat("p", rng.IntN(50)))
		for range rng.IntN(20) {
			switch rng.IntN(6) {
			case 0:
				fmt.Fprintf(&head, "X-Forwarded-For: %s\r\n", strings.TrimSuffix(strings.Repeat(`",`, rng.IntN(40)), ","))
			case 1:
				fmt.Fprintf(&head, "X-Forwarded-Host: %s\r\n", strings.Repeat(`"`, rng.IntN(100)))
			case 2:
				head.WriteString("TE: trailers\r\nConnection: TE\r\n")
			case 3:
				head.WriteString("b3: 0\r\n")
			default:
				fmt.Fprintf(&head, "%s: %s\r\n", strings.Repeat("n", 1+rng.IntN(20)), strings.Repeat("v", rng.IntN(300)))
			}
		}
		head.WriteString("\r\n")
		var r Request
		if _, err := r.Scan([]byte(head.String())); err != nil {
			t.Fatal(err)
		}
		if err := r.Parse(); err != nil {
			continue
		}
		if rng.IntN(3) == 0 {
			r.ReplaceTrace([]byte("traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nb3: 0\r\n"))
		}
		var e h2.Encoder
		size := decodedSize(t, r.AppendHTTP2(nil, &e, peer, host, "http"))
		for _, limit := range []int{0, 1000, size - 1, size, size + 1, 2 * size, 8 * size, 64 << 10} {
			if got := r.FitsList(limit, peer, host, "http"); got != (size <= limit) {
				t.Fatalf("a list of %d bytes fits in %d: %v\n%q", size, limit, got, head.String())
			}
		}
	}
}

func TestTheHeaderListLimitAppliesToTheForwardedTrailers(t *testing.T) {
	for _, lines := range []string{"", "a: b\r\n", "X-Sum:   spaced   \r\nb:\r\n", strings.Repeat("n: v\r\n", 100)} {
		var e h2.Encoder
		size := decodedSize(t, AppendLines(nil, &e, []byte(lines)))
		for _, limit := range []int{size - 1, size, size + 1, 10 * size} {
			if got := TrailersFit([]byte(lines), limit); got != (size <= limit) {
				t.Errorf("%q: a list of %d bytes fits in %d: %v", lines, size, limit, got)
			}
		}
	}
}
