package enginemetrics

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// fakePages is a source whose page the test sets.
type fakePages struct {
	mu    sync.Mutex
	page  Page
	err   error
	takes time.Duration // duration of one fetch
	count int
}

func (f *fakePages) set(page Page, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page.HasWaiting, page.HasKV = true, true
	f.page, f.err = page, err
}

func (f *fakePages) get(ctx context.Context, deadline time.Time) (Page, error) {
	f.mu.Lock()
	page, err, takes := f.page, f.err, f.takes
	f.count++
	f.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-time.After(time.Until(deadline)):
		return Page{}, context.DeadlineExceeded
	case <-ctx.Done():
		return Page{}, ctx.Err()
	}
	return page, err
}

func (f *fakePages) close() {}

func (f *fakePages) fetched() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// bench is a Poller with an admission controller.
type bench struct {
	*Poller
	t     *testing.T
	pages *fakePages
	a     *admission.Controller
	said  []error
}

func run(t *testing.T, l Limits, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, pages: &fakePages{takes: time.Millisecond}, a: admission.New(admission.Config{Capacity: 1000, Brake: true})}
		b.pages.set(Page{}, nil)
		b.Poller = newPoller(Config{Period: 10 * time.Millisecond, Limits: l, Admission: b.a, Silent: func(err error) { b.said = append(b.said, err) }}, b.pages)
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { b.Run(ctx) })
		synctest.Wait()
		test(b)
		stop()
		ended.Wait()
	})
}

// arrive sends n requests and returns them.
func (b *bench) arrive(n int) (all []*admission.Ticket) {
	for range n {
		x := &admission.Ticket{Waiter: admission.Waiter{Notify: func() {}}}
		if x.Acquire(b.a) == admission.Rejected {
			b.t.Fatal("rejected")
		}
		all = append(all, x)
	}
	return all
}

// end ends all requests.
func (b *bench) end(all []*admission.Ticket) {
	for _, x := range all {
		x.Granted()
		x.Release(b.a)
	}
}

func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestEachPageAdmitsOnlyAFewRequestsOfABurst(t *testing.T) {
	run(t, Limits{MaxWaiting: 1, MaxKV: 0.9}, func(b *bench) {
		all := b.arrive(100)
		if n := b.a.InFlight(); n != 1 {
			t.Fatalf("%d requests were admitted without a page, want 1", n)
		}
		for range 20 {
			before, pages := b.a.InFlight(), b.pages.fetched()
			b.pass(10 * time.Millisecond)
			if got, most := b.a.InFlight()-before, 2*(b.pages.fetched()-pages+1); got > most {
				t.Fatalf("%d requests were admitted, want at most %d: two for each page", got, most)
			}
		}
		if n := b.a.InFlight(); n < 30 {
			t.Errorf("%d requests in flight, although each page shows an empty queue", n)
		}
		b.end(all)
	})
}

func TestRequestsWaitWhileTheEngineHasAQueue(t *testing.T) {
	run(t, Limits{MaxWaiting: 0, MaxKV: 0.9}, func(b *bench) {
		b.pages.set(Page{Waiting: 5}, nil)
		first := b.arrive(1)
		waiting := b.arrive(20)
		b.pass(time.Second)
		if n := b.a.InFlight(); n != 1 {
			t.Fatalf("%d in flight, want 1", n)
		}
		if b.FullFor() < 900*time.Millisecond {
			t.Errorf("full for %v, want about 1s", b.FullFor())
		}
		b.pages.set(Page{}, nil)
		b.pass(30 * time.Millisecond)
		if n := b.a.InFlight(); n < 2 || n > 5 {
			t.Errorf("%d in flight after about 3 pages with room, want 2 to 5", n)
		}
		if b.FullFor() != 0 {
			t.Errorf("full for %v, want not full", b.FullFor())
		}
		b.end(first)
		b.end(waiting)
	})
}

func TestAFullKVCacheStopsAdmissionButNeverTheOnlyRequest(t *testing.T) {
	run(t, Limits{MaxWaiting: 10, MaxKV: 0.9}, func(b *bench) {
		b.pages.set(Page{KV: 0.95}, nil)
		all := b.arrive(5)
		for i := range all {
			b.pass(50 * time.Millisecond)
			if n := b.a.InFlight(); n != 1 {
				t.Fatalf("request %d: %d in flight, want 1", i, n)
			}
			b.end(all[i : i+1])
		}
	})
}

func TestAnIdlePollerFetchesNothing(t *testing.T) {
	run(t, Limits{MaxKV: 0.9}, func(b *bench) {
		b.pass(time.Hour)
		if n := b.pages.fetched(); n != 0 {
			t.Fatalf("%d pages without a request", n)
		}
		all := b.arrive(1)
		b.pass(100 * time.Millisecond)
		if n := b.pages.fetched(); n < 8 || n > 12 {
			t.Errorf("%d pages in 100ms, want about 10", n)
		}
		b.pages.set(Page{Waiting: 3, KV: 0.5}, nil) // an idle server may show such a page for ever
		b.end(all)
		b.pass(50 * time.Millisecond)
		if s := b.Stats(); s.Waiting != 0 || s.KV != 0 {
			t.Errorf("%+v without a request, want no queue and an empty KV cache", s)
		}
		n := b.pages.fetched()
		b.pass(time.Hour)
		if again := b.pages.fetched(); again != n {
			t.Errorf("%d pages after the last request", again-n)
		}
	})
}

func TestEngineLimitsAreLiftedAfterASecondWithoutAValidPage(t *testing.T) {
	run(t, Limits{MaxKV: 0.9}, func(b *bench) {
		broken := errors.New("refused")
		b.pages.set(Page{}, broken)
		all := b.arrive(50)
		b.pass(900 * time.Millisecond)
		if n := b.a.InFlight(); n != 1 || b.Silent() {
			t.Fatalf("%d in flight, silent %v after 0.9s, want 1 and not silent", n, b.Silent())
		}
		b.pass(200 * time.Millisecond)
		if n := b.a.InFlight(); n != 50 || !b.Stats().Silent || len(b.said) != 1 || !errors.Is(b.said[0], broken) {
			t.Fatalf("%d in flight, %+v, said %v after 1.1s, want all 50 and one message", n, b.Stats(), b.said)
		}
		all = append(all, b.arrive(5)...)
		b.pass(5 * time.Second)
		if n := b.a.InFlight(); n != 55 || len(b.said) != 1 {
			t.Fatalf("%d in flight, said %v", n, b.said)
		}
		b.pages.set(Page{Waiting: 40}, nil)
		b.pass(time.Second)
		if b.Silent() || len(b.said) != 2 || b.said[1] != nil {
			t.Fatalf("silent %v, said %v after the page recovered", b.Silent(), b.said)
		}
		late := b.arrive(1)
		b.pass(time.Second)
		if n := b.a.InFlight(); n != 55 {
			t.Errorf("%d in flight, want 55: the engine has a queue", n)
		}
		b.end(all)
		b.end(late)
	})
}

func TestWhileThePageIsInvalidTheNumberOfRequestsInFlightIsKept(t *testing.T) {
	run(t, Limits{MaxKV: 0.9}, func(b *bench) {
		all := b.arrive(30)
		for b.a.InFlight() < 5 {
			b.pass(time.Millisecond)
		}
		b.pages.set(Page{}, errors.New("status 503"))
		b.pass(100 * time.Millisecond)
		kept := b.a.InFlight()
		b.end(all[:3])
		b.pass(100 * time.Millisecond)
		if n := b.a.InFlight(); kept < 5 || kept > 6 || n != kept {
			t.Errorf("%d in flight after the first invalid pages, want 5 or 6; %d after three of them have ended while others are queued, want the same number", kept, n)
		}
		b.end(all[3:])
	})
}

func TestAllRequestsAreAdmittedOnceAPageHasHungForASecond(t *testing.T) {
	run(t, Limits{MaxKV: 0.9}, func(b *bench) {
		b.pages.takes = time.Hour
		all := b.arrive(10)
		b.pass(1100 * time.Millisecond)
		if n := b.a.InFlight(); n != 10 {
			t.Errorf("%d in flight, want all 10", n)
		}
		b.end(all)
	})
}

func TestASlowPageTakesAtMostHalfOfTheTime(t *testing.T) {
	run(t, Limits{MaxKV: 0.9}, func(b *bench) {
		b.pages.takes = 100 * time.Millisecond
		all := b.arrive(1)
		b.pass(2 * time.Second)
		if n := b.pages.fetched(); n > 11 {
			t.Errorf("%d pages of 100ms in 2s", n)
		}
		b.end(all)
	})
}

func TestAPageThatTakesLessThanASecondIsNeverInvalid(t *testing.T) {
	run(t, Limits{MaxKV: 0.9}, func(b *bench) {
		b.pages.set(Page{Waiting: 1}, nil)
		b.pages.takes = 900 * time.Millisecond
		all := b.arrive(50)
		b.pass(20 * time.Second)
		if n := b.a.InFlight(); n != 1 || len(b.said) != 0 {
			t.Errorf("%d in flight, said %v; want 1, because the engine has a queue", n, b.said)
		}
		b.end(all)
	})
}

func TestNewLimitsApplyFromTheNextMetricsPage(t *testing.T) {
	run(t, Limits{MaxWaiting: 0, MaxKV: 0.9}, func(b *bench) {
		b.pages.set(Page{Waiting: 5}, nil)
		all := b.arrive(10)
		b.pass(100 * time.Millisecond)
		b.SetLimits(Limits{MaxWaiting: 100, MaxKV: 0.9})
		b.pass(100 * time.Millisecond)
		if n := b.a.InFlight(); n != 10 {
			t.Errorf("%d in flight, want all", n)
		}
		b.end(all)
	})
}

func TestAnUnfinishedUploadDoesNotCountTowardsTheEngineLimits(t *testing.T) {
	run(t, Limits{MaxWaiting: 0, MaxKV: 0.9}, func(b *bench) {
		b.cfg.Uploads = func() int { return 1 }
		b.pages.set(Page{HasRunning: true}, nil)
		upload := b.arrive(1)
		b.pass(30 * time.Millisecond)
		other := b.arrive(1)
		b.pass(30 * time.Millisecond)
		if n := b.a.InFlight(); n != 2 {
			t.Errorf("%d requests in flight, want the upload and the other request", n)
		}
		b.end(append(upload, other...))
	})
}

func TestWithoutAValidPageEngineLimitsEndEvenIfRequestsComeInShortBursts(t *testing.T) {
	run(t, Limits{MaxKV: 0.9}, func(b *bench) {
		b.pages.set(Page{}, errors.New("no page"))
		for range 8 { // bursts of 300 ms, with pauses
			var w admission.Waiter
			if b.a.Acquire(&w) != admission.Admitted {
				b.t.Fatal("the first request of a burst waits")
			}
			time.Sleep(300 * time.Millisecond)
			b.a.Release()
			time.Sleep(200 * time.Millisecond)
		}
		if !b.Silent() {
			b.t.Error("4 s without a valid page: the brake is still on")
		}
	})
}
