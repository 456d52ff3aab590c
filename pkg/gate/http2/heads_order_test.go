package http2

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

func TestQueuedInterimHeadsKeepTheirOrder(t *testing.T) {
	s := &upStream{conn: &upConn{pool: &Pool{}}, req: &wire.Request{Method: []byte("GET")}}
	s.x = &exchange.Exchange{}
	s.x.Bind(nil, nil, func() {}, nil)
	receive := func(status string) {
		t.Helper()
		var b bytes.Buffer
		_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: status})
		var h h2.Head
		dec := h2.Decoder{}
		if err := dec.Decode(b.Bytes(), &h); err != nil {
			t.Fatal(err)
		}
		if err := s.receiveHead(&h, false); err != nil {
			t.Fatal(err)
		}
	}
	want := func(status int) {
		t.Helper()
		if state, _ := s.Receive(); state == exchange.HeadAwaited || s.Status() != status {
			t.Errorf("state %d, status %d, want %d", state, s.Status(), status)
		}
	}
	receive("103")
	receive("102")
	want(103)
	receive("200") // the head with 102 is still queued
	want(102)
	want(200)
}
