package tracing

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit/leak"
	"github.com/queuegate/queuegate/pkg/gate"
)

func TestMain(m *testing.M) { leak.Main(m) }

// kept keeps exported spans.
type kept struct {
	mu      sync.Mutex
	batches [][]*SpanData
	closed  bool
}

func (k *kept) Export(_ context.Context, batch []*SpanData) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.batches = append(k.batches, batch)
	return 0, nil
}

func (k *kept) Close() { k.closed = true }

func (k *kept) spans() (all []*SpanData) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, batch := range k.batches {
		all = append(all, batch...)
	}
	return all
}

func (k *kept) sizes() (all []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, batch := range k.batches {
		all = append(all, len(batch))
	}
	return all
}

// tracerFor returns a tracer that is closed when the test ends.
func tracerFor(t testing.TB, c Config, e Exporter) *Tracer {
	tracer := newTracer(&c, e)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := tracer.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return tracer
}

func headers(pairs ...string) *gate.TraceFields {
	f := new(gate.TraceFields)
	for i := 0; i < len(pairs); i += 2 {
		f.Note([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	return f
}

const (
	idA  = "0af7651916cd43dd8448eb211c80319c"
	idB  = "463ac35c9f6413ad48485a3953bb6124"
	id64 = "48485a3953bb6124"
	spA  = "b7ad6b7169203331"
	spB  = "a2fb4a1d1a96d312"
)
