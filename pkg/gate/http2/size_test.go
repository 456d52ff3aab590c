package http2

import (
	"testing"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// A client may block 250 streams on each of its connections. If the struct outgrew its
// size class of Go's allocator, each of these streams would use the memory of the next
// larger class.
func TestAStreamFitsItsSizeClass(t *testing.T) {
	if n := unsafe.Sizeof(downStream{}) - unsafe.Sizeof(wire.BodyCheck{}); n > 1280-8 { // 1280 includes 8 bytes that the allocator adds
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
