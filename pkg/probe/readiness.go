package probe

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Options configures New.
type Options struct {
	Specs []Spec // none: always ready
	// UserPort says which containers Observed speaks of: those probed on that
	// port of the loopback. 0 = all.
	UserPort int
	// Wait is how long a caller is held until a container with an adaptive probe
	// is ready (READINESS_WAIT). 0 = 10 s, negative = not at all. A check that
	// the result needs is waited for in any case.
	Wait time.Duration
	// Freshness bounds the age of what an adaptive result rests on
	// (READINESS_FRESHNESS). 0 = 1 s.
	Freshness time.Duration
	// OnChange is called once per change of state, in order, by one goroutine
	// at a time, without a lock held. It should not block: probing waits for it.
	OnChange func(Change)
	// OnCheck is called after each probe of a container, by its index, with the
	// time that the probe took. It must not block.
	OnCheck func(index int, took time.Duration)
	// NewAlarm makes what ends pauses of half a second and more, one for each
	// container that has such; NewKernelAlarm is one. nil, or where it fails:
	// timers of the Go runtime.
	NewAlarm func() (Alarm, error)
}

const (
	defaultWait      = 10 * time.Second
	defaultFreshness = time.Second
	// kubeletWait is a little less than the kubelet's own timeout of 1 s, so
	// that it gets a reply instead.
	kubeletWait   = 900 * time.Millisecond
	kubeletMargin = time.Second - kubeletWait
)

// Readiness knows whether traffic may come here. All methods
// may be called concurrently.
type Readiness struct {
	wait        time.Duration // until ready
	checkWait   time.Duration // for a check: the longest timeout, or wait if that is more
	kubeletWait time.Duration
	freshness   time.Duration
	onChange    func(Change)
	onCheck     func(int, time.Duration)
	newAlarm    func() (Alarm, error)
	containers  []*container

	mu        sync.Mutex
	waiting   int       // waiting callers
	woken     []*waiter // woken since the lock was taken; settle evaluates them again
	changes   []Change
	notifying bool
	stopped   bool
}

// New returns the readiness of the containers with these specs. Nothing is
// probed until Run.
func New(o Options) *Readiness {
	r := &Readiness{
		wait: o.Wait, freshness: o.Freshness, onChange: o.OnChange, onCheck: o.OnCheck, newAlarm: o.NewAlarm,
		kubeletWait: kubeletWait,
	}
	if r.wait == 0 {
		r.wait = defaultWait
	}
	if r.freshness <= 0 {
		r.freshness = defaultFreshness
	}
	now := time.Now()
	periodic, longest := len(o.Specs) > 0, time.Duration(0)
	for _, spec := range o.Specs {
		isUser := o.UserPort == 0 || o.UserPort == spec.Port && isLoopback(spec.Host)
		r.containers = append(r.containers, newContainer(r, spec, isUser, now))
		longest = max(longest, spec.Timeout)
		periodic = periodic && !spec.Adaptive()
	}
	r.checkWait = max(r.wait, longest)
	if periodic {
		// The kubelet's own timeout is that of the specs.
		r.kubeletWait = max(r.kubeletWait, longest-kubeletMargin)
	}
	return r
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

// Run probes until ctx ends, and returns when all its goroutines have. It must
// be called once at most.
func (r *Readiness) Run(ctx context.Context) {
	var loops sync.WaitGroup
	for _, c := range r.containers {
		loops.Go(func() { c.loop(ctx) })
	}
	<-ctx.Done()
	loops.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, c := range r.containers {
		r.wakeAll(&c.changed)
		r.wakeAll(&c.completed)
	}
	r.evaluateWoken()
}

// addWaiting counts the callers that are held. While any is, a container that
// refuses is tried at the quick pace.
func (r *Readiness) addWaiting(delta int) {
	before := r.waiting
	r.waiting += delta
	if before > 0 || r.waiting == 0 {
		return
	}
	for _, c := range r.containers {
		if c.state != Ready {
			c.reschedule()
		}
	}
}

// Observed takes in whether the user port has just been seen to listen. One
// that refuses makes a ready container Down at once; one that accepts makes a
// Down one be probed at once. It is cheap when nothing is new.
func (r *Readiness) Observed(listening bool) {
	now := time.Now()
	r.mu.Lock()
	for _, c := range r.containers {
		switch {
		case !c.isUser:
		case !listening:
			c.noteRefused(now)
		case c.state == Down || c.state == Unknown:
			c.demand()
		}
	}
	changed := len(r.changes) > 0
	r.evaluateWoken()
	r.mu.Unlock()
	if changed {
		r.notify()
	}
}

// notify hands the changes noted so far to OnChange, in order. If another
// goroutine is at it, that one does it.
func (r *Readiness) notify() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notifying {
		return
	}
	r.notifying = true
	for len(r.changes) > 0 {
		changes := r.changes
		r.changes = nil
		if r.onChange == nil {
			continue
		}
		r.mu.Unlock()
		for _, change := range changes {
			r.onChange(change)
		}
		r.mu.Lock()
	}
	r.notifying = false
}

// Snapshot returns the state of each container, in the order of the specs.
func (r *Readiness) Snapshot() []gate.ContainerState {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make([]gate.ContainerState, len(r.containers))
	for i, c := range r.containers {
		states[i] = c.snapshot()
	}
	return states
}
