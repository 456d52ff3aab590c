package statuspage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// viewer is the client of a stream. It receives the events on a channel.
type viewer struct {
	header http.Header
	status int
	broken atomic.Bool // the viewer's connection accepts no more bytes
	events chan []byte
	leave  context.CancelFunc
	gone   chan struct{} // closed when the stream has ended
}

func (v *viewer) Header() http.Header                 { return v.header }
func (v *viewer) WriteHeader(status int)              { v.status = status }
func (v *viewer) Flush()                              {}
func (v *viewer) SetWriteDeadline(at time.Time) error { return nil }

func (v *viewer) Write(b []byte) (int, error) {
	if v.broken.Load() {
		return 0, errors.New("broken")
	}
	v.events <- bytes.Clone(b)
	return len(b), nil
}

// view connects a viewer to a page. The parameter room is the number of events that the
// viewer can buffer before the page has to wait.
func view(p *Page, room int) *viewer {
	ctx, leave := context.WithCancel(context.Background())
	v := &viewer{header: http.Header{}, events: make(chan []byte, room), leave: leave, gone: make(chan struct{})}
	r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/events", nil)
	go func() {
		defer close(v.gone)
		p.ServeHTTP(v, r)
	}()
	return v
}

// take returns the next event.
func (v *viewer) take(t *testing.T) (m message, text string) {
	t.Helper()
	synctest.Wait()
	select {
	case event := <-v.events:
		text, isEvent := strings.CutPrefix(string(event), "data: ")
		if text = strings.TrimSuffix(text, "\n\n"); !isEvent || strings.Contains(text, "\n") {
			t.Fatalf("no event: %.200q", event)
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		return m, text
	default:
		t.Fatal("no event")
		return m, ""
	}
}

func newPage(s *stage, timeline *Timeline) *Page {
	p := New(Config{
		Facts: Facts{Version: "v1"}, History: s.History, Timeline: timeline,
		Containers: func() []gate.ContainerState {
			return []gate.ContainerState{{State: "ready", Ready: true, Attempts: 3, Reached: 2}}
		},
		Upstream: func() gate.UpstreamStats {
			return gate.UpstreamStats{Open: 2, Idle: 1, Dials: 5, Reuses: 6, Retries: 7}
		},
		Drain: func() Drain { return Drain{Active: true, Requests: 2, Tunnels: 1} },
	})
	return p
}

func TestTheFirstEventIsAWholeMessageAndLaterOnesHaveTheChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func() gate.AdmissionStats {
			return gate.AdmissionStats{InFlight: 1, QueueCapacity: 40, ConcurrencyLimit: 4}
		})
		line := NewTimeline([]string{"web"}, s.now)
		p := newPage(s, line)
		defer p.Close()
		s.begin()()
		s.errors().Add(&gate.Record{Outcome: gate.QueueFull, Status: 503})
		line.Changed(0, Change{From: "unknown", To: "ready"})
		time.Sleep(2500 * time.Millisecond)

		v := view(p, 100)
		m, _ := v.take(t)
		if m.Facts == nil || m.Facts.Version != "v1" || len(m.Facts.Rows) != heatRows-1 || m.State != (stateJSON{"draining", -1, "2 requests and 1 tunnel under way"}) || m.Clock != 2500 ||
			m.Now.Limit != 4 || m.Now.Capacity != 40 || *m.Now.Upstream != (upstreamJSON{2, 1, 5, 6, 7}) || m.Now.Windows[0].Ended != 1 {
			t.Errorf("%+v", m)
		}
		if m.Seconds.First != 0 || len(m.Seconds.Arrivals) != 2 || m.Seconds.Arrivals[0] != 1 || len(m.Seconds.Heat[0]) != 2 {
			t.Errorf("%+v", m.Seconds)
		}
		if m.Errors.Refused != 1 || len(m.Errors.List) != 1 || len(m.Containers) != 1 || len(m.Containers[0].Changes) != 1 {
			t.Errorf("%+v, %+v", m.Errors, m.Containers)
		}
		time.Sleep(time.Second)
		_, _ = v.take(t)
		time.Sleep(time.Second)
		if m, text := v.take(t); m.Facts != nil || m.Errors != nil || m.Containers[0].Changes != nil || len(m.Seconds.Arrivals) > 2 {
			t.Errorf("old news: %s", text)
		}
		s.errors().Add(&gate.Record{Outcome: gate.QueueFull, Status: 503})
		line.Changed(0, Change{From: "ready", To: "failing", Cause: "status 500"})
		time.Sleep(time.Second)
		if m, text := v.take(t); m.Errors == nil || m.Errors.Refused != 2 || len(m.Containers[0].Changes) != 2 || m.Seconds.Refused[len(m.Seconds.Refused)-1] != 1 {
			t.Errorf("no news: %s", text)
		}
	})
}

func TestAllViewersGetTheSameBytesOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		p := newPage(s, nil)
		defer p.Close()
		a, b := view(p, 100), view(p, 100)
		_, _ = a.take(t)
		_, _ = b.take(t)
		for range 5 {
			time.Sleep(time.Second)
			_, first := a.take(t)
			_, second := b.take(t)
			if first != second {
				t.Errorf("%s\n%s", first, second)
			}
			if len(a.events) != 0 {
				t.Errorf("%d more events in the same second", len(a.events))
			}
		}
	})
}

func TestASlowViewerSkipsEventsAndThenGetsAWholeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		p := newPage(s, nil)
		defer p.Close()
		quick, slow := view(p, 100), view(p, 0)
		_, _ = slow.take(t)
		time.Sleep(30 * time.Second)
		if m, _ := slow.take(t); m.Facts != nil {
			t.Error("the event that was on its way is a whole message")
		}
		if m, _ := slow.take(t); m.Facts == nil || len(m.Seconds.Arrivals) < 30 {
			t.Errorf("after missing seconds it got %d only", len(m.Seconds.Arrivals))
		}
		if n := len(quick.events); n < 30 {
			t.Errorf("the slow one held up the other: %d events in 30 s", n)
		}
		slow.leave()
		<-slow.gone
	})
}

func TestANinthViewerIsRejectedUntilOneDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		p := newPage(s, nil)
		defer p.Close()
		var all []*viewer
		for range maxViewers {
			v := view(p, 100)
			_, _ = v.take(t)
			all = append(all, v)
		}
		ninth := view(p, 100)
		<-ninth.gone
		if ninth.status != http.StatusServiceUnavailable || ninth.header.Get("Retry-After") == "" {
			t.Errorf("status %d, %v", ninth.status, ninth.header)
		}
		all[0].leave()
		<-all[0].gone
		all[1].broken.Store(true) // writes to it fail
		time.Sleep(time.Second)
		<-all[1].gone
		for range 2 {
			_, _ = view(p, 100).take(t)
		}
	})
}

func TestTheSamplerParksAfterTheLastViewerDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		p := newPage(s, nil)
		defer p.Close()
		v := view(p, 100)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := len(v.events); n < 20 {
			t.Errorf("%d events in 20 s without a request", n)
		}
		v.leave()
		<-v.gone
		time.Sleep(4 * time.Second)
		synctest.Wait()
		s.running.Wait()
	})
}

func TestShutdownOfTheServerEndsOpenStreams(t *testing.T) {
	s := newStage(t, nil)
	p := newPage(s, nil)
	server := httptest.NewServer(p)
	defer server.Close()
	server.Config.RegisterOnShutdown(p.Close)
	var streams sync.WaitGroup
	for range 3 {
		answer, err := http.Get(server.URL + "/events")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := answer.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		streams.Go(func() {
			for b := make([]byte, 4096); ; {
				if _, err := answer.Body.Read(b); err != nil {
					return
				}
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := server.Config.Shutdown(ctx); err != nil {
		t.Errorf("shutting down with open streams: %v", err)
	}
	streams.Wait()
}

func TestTheStatusPageSendsASecondAgainIfItWasIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		p := newPage(s, nil)
		defer p.Close()
		time.Sleep(1500 * time.Millisecond)
		var already sent
		p.message(false, &already)
		s.requests.Observe(&gate.Record{Status: 200, Forwarded: 1, Ended: time.Millisecond}, gate.TraceID{})
		s.mu.Lock()
		s.ring.credit(&s.src)
		s.mu.Unlock()
		var m message
		if err := json.Unmarshal(p.message(false, &already), &m); err != nil {
			t.Fatal(err)
		}
		if m.Seconds.First != 0 || len(m.Seconds.Heat) != 1 || len(m.Seconds.Heat[0]) != 2 {
			t.Errorf("%+v", m.Seconds)
		}
	})
}

func TestQuantilesCoverTheRequestsOfTheirWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		p := newPage(s, nil)
		defer p.Close()
		s.begin()()
		for _, wait := range []time.Duration{8 * time.Second, 5 * time.Second, 37 * time.Second, 20 * time.Second, 210 * time.Second, 30 * time.Second, time.Hour} {
			time.Sleep(wait)
			var m message
			if err := json.Unmarshal(p.message(true, new(sent)), &m); err != nil {
				t.Fatal(err)
			}
			for i, window := range []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute} {
				w := m.Now.Windows[i]
				if want := s.now() <= window; time.Duration(w.Seconds)*time.Second != window || (w.Ended == 1) != want || (w.P50 > 0) != want {
					t.Errorf("after %v: %+v", s.now(), w)
				}
			}
		}
	})
}

func TestTheStatusPageSendsChangedSettingsOnceToAViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		var live atomic.Pointer[gate.SettingsStats]
		live.Store(new(gate.SettingsStats))
		p := New(Config{
			History: s.History, Timeline: NewTimeline(nil, s.now),
			Live: func() gate.SettingsStats { return *live.Load() },
			Settings: func() []Group {
				return []Group{{Title: []string{"before", "after"}[live.Load().Generation]}}
			},
		})
		defer p.Close()
		v := view(p, 10)
		if m, _ := v.take(t); m.Facts == nil || m.Facts.Settings[0].Title != "before" || m.Live == nil || m.Live.Generation != 0 {
			t.Errorf("the first event: %+v, %+v", m.Facts, m.Live)
		}
		time.Sleep(time.Second)
		if m, _ := v.take(t); m.Facts != nil {
			t.Error("facts are sent again although no setting changed")
		}
		live.Store(&gate.SettingsStats{Generation: 1})
		time.Sleep(time.Second)
		if m, _ := v.take(t); m.Facts == nil || m.Facts.Settings[0].Title != "after" || m.Live.Generation != 1 {
			t.Errorf("after a change: %+v, %+v", m.Facts, m.Live)
		}
		live.Store(&gate.SettingsStats{Generation: 1, Error: "queuegate.dev/timeout: wrong"})
		time.Sleep(time.Second)
		if m, _ := v.take(t); m.Facts != nil || m.Live.Error != live.Load().Error {
			t.Errorf("after an error: %+v, %+v", m.Facts, m.Live)
		}
		v.leave()
		<-v.gone
	})
}
