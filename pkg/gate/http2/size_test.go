package http2

import (
	"testing"
	"unsafe"
)

// TestAStreamIsSmall: clients may have 250 for each connection, and leave them
// hanging.
func TestAStreamIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(stream{}); n > 1280-8 { // the runtime adds 8
		t.Errorf("%d octets: the next size that is allocated is 1408", n)
	}
	if n := unsafe.Sizeof(upStream{}); n > 288 {
		t.Errorf("towards the container %d octets: the next size that is allocated is 320", n)
	}
}

func TestAnIdleConnectionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(conn{}); n > 576 {
		t.Errorf("%d octets: the next size that is allocated is 640", n)
	}
}
