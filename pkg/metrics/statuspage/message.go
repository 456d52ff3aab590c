package statuspage

import (
	"encoding/json"
	"math"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// message is an event of the page's event stream. The first event of a connection is a
// full message, which has all data. Then there is one event per second, which has only
// the data that may have changed.
//
// Each point in time is in ms. Started and Wall are on the wall clock, all others are on
// the gate's clock. Clock and Wall are the time of the event on the two clocks, so that
// the page can convert from one clock to the other.
type message struct {
	Page       string          `json:"page"` // hash of the page's files; if it changes, the page reloads itself
	Started    int64           `json:"started"`
	Clock      int64           `json:"clock"`
	Wall       int64           `json:"wall"`
	State      stateJSON       `json:"state"`
	Seconds    secondsJSON     `json:"seconds"`
	Now        nowJSON         `json:"now"`
	Containers []containerJSON `json:"containers"`
	Errors     *errorsJSON     `json:"errors,omitempty"`
	Live       *liveJSON       `json:"live,omitempty"`
	Facts      *factsJSON      `json:"facts,omitempty"`
}

type liveJSON struct {
	Generation uint64 `json:"generation"`
	Error      string `json:"error,omitempty"` // why the latest settings were not applied
}

type stateJSON struct {
	Name  string `json:"name"`  // name of a State
	Since int64  `json:"since"` // -1 = unknown
	Cause string `json:"cause"` // may be empty
}

// secondsJSON contains consecutive seconds; First is the number of the first of them.
// Each array has one element per second. An element of Heat is a list in which the
// number of a row of the heat map and the number of requests in that row alternate.
// Rows without requests are omitted.
type secondsJSON struct {
	First       int64      `json:"first"`
	Concurrency []float64  `json:"concurrency"`
	Arrivals    []float64  `json:"arrivals"`
	InFlight    []uint32   `json:"inFlight"`
	Queue       []uint32   `json:"queue"`
	Refused     []uint32   `json:"refused"`
	Failed      []uint32   `json:"failed"`
	ClientError []uint32   `json:"clientErrors"`
	BytesIn     []float64  `json:"bytesIn"`
	BytesOut    []float64  `json:"bytesOut"`
	P50         []float64  `json:"p50"`
	P99         []float64  `json:"p99"`
	Heat        [][]uint32 `json:"heat"`
}

type nowJSON struct {
	Windows  []windowJSON  `json:"windows"`
	Limit    int           `json:"limit"` // 0 = unlimited
	Capacity int           `json:"capacity"`
	Requests int64         `json:"requests"` // open requests; tunnels are not counted
	Tunnels  int64         `json:"tunnels"`
	Upstream *upstreamJSON `json:"upstream,omitempty"`
	// Outcomes has the number of requests with each outcome since the start of the gate.
	// factsJSON.Outcomes has the names of the outcomes in the same order.
	Outcomes []uint64 `json:"outcomes"`
}

// windowJSON has the latency of the last seconds.
type windowJSON struct {
	Seconds int     `json:"seconds"`
	P50     float64 `json:"p50"` // in ms; 0 = no requests
	P99     float64 `json:"p99"`
	Ended   uint64  `json:"ended"` // forwarded requests that ended, without tunnels
}

type upstreamJSON struct {
	Open    int   `json:"open"`
	Idle    int   `json:"idle"`
	Dials   int64 `json:"dials"`
	Reuses  int64 `json:"reuses"`
	Replays int64 `json:"replays"`
}

type containerJSON struct {
	Name     string       `json:"name"`
	State    string       `json:"state"`
	Ready    bool         `json:"ready"`
	Cause    string       `json:"cause"` // empty when ready
	Probe    string       `json:"probe"`
	Attempts uint64       `json:"attempts"`
	Reached  uint64       `json:"reached"`
	Changes  []changeJSON `json:"changes,omitempty"` // absent = unchanged
}

type changeJSON struct {
	At       int64  `json:"at"`
	From     string `json:"from"`
	To       string `json:"to"`
	Cause    string `json:"cause"`
	Attempts uint64 `json:"attempts"`
}

type errorsJSON struct {
	// Refused, Failed and ClientErrors are numbers of requests since the start of the
	// gate.
	Refused      uint64        `json:"refused"`
	Failed       uint64        `json:"failed"`
	ClientErrors uint64        `json:"clientErrors"`
	List         []failureJSON `json:"list"`
}

type failureJSON struct {
	At      int64   `json:"at"`
	Took    float64 `json:"took"` // ms
	Outcome string  `json:"outcome"`
	Class   string  `json:"class"`
	Status  int     `json:"status"`
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	Cut     bool    `json:"cut,omitempty"`
	More    uint32  `json:"more,omitempty"` // further failures with this outcome in this second
}

type factsJSON struct {
	Facts
	Outcomes []string `json:"outcomes"`
	// Rows has the upper bound, in ms, of each row of the heat map. It omits the last
	// row, which has no upper bound.
	Rows []float64 `json:"rows"`
	Span int       `json:"span"` // seconds of history
}

// message returns a full message if isFull is true. Otherwise it returns a message with
// the changes since the message that sent identifies.
func (p *Page) message(isFull bool, sent *sent) []byte {
	now := p.cfg.History.src.Clock()
	m := message{
		Page: pageVersion(), Started: p.started, Clock: millis(now), Wall: time.Now().UnixMilli(),
		Containers: []containerJSON{},
	}
	s := inputs{ended: p.ended.Load(), uptime: now, startTimeout: p.cfg.StartTimeout, wasReady: p.cfg.Timeline.wasReady()}
	p.addNow(&m, &s)
	p.addHistory(&m, &s, isFull, sent)
	p.addContainers(&m, &s, isFull, sent)
	p.addErrors(&m, isFull, sent)
	p.addSettings(&m, isFull, sent)
	m.State = p.describe(&m, &s)
	text, err := json.Marshal(&m)
	if err != nil {
		panic("BUG: a message of the status page: " + err.Error())
	}
	return text
}

// addSettings adds the state of the live settings to m. It also adds the facts if m is a
// full message, or if the settings have changed since the last message.
func (p *Page) addSettings(m *message, isFull bool, sent *sent) {
	if p.cfg.Live != nil {
		live := p.cfg.Live()
		m.Live = &liveJSON{live.Generation, live.Error}
	}
	if isFull || m.Live != nil && m.Live.Generation != sent.generation {
		m.Facts = p.facts()
	}
	if m.Live != nil {
		sent.generation = m.Live.Generation
	}
}

func (p *Page) addNow(m *message, s *inputs) {
	if p.cfg.Drain != nil {
		d := p.cfg.Drain()
		s.draining, m.Now.Requests, m.Now.Tunnels = d.Active, d.Requests, d.Tunnels
	}
	if p.cfg.Upstream != nil {
		u := p.cfg.Upstream()
		m.Now.Upstream = &upstreamJSON{u.Open, u.Idle, u.Dials, u.Reuses, u.Retries}
	}
	if admission := p.cfg.History.src.Admission; admission != nil {
		a := admission()
		m.Now.Limit, m.Now.Capacity = a.ConcurrencyLimit, a.QueueCapacity
		s.queueFull = a.ConcurrencyLimit > 0 && a.QueueCapacity > 0 && a.QueueDepth >= a.QueueCapacity
	}
}

func (p *Page) addHistory(m *message, s *inputs, isFull bool, sent *sent) {
	p.cfg.History.read(func(r *ring) {
		from := r.first()
		if !isFull {
			from = max(from, sent.second) // include sent.second, which may have been incomplete
		}
		m.Seconds = r.columns(from)
		sent.second = r.newest
		for _, seconds := range windows {
			w := r.window(seconds)
			w.Seconds = seconds
			m.Now.Windows = append(m.Now.Windows, w)
		}
		m.Now.Outcomes = append([]uint64{}, r.totals.Outcomes...)
		s.recentFailures = r.recentFailures(p.cfg.History.src.Errors.totals())
	})
}

func (p *Page) addErrors(m *message, isFull bool, sent *sent) {
	e := p.cfg.History.src.Errors
	if total := e.totals().sum(); e != nil && (isFull || total != sent.errors) {
		sent.errors = total
		t, list := e.list()
		m.Errors = &errorsJSON{t.refused, t.failed, t.clientErrors, list}
	}
}

func (p *Page) addContainers(m *message, s *inputs, isFull bool, sent *sent) {
	s.ready = true
	t := p.cfg.Timeline
	if t == nil || p.cfg.Containers == nil {
		return
	}
	version := t.version()
	for i, c := range p.cfg.Containers() {
		if i == len(t.names) {
			break
		}
		s.ready = s.ready && c.Ready
		shown := containerJSON{
			Name: t.names[i], State: c.State, Ready: c.Ready, Cause: c.Reason, Probe: c.Probe,
			Attempts: c.Attempts, Reached: c.Reached,
		}
		if isFull || version != sent.changes {
			shown.Changes = t.changesOf(i)
		}
		m.Containers = append(m.Containers, shown)
	}
	sent.changes = version
}

func (p *Page) facts() *factsJSON {
	f := &factsJSON{
		Facts: p.cfg.Facts, Outcomes: gate.OutcomeNames(), Span: historySeconds,
	}
	if p.cfg.Settings != nil {
		f.Settings = p.cfg.Settings()
	}
	for row := range heatRows - 1 {
		f.Rows = append(f.Rows, round(milliseconds(rowBound(row))))
	}
	return f
}

// columns returns the seconds from number n to the newest.
func (r *ring) columns(n int64) secondsJSON {
	floats := func(value func(*second) float32) []float64 {
		return column(r, n, func(s *second) float64 { return round(float64(value(s))) })
	}
	integers := func(value func(*second) uint32) []uint32 { return column(r, n, value) }
	return secondsJSON{
		First:       n,
		Concurrency: floats(func(s *second) float32 { return s.concurrency }),
		Arrivals:    floats(func(s *second) float32 { return s.arrivals }),
		InFlight:    integers(func(s *second) uint32 { return s.inFlight }),
		Queue:       integers(func(s *second) uint32 { return s.queue }),
		Refused:     integers(func(s *second) uint32 { return s.refused }),
		Failed:      integers(func(s *second) uint32 { return s.failed }),
		ClientError: integers(func(s *second) uint32 { return s.clientErrors }),
		BytesIn:     floats(func(s *second) float32 { return s.requestBytes }),
		BytesOut:    floats(func(s *second) float32 { return s.responseBytes }),
		P50:         floats(func(s *second) float32 { return s.p50 }),
		P99:         floats(func(s *second) float32 { return s.p99 }),
		Heat: column(r, n, func(s *second) []uint32 {
			cells := []uint32{}
			for row, n := range s.heat {
				if n > 0 {
					cells = append(cells, uint32(row), n)
				}
			}
			return cells
		}),
	}
}

func column[T any](r *ring, n int64, value func(*second) T) []T {
	values := make([]T, max(r.newest-n+1, 0))
	for i := range values {
		values[i] = value(r.at(n + int64(i)))
	}
	return values
}

func millis(d time.Duration) int64 { return d.Milliseconds() }

func milliseconds(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

// round keeps three decimals.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
