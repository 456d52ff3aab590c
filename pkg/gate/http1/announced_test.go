package http1

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/wire"
)

func TestAConnectionIsReusedOnlyIfTheBodyMatchesItsHead(t *testing.T) {
	for _, c := range []struct {
		name     string
		body     wire.BodyKind
		length   int64
		content  int64
		finished bool
		want     bool
	}{
		{"no body", wire.NoBody, 0, 0, true, true},
		{"content that was not announced", wire.NoBody, 0, 1, true, false},
		{"a body with a length", wire.BodyLength, 5, 5, true, true},
		{"a body shorter than its length", wire.BodyLength, 5, 4, true, false},
		{"a length without a body", wire.BodyLength, 5, 0, true, false},
		{"a body longer than its length", wire.BodyLength, 5, 6, true, false},
		{"chunks", wire.BodyChunked, 0, 9, true, true},
		{"chunks without the last chunk", wire.BodyChunked, 0, 9, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &writer{content: c.content, finished: c.finished}
			if got := sentAsAnnounced(w, &wire.Request{Body: c.body, Length: c.length}); got != c.want {
				t.Errorf("sent as announced: %v", got)
			}
		})
	}
}
