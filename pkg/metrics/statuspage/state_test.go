package statuspage

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// life is a status page with the data of a gate with two containers.
type life struct {
	*stage
	t          *testing.T
	line       *Timeline
	page       *Page
	containers []gate.ContainerState
	admission  gate.AdmissionStats
	drain      Drain
}

func newLife(t *testing.T) *life {
	l := &life{t: t, containers: []gate.ContainerState{{State: "unknown"}, {State: "unknown"}}}
	l.stage = newStage(t, func() gate.AdmissionStats { return l.admission })
	l.line = NewTimeline([]string{"web", "proxy"}, l.now)
	l.containers[0].Reason, l.containers[1].Reason = "not probed yet", "not probed yet"
	l.page = New(Config{
		History: l.History, Timeline: l.line, StartTimeout: 10 * time.Second,
		Containers: func() []gate.ContainerState { return l.containers },
		Drain:      func() Drain { return l.drain },
	})
	t.Cleanup(l.page.Close)
	return l
}

// becomes changes the state of a container. The container is ready if cause is empty.
func (l *life) becomes(index int, state, cause string) {
	c := &l.containers[index]
	l.line.Changed(index, Change{From: c.State, To: state, Cause: cause})
	c.State, c.Ready, c.Reason = state, cause == "", cause
}

func (l *life) want(when, name string, since time.Duration, cause string) {
	l.t.Helper()
	var m message
	if err := json.Unmarshal(l.page.message(true, new(sent)), &m); err != nil {
		l.t.Fatal(err)
	}
	want := stateJSON{Name: name, Since: since.Milliseconds(), Cause: cause}
	if since < 0 {
		want.Since = sinceUnknown
	}
	if m.State != want {
		l.t.Errorf("%s: %+v, want %+v", when, m.State, want)
	}
}

func TestTheStatusPageShowsTheStateOfTheGateFromItsStartToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t)
		l.want("before the first probe", "starting", 0, "web: not probed yet; proxy: not probed yet")
		time.Sleep(time.Second)
		l.becomes(0, "down", "connection refused")
		l.becomes(1, "ready", "")
		l.containers[0].Probe = "tcp 127.0.0.1:8080"
		l.want("one is ready", "starting", time.Second, "web: connection refused (tcp 127.0.0.1:8080)")
		time.Sleep(time.Second)
		l.becomes(0, "ready", "")
		l.want("both are ready", "ready", 2*time.Second, "")

		time.Sleep(10 * time.Second)
		l.errors().Add(&gate.Record{Outcome: gate.QueueFull, Status: 503})
		l.want("at the first refusal", "overloaded", -1, "1 request refused in the last 10 s")
		l.Touch()
		time.Sleep(9 * time.Second)
		l.want("9 s later", "overloaded", -1, "1 request refused in the last 10 s")
		time.Sleep(3 * time.Second)
		l.want("12 s later", "ready", 2*time.Second, "")
		l.admission = gate.AdmissionStats{ConcurrencyLimit: 1, InFlight: 1, QueueCapacity: 1200, QueueDepth: 1200}
		l.want("no place left in the queue", "overloaded", -1, "the queue is full (1,200 waiting)")
		l.errors().Add(&gate.Record{Outcome: gate.ClientGone, Status: 499})
		l.errors().Add(&gate.Record{Outcome: gate.Served, Status: 500})
		l.admission = gate.AdmissionStats{ConcurrencyLimit: 1, InFlight: 1, QueueCapacity: 7, QueueDepth: 6}
		l.want("failures and clients that left are no overload", "ready", 2*time.Second, "1 request failed in the last 10 s")

		l.becomes(1, "failing", "answered with status 503")
		time.Sleep(time.Second)
		l.becomes(1, "down", "connection refused")
		l.want("one went away", "not-ready", 24*time.Second, "proxy: connection refused")
		l.errors().Add(&gate.Record{Outcome: gate.QueueFull, Status: 503})
		l.becomes(0, "failing", "no answer in time")
		l.want("both did, and a request is refused", "not-ready", 24*time.Second, "web: no answer in time; proxy: connection refused")

		l.drain = Drain{Active: true, Requests: 1}
		l.want("SIGTERM", "draining", -1, "1 request under way")
		l.drain.Requests = 0
		l.want("the request is over", "draining", -1, "nothing under way")
		l.page.Close()
		l.want("the end", "ended", -1, "")
	})
}

func TestAContainerThatIsNotReadyWithin10SecondsIsReportedAsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t)
		l.becomes(0, "down", "connection refused")
		l.becomes(1, "ready", "")
		time.Sleep(10*time.Second - time.Millisecond)
		l.want("just before", "starting", 0, "web: connection refused")
		time.Sleep(time.Millisecond)
		l.want("just after", "not-ready", 0, "web: connection refused")
	})
}

func TestAContainerThatWasReadyIsNotStartingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t)
		l.becomes(0, "ready", "")
		l.becomes(1, "ready", "")
		time.Sleep(time.Second)
		l.becomes(0, "down", "connection refused")
		l.want("a crash at the start", "not-ready", time.Second, "web: connection refused")
	})
}

func TestWithoutProbesTheGateIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		p := New(Config{History: s.History, Timeline: NewTimeline(nil, s.now), Containers: func() []gate.ContainerState { return nil }})
		defer p.Close()
		l := &life{stage: s, t: t, page: p}
		l.want("at once", "ready", 0, "")
	})
}

func TestTheMostImportantStateTakesPrecedence(t *testing.T) {
	for bits := range 64 {
		on := func(i int) bool { return bits>>i&1 == 1 }
		s := inputs{ended: on(0), draining: on(1), ready: on(2), wasReady: on(3), queueFull: on(4), uptime: time.Second}
		if on(5) {
			s.startTimeout = time.Minute
		}
		want := Ready
		if s.queueFull {
			want = Overloaded
		}
		if !s.ready {
			want = NotReady
			if !s.wasReady && on(5) {
				want = Starting
			}
		}
		if s.draining {
			want = Draining
		}
		if s.ended {
			want = Ended
		}
		if got := s.state(); got != want {
			t.Errorf("%+v: %v, want %v", s, got, want)
		}
	}
}

func TestViewersGetALastMessageWhenThePageCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inFlight atomic.Int64
		s := newStage(t, func() gate.AdmissionStats { return gate.AdmissionStats{InFlight: int(inFlight.Load())} })
		p := newPage(s, nil)
		v := view(p, 100)
		inFlight.Store(1)
		time.Sleep(5500 * time.Millisecond)
		synctest.Wait()
		for len(v.events) > 0 {
			<-v.events
		}
		inFlight.Store(0)
		p.Close()
		<-v.gone
		m, text := v.take(t)
		if last := len(m.Seconds.InFlight) - 1; m.State.Name != "ended" || m.Seconds.InFlight[last] != 0 {
			t.Errorf("the last message: %s", text)
		}
	})
}
