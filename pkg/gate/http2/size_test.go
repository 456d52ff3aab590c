package http2

import (
	"testing"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// A client may have 250 blocked streams on each connection, so the next size class would
// cost memory for each of them.
func TestAStreamFitsItsSizeClass(t *testing.T) {
	if n := unsafe.Sizeof(downStream{}) - unsafe.Sizeof(wire.BodyCheck{}); n > 1280-8 { // the allocator adds 8 bytes
		t.Errorf("%d bytes: the next size class is 1408", n)
	}
	if n := unsafe.Sizeof(upStream{}) - unsafe.Sizeof(wire.BodyCheck{}); n > 288 {
		t.Errorf("upstream: %d bytes: the next size class is 320", n)
	}
}

func TestAnIdleConnectionFitsItsSizeClass(t *testing.T) {
	if n := unsafe.Sizeof(downConn{}); n > 576 {
		t.Errorf("%d bytes: the next size class is 640", n)
	}
}
