package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

func TestWaitForDrainCallsLeaveConnectionsForProbes(t *testing.T) {
	if mostWaiters > maxSideConns/2 {
		t.Errorf("%d of %d connections may wait", mostWaiters, maxSideConns)
	}
	a := &adminServer{drain: new(exchange.Drain)} // never begins
	ctx, cancel := context.WithCancel(t.Context())
	statuses := make(chan int, 2*mostWaiters)
	var all sync.WaitGroup
	for range 2 * mostWaiters {
		all.Go(func() {
			w := httptest.NewRecorder()
			a.handle(w, httptest.NewRequestWithContext(ctx, "GET", "/wait-for-drain?begins-within=1m", nil))
			statuses <- w.Code
		})
	}
	for range mostWaiters {
		if status := <-statuses; status != http.StatusServiceUnavailable {
			t.Errorf("a call beyond the maximum of waiting calls got %d", status)
		}
	}
	cancel()
	all.Wait()
	if n := a.waiters.Load(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}
