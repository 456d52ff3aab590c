package http2

import (
	"testing"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// TestAStreamIsSmall: clients may have 250 for each connection, and leave them
// hanging.
func TestAStreamIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(downStream{}) - unsafe.Sizeof(wire.BodyCheck{}); n > 1280-8 { // the allocator adds 8 bytes
		t.Errorf("%d octets: the next size that is allocated is 1408", n)
	}
	if n := unsafe.Sizeof(upStream{}) - unsafe.Sizeof(wire.BodyCheck{}); n > 288 {
		t.Errorf("towards the container %d octets: the next size that is allocated is 320", n)
	}
}

func TestAnIdleConnectionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(downConn{}); n > 576 {
		t.Errorf("%d octets: the next size that is allocated is 640", n)
	}
}
