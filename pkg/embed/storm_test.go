package embed

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/internal/testkit"
)

// storm is a handler that ends requests in every possible way. It counts them
// independently of the gate.
type storm struct {
	now, most, seen atomic.Int64
}

func (s *storm) enter() {
	s.seen.Inc()
	now := s.now.Inc()
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
}

func (s *storm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.enter()
	hijacked := false
	defer func() {
		if !hijacked {
			s.now.Dec()
		}
	}()
	switch r.URL.Path {
	case "/panic":
		panic("a bug")
	case "/abort":
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	case "/wait":
		<-r.Context().Done()
	case "/hijack":
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return // HTTP/2
		}
		hijacked = true
		go func() {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhijacked")
			// Count the request as ended before Close releases the slot. Otherwise the
			// next request could enter first, and the count would exceed the limit.
			s.now.Dec()
			_ = c.Close()
		}()
	default:
		_, _ = io.Copy(w, r.Body)
	}
}

func storming(t *testing.T, client *http.Client, target string, patient time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", target, strings.NewReader("body"))
	if err != nil {
		t.Error(err)
		return
	}
	if res, err := client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body) // some responses are truncated
		_ = res.Body.Close()
	}
}

func TestManyRequestsLeaveNoSlotInUse(t *testing.T) {
	const limit, clients, requests = 4, 16, 100
	s := new(storm)
	g, err := New(Config{ConcurrencyLimit: limit, QueueCapacity: 10, QueueMaxWait: 4 * time.Millisecond, RequestTimeout: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/", "/", "/panic", "/abort", "/wait", "/hijack"}
	arrived := new(atomic.Int64)
	h := g.Handler(s)
	r := serve(t, "HTTP/1.1", g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Inc()
		h.ServeHTTP(w, r)
	}))
	over2 := newClient(t, "HTTP/2.0")
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			client := r.client
			if i%2 == 0 {
				client = over2
			}
			for range requests {
				patient := testkit.Timeout
				if rand.IntN(4) == 0 {
					patient = time.Duration(rand.IntN(8000)) * time.Microsecond
				}
				storming(t, client, "http://"+r.addr+paths[rand.IntN(len(paths))], patient)
			}
		})
	}
	all.Wait()
	// Some clients have disconnected before the server has read their requests. Shutdown
	// waits until the server has handled these requests too.
	if err := r.srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	until(t, "all counts at zero", func() bool {
		underWay, _ := g.state().Counting.InFlight()
		return g.InFlight() == 0 && g.QueueDepth() == 0 && underWay == 0 && s.now.Load() == 0
	})
	if most := s.most.Load(); most > limit || most == 0 {
		t.Errorf("%d in the handler at once, limit %d", most, limit)
	}
	if err := g.Drain(t.Context()); err != nil {
		t.Error(err)
	}

	text, sum := page(g.Metrics()), 0.0
	for _, outcome := range []string{
		"served", "tunnelled", "queue-full", "queue-wait-expired", "request-timeout", "client-gone", "internal-error", "upstream-broke-off",
	} {
		var n float64
		value := cmp.Or(sample(text, fmt.Sprintf("queuegate_request_outcomes_total{outcome=%q}", outcome)), "0")
		if _, err := fmt.Sscan(value, &n); err != nil {
			t.Errorf("outcome %s: %q", outcome, value)
		}
		t.Log(outcome, n)
		sum += n
	}
	if int64(sum) != arrived.Load() {
		t.Errorf("%v outcomes of %d requests", sum, arrived.Load())
	}
	if seen := s.seen.Load(); seen == 0 || seen >= arrived.Load() {
		t.Errorf("%d of %d requests reached the handler: no storm", seen, arrived.Load())
	}
}
