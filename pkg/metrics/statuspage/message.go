package statuspage

import (
	"encoding/json"
	"math"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// message is what the page is sent: everything when it connects, and each
// second what is new since the last one. Times are in ms on the gate's clock;
// clock and wall are the same moment.
type message struct {
	Page       string          `json:"page"` // changes with the page itself
	Started    int64           `json:"started"`
	Clock      int64           `json:"clock"`
	Wall       int64           `json:"wall"`
	State      string          `json:"state"`
	Seconds    secondsJSON     `json:"seconds"`
	Now        nowJSON         `json:"now"`
	Containers []containerJSON `json:"containers"`
	Errors     *errorsJSON     `json:"errors,omitempty"`
	Facts      *factsJSON      `json:"facts,omitempty"`
}

// secondsJSON are consecutive seconds as columns. Each value of heat lists row,
// count, row, count and so on.
type secondsJSON struct {
	First       int64      `json:"first"`
	Concurrency []float64  `json:"concurrency"`
	Arrivals    []float64  `json:"arrivals"`
	InFlight    []uint32   `json:"inFlight"`
	Queue       []uint32   `json:"queue"`
	Failures    []uint32   `json:"failures"`
	BytesIn     []float64  `json:"bytesIn"`
	BytesOut    []float64  `json:"bytesOut"`
	P50         []float64  `json:"p50"`
	P99         []float64  `json:"p99"`
	Heat        [][]uint32 `json:"heat"`
}

type nowJSON struct {
	P50      float64       `json:"p50"` // ms, of the last recentSeconds; 0 = nothing ended
	P99      float64       `json:"p99"`
	Ended    uint64        `json:"ended"` // in the same time
	Limit    int           `json:"limit"` // 0 = unlimited
	Capacity int           `json:"capacity"`
	Upstream *upstreamJSON `json:"upstream,omitempty"`
	Outcomes []uint64      `json:"outcomes"` // by index into factsJSON.Outcomes
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
	Attempts uint64       `json:"attempts"`
	Reached  uint64       `json:"reached"`
	Changes  []changeJSON `json:"changes,omitempty"` // absent = as before
}

type changeJSON struct {
	At       int64  `json:"at"`
	From     string `json:"from"`
	To       string `json:"to"`
	Cause    string `json:"cause"`
	Attempts uint64 `json:"attempts"`
}

type errorsJSON struct {
	Total uint64        `json:"total"`
	List  []failureJSON `json:"list"`
}

type failureJSON struct {
	At      int64   `json:"at"`
	Took    float64 `json:"took"` // ms
	Outcome string  `json:"outcome"`
	Status  int     `json:"status"`
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	Cut     bool    `json:"cut,omitempty"`
	More    uint32  `json:"more,omitempty"` // of the same outcome and second that are not listed
}

type factsJSON struct {
	Facts
	Outcomes []string  `json:"outcomes"`
	Rows     []float64 `json:"rows"` // upper bounds of the rows of heat in ms; the last row has none
	Span     int       `json:"span"` // seconds of history
	Recent   int       `json:"recent"`
}

// message makes the one that tells everything, or what is new after what was
// sent before.
func (p *Page) message(whole bool, sent *sent) []byte {
	m := message{Page: pageVersion(), Started: p.started, State: "serving", Containers: []containerJSON{}}
	if p.cfg.State != nil {
		m.State = p.cfg.State()
	}
	if p.cfg.Upstream != nil {
		u := p.cfg.Upstream()
		m.Now.Upstream = &upstreamJSON{u.Open, u.Idle, u.Dials, u.Reuses, u.Replays}
	}
	src := &p.cfg.History.src
	if src.Admission != nil {
		a := src.Admission()
		m.Now.Limit, m.Now.Capacity = a.ConcurrencyLimit, a.QueueCapacity
	}
	p.cfg.History.look(func(r *ring) {
		from := r.first()
		if !whole {
			from = max(from, sent.second) // that one may not have been complete
		}
		m.Seconds = r.columns(from)
		sent.second = r.newest
		recent := r.recently()
		m.Now.P50, m.Now.P99 = round(r.quantile(recent, 0.5)), round(r.quantile(recent, 0.99))
		for _, n := range recent {
			m.Now.Ended += uint64(n)
		}
		m.Now.Outcomes = append([]uint64{}, r.totals.Outcomes...)
	})
	p.addContainers(&m, whole, sent)
	if e := src.Errors; e != nil {
		if total := e.total.Load(); whole || total != sent.errors {
			sent.errors = total
			m.Errors = &errorsJSON{List: []failureJSON{}}
			var list []failureJSON
			if m.Errors.Total, list = e.list(); list != nil {
				m.Errors.List = list
			}
		}
	}
	if whole {
		m.Facts = p.facts()
	}
	now := p.cfg.History.src.Clock()
	m.Clock, m.Wall = millis(now), time.Now().UnixMilli()
	text, err := json.Marshal(&m)
	if err != nil {
		panic("BUG: a message of the status page: " + err.Error())
	}
	return text
}

func (p *Page) addContainers(m *message, whole bool, sent *sent) {
	t := p.cfg.Timeline
	if t == nil || p.cfg.Containers == nil {
		return
	}
	version := t.version()
	for i, c := range p.cfg.Containers() {
		if i == len(t.names) {
			break
		}
		shown := containerJSON{Name: t.names[i], State: c.State, Attempts: c.Attempts, Reached: c.Reached}
		if whole || version != sent.changes {
			shown.Changes = t.of(i)
		}
		m.Containers = append(m.Containers, shown)
	}
	sent.changes = version
}

func (p *Page) facts() *factsJSON {
	f := &factsJSON{
		Facts: p.cfg.Facts, Outcomes: gate.OutcomeNames(), Span: keptSeconds, Recent: recentSeconds,
	}
	for row := range heatRows - 1 {
		f.Rows = append(f.Rows, round(milliseconds(rowBound(row))))
	}
	return f
}

// columns are the seconds from number n to the newest.
func (r *ring) columns(n int64) secondsJSON {
	count := max(r.newest-n+1, 0)
	floats := func(value func(*second) float32) []float64 {
		column := make([]float64, count)
		for i := range column {
			column[i] = round(float64(value(r.at(n + int64(i)))))
		}
		return column
	}
	wholes := func(value func(*second) uint32) []uint32 {
		column := make([]uint32, count)
		for i := range column {
			column[i] = value(r.at(n + int64(i)))
		}
		return column
	}
	heat := make([][]uint32, count)
	for i := range heat {
		heat[i] = []uint32{}
		for row, ended := range r.at(n + int64(i)).heat {
			if ended > 0 {
				heat[i] = append(heat[i], uint32(row), ended)
			}
		}
	}
	return secondsJSON{
		First:       n,
		Concurrency: floats(func(s *second) float32 { return s.concurrency }),
		Arrivals:    floats(func(s *second) float32 { return s.arrivals }),
		InFlight:    wholes(func(s *second) uint32 { return s.inFlight }),
		Queue:       wholes(func(s *second) uint32 { return s.queue }),
		Failures:    wholes(func(s *second) uint32 { return s.failures }),
		BytesIn:     floats(func(s *second) float32 { return s.requestBytes }),
		BytesOut:    floats(func(s *second) float32 { return s.responseBytes }),
		P50:         floats(func(s *second) float32 { return s.p50 }),
		P99:         floats(func(s *second) float32 { return s.p99 }),
		Heat:        heat,
	}
}

func millis(d time.Duration) int64 { return d.Milliseconds() }

func milliseconds(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

// round keeps three decimals.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
