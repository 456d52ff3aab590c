package http2

import (
	"testing"
	"unsafe"
)

func TestAnIdleConnectionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(conn{}); n > 576 {
		t.Errorf("%d octets: the next size that is allocated is 640", n)
	}
}
