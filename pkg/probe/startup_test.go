package probe

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

// TestRealStartUpsAreNoticedAndMeasured starts listeners after random times. It only
// logs how late they are noticed, because timing must not make a test fail.
func TestRealStartUpsAreNoticedAndMeasured(t *testing.T) {
	containers, longest := 40, 2*time.Second
	if testing.Short() {
		containers, longest = 10, 300*time.Millisecond
	}
	for kind, prober := range map[string]func(port int) check.Checker{"tcp": tcpAt, "http": httpAt} {
		t.Run(kind, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var (
				wg       sync.WaitGroup
				mu       sync.Mutex
				late     []time.Duration
				attempts uint64
				before   syscall.Rusage
			)
			syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			began := time.Now()
			for range containers {
				wait := time.Duration(50e6 * math.Exp(random.Float64()*math.Log(float64(longest)/50e6)))
				wg.Go(func() {
					d, n := startOne(t, prober, wait)
					mu.Lock()
					defer mu.Unlock()
					late = append(late, d)
					attempts += n
				})
			}
			wg.Wait()
			var after syscall.Rusage
			syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			slices.Sort(late)
			cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			t.Logf("%d start-ups in %v: listen to ready median %v, p95 %v, longest %v; %d attempts and %v of CPU each",
				containers, time.Since(began).Round(time.Millisecond), late[len(late)/2], late[len(late)*95/100], late[len(late)-1],
				attempts/uint64(containers), cpu/time.Duration(containers))
		})
	}
}

// startOne starts a container that begins to listen after the duration wait. The first
// result is the time from then until a waiting prober learns that the container is ready.
// The second result is the number of checks.
func startOne(t *testing.T, prober func(port int) check.Checker, wait time.Duration) (late time.Duration, attempts uint64) {
	port := checktest.RefusingPort(t)
	s := Spec{Container: "app", Checker: prober(port), Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1}
	r := New(Options{Specs: []Spec{s}, Wait: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	var listened atomic.Int64
	server := &http.Server{Handler: checktest.Status(200), ErrorLog: checktest.QuietLog}
	go func() {
		time.Sleep(wait)
		listened.Store(time.Now().UnixNano())
		l, err := checktest.ListenReusing(port)
		if err != nil {
			t.Error(err)
			cancel()
			return
		}
		server.Serve(l)
	}()
	result := r.Wait(ctx, gate.AnyProber)
	late = time.Duration(time.Now().UnixNano() - listened.Load())
	if !result.Ready {
		t.Errorf("not ready after a start-up of %v: %s", wait, result.Reason)
	}
	attempts = r.Snapshot()[0].Attempts
	cancel()
	<-done
	server.Close()
	return late, attempts
}
