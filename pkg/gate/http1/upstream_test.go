package http1

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// held waits until so many requests wait for the container to listen.
func (r *engineRig) held(n int64) {
	r.t.Helper()
	engineUntil(r.t, fmt.Sprintf("%d held requests", n), func() bool { return r.server.held.Load() == n })
}

func TestHeldRequestsGoOutInOrderOnceTheContainerListens(t *testing.T) {
	for _, limit := range []int{0, 40} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			var mu sync.Mutex
			var order []string
			r := engineServe(t, gate.Config{ConcurrencyLimit: limit, QueueCapacity: 100, UpstreamWait: time.Hour}, engineOptions{silent: true}, func(c *engineCall) bool {
				return c.answer(c.target)
			})
			// The order of the connections is the order of their local ports' first
			// use, which Accept preserves.
			r.container.serve = func(c *engineCall) bool {
				mu.Lock()
				order = append(order, c.target)
				mu.Unlock()
				return c.answer(c.target)
			}
			const requests = 30
			var clients []*engineClient
			for i := range requests {
				clients = append(clients, r.client().get(fmt.Sprintf("/%d", i)))
				r.held(int64(i + 1))
			}
			released := r.observeConnects()
			r.listen()
			for i, c := range clients {
				c.want(200, fmt.Sprintf("/%d", i))
			}
			var want []string
			for i := range requests {
				want = append(want, fmt.Sprintf("/%d", i))
			}
			if got := released(); !slices.Equal(got, want) {
				t.Errorf("requests were released in the order %v", got)
			}
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(order); len(slices.Compact(order)) != requests {
				t.Errorf("%d different requests at the container, want %d", len(order), requests)
			}
			r.held(0)
		})
	}
}
