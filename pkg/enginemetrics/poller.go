package enginemetrics

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// Config configures a Poller.
type Config struct {
	URL       *url.URL // URL of the page; the scheme is http
	Period    time.Duration
	Limits    Limits
	Admission *admission.Controller // created with Config.Brake
	// Uploads returns the number of requests in flight whose upload is incomplete. The
	// model server does not count these requests yet. nil = there are none.
	Uploads func() int
	// Silent is called with an error when pages have been invalid for too long, and
	// with nil after the next valid page. It may be nil.
	Silent func(error)
	Clock  func() time.Duration // nil = the time since the Poller was created
}

// Poller fetches the page once per period while there are requests, or less often if a
// fetch takes more than half of the period. After each page it tells Admission how many
// requests may be admitted. The pause after a fetch is at least as long as the fetch.
type Poller struct {
	cfg   Config
	fetch source

	// validAt is the instant from which Run measures how long there has been no valid
	// page. Each valid page sets it. The first request after a pause also sets it, unless
	// the latest page was invalid. Only the goroutine of Run uses validAt and isFailing.
	validAt   time.Duration
	isFailing bool // the latest page was invalid

	mu       sync.Mutex // guards the fields below
	limits   Limits
	brake    brake
	page     Page
	silent   bool
	valid    uint64
	failures uint64
}

// source provides pages. It is a fetcher, except in tests.
type source interface {
	get(ctx context.Context, deadline time.Time) (Page, error)
	close()
}

// New returns a Poller. Call Run to start polling.
func New(c Config) *Poller { return newPoller(c, newFetcher(c.URL)) }

func newPoller(c Config, pages source) *Poller {
	if c.Clock == nil {
		start := time.Now()
		c.Clock = func() time.Duration { return time.Since(start) }
	}
	return &Poller{cfg: c, fetch: pages, limits: c.Limits}
}

// SetLimits replaces the limits from the next page on.
func (p *Poller) SetLimits(l Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = l
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) {
	defer p.fetch.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p.prepareIdle()
		select {
		case <-ctx.Done():
			return
		case <-p.cfg.Admission.Busy():
		}
		p.poll(ctx, timer)
	}
}

// poll fetches a page once per period. It returns after a fetch that began while no
// request was in flight or queued, or when ctx ends.
func (p *Poller) poll(ctx context.Context, timer *time.Timer) {
	// If the latest page was invalid, do not reset validAt. The time since the last poll
	// then counts as time without a valid page. If each burst reset validAt, the brake
	// would never turn off while every burst is shorter than p.silence().
	if !p.isFailing {
		p.validAt = p.cfg.Clock()
	}
	for {
		idle := p.cfg.Admission.InFlight()+p.cfg.Admission.QueueDepth() == 0
		began := p.cfg.Clock()
		ok := p.pollOnce(ctx, p.validAt)
		now := p.cfg.Clock()
		if p.isFailing = !ok; ok {
			p.validAt = now
		}
		if idle || ctx.Err() != nil {
			return
		}
		pause := max(p.cfg.Period-(now-began), now-began)
		if p.Silent() {
			pause = max(pause, leastSilence/4)
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// silence returns a duration. When no page has been valid for that long, the brake turns
// off.
func (p *Poller) silence() time.Duration { return max(leastSilence, silentPeriods*p.cfg.Period) }

// pollOnce fetches one page, applies it, and reports whether it was valid. The parameter
// validAt has the same meaning as Poller.validAt.
func (p *Poller) pollOnce(ctx context.Context, validAt time.Duration) bool {
	a := p.cfg.Admission
	c := counts{admissions: a.Admissions(), inFlight: a.InFlight()}
	if p.cfg.Uploads != nil {
		c.uploading = p.cfg.Uploads()
	}
	page, err := p.fetch.get(ctx, time.Now().Add(p.silence()))
	if ctx.Err() != nil {
		return false
	}
	now := p.cfg.Clock()

	p.mu.Lock()
	changed := false
	room := admission.AnyRoom
	limited := func(n int64, none bool) {
		if room = n; none {
			room = admission.NoRoom
		}
	}
	if err == nil {
		changed, p.silent = p.silent, false
		p.valid++
		p.page = page
		limited(p.brake.room(page, p.limits, c, now))
	} else {
		p.failures++
		if !p.silent && now-validAt >= p.silence() {
			changed, p.silent = true, true
			p.brake, p.page = brake{}, Page{}
		}
		if !p.silent {
			limited(p.brake.roomWithoutPage(c))
		}
	}
	p.mu.Unlock()

	a.SetRoom(room, c.admissions)
	if changed && p.cfg.Silent != nil {
		p.cfg.Silent(err)
	}
	return err == nil
}

// prepareIdle prepares the poller for a period without requests. If the brake is on, it
// sets the number of further admissions to 0. The next burst is then admitted one request
// at a time until a new page has been read.
func (p *Poller) prepareIdle() {
	p.fetch.close()
	p.mu.Lock()
	p.brake.pause()
	p.page = Page{} // an idle server may never update its page
	silent := p.silent
	p.mu.Unlock()
	if !silent {
		p.cfg.Admission.SetRoom(0, p.cfg.Admission.Admissions())
	}
}

// Silent reports whether the brake is off because of invalid pages.
func (p *Poller) Silent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent
}

// FullFor returns for how long no page has allowed further requests. 0 = the latest page
// allows some, or no page has been read since the last pause.
func (p *Poller) FullFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.brake.fullSince == 0 {
		return 0
	}
	return p.cfg.Clock() - p.brake.fullSince
}

// Stats returns the values of the latest valid page. They are 0 while Silent, and while
// there are no requests. It also returns the numbers of valid and of invalid pages.
func (p *Poller) Stats() gate.EngineStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return gate.EngineStats{Waiting: p.page.Waiting, KV: p.page.KV, Silent: p.silent, Pages: p.valid, Failures: p.failures}
}
