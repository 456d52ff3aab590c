package embed

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
)

func TestADrainEndsAfterRequestsInFlightAndQueuedAreServed(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		s := newStage()
		r := newRig(t, protocol, Config{ConcurrencyLimit: 1, QueueCapacity: 1}, s.handle)
		before := r.begin("/")
		testkit.Receive(t, "the first one", s.entered)
		drained := make(chan error, 2)
		for range 2 {
			go func() { drained <- r.gate.Drain(context.Background()) }()
		}
		testkit.Receive(t, "the drain", r.gate.Draining())
		during := r.begin("/")
		until(t, "one in the queue", func() bool { return r.gate.QueueDepth() == 1 })
		probe := r.do("GET", "/", "", "K-Network-Probe", "queue")
		probe.want(t, 503, "shutting down\n", "shutting-down")
		if protocol == "HTTP/1.1" && !probe.Close {
			t.Error("a probe's connection stays open")
		}
		if len(drained) > 0 {
			t.Error("the drain ended before its requests")
		}
		s.leave <- struct{}{}
		testkit.Receive(t, "the one in the queue", s.entered)
		s.leave <- struct{}{}
		for _, c := range []<-chan answer{before, during} {
			a := testkit.Receive(t, "answer", c)
			if a.err != nil || a.body != "done" || protocol == "HTTP/1.1" && !a.Close {
				t.Errorf("answer %+v", a)
			}
		}
		for range 2 {
			if err := testkit.Receive(t, "the end of the drain", drained); err != nil {
				t.Error(err)
			}
		}
		if err := r.srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestADrainEndsConnectionsOverHTTP2ByGOAWAY(t *testing.T) {
	r := newRig(t, "HTTP/2.0", Config{}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
	kept := r.do("GET", "/", "")
	if again := r.do("GET", "/", ""); again.body != kept.body {
		t.Fatalf("connections %s and %s before the drain", kept.body, again.body)
	}
	_ = r.gate.Drain(ended(t))
	if last := r.do("GET", "/", ""); last.Header.Get("Connection") != "" {
		t.Errorf("fields %v", last.Header)
	}
	until(t, "another connection", func() bool { a := r.do("GET", "/", ""); return a.body != kept.body })
}

func TestADrainWaitsForTheQuietPeriodAndForOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Config{DrainQuiet: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		request := func(takes time.Duration) {
			h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(takes) }))
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}
		go request(time.Minute) // begins before the drain
		time.Sleep(time.Second)
		begun := time.Now()
		go func() {
			for range 10 { // at intervals of 6 s, so the tenth request arrives after 54 s
				request(0)
				time.Sleep(6 * time.Second)
			}
		}()
		synctest.Wait()
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 64*time.Second {
			t.Errorf("over after %s, want the 10 s after the last arrival", took)
		}

		go request(time.Minute)
		synctest.Wait()
		begun = time.Now()
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("over after %s, want the minute that the last request takes", took)
		}
	})
}

func TestADrainOfAnIdleGateTakesTheQuietPeriod(t *testing.T) {
	for _, quiet := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g, err := New(Config{DrainQuiet: quiet})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			begun := time.Now()
			if err := g.Drain(t.Context()); err != nil || time.Since(begun) != quiet {
				t.Errorf("%v after %s, want nil after %s", err, time.Since(begun), quiet)
			}
		})
	}
}
