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
	Specs []Spec // empty = the pod is always ready
	// UserPort is the port of the user container. Observed applies only to containers
	// whose probe has this port and a loopback address. 0 = Observed applies to all
	// containers.
	UserPort int
	// Wait is the maximum time that a prober waits for a container with an adaptive
	// probe to become ready (READINESS_WAIT). 0 = 10 s. If it is negative, a prober does
	// not wait for this. It may still wait for the end of a check, if it needs a new one.
	Wait time.Duration
	// Freshness is the maximum age of the last successful check of a container with an
	// adaptive probe (READINESS_FRESHNESS). If that check is older, a prober waits for a
	// new check. 0 = 1 s.
	Freshness time.Duration
	// OnChange is called once per change of state, in order and not concurrently. It
	// should not block, because checks wait for it.
	OnChange func(Change)
	// OnCheck is called after each check with the index of the container and the
	// duration of the check. It must not block.
	OnCheck func(index int, took time.Duration)
	// NewAlarm creates an Alarm for pauses of half a second or more, for example
	// NewKernelAlarm. If it is nil or returns an error, Go timers are used.
	NewAlarm func() (Alarm, error)
}

const (
	defaultWait      = 10 * time.Second
	defaultFreshness = time.Second
	// kubeletWait is slightly less than the kubelet's default timeout of 1 s, so that
	// the kubelet gets a reply.
	kubeletWait   = 900 * time.Millisecond
	kubeletMargin = time.Second - kubeletWait
)

// Readiness determines whether the pod accepts traffic. All methods may be called
// concurrently.
type Readiness struct {
	wait        time.Duration // Options.Wait
	checkWait   time.Duration // maximum wait for a check: max(wait, longest Spec.Timeout)
	kubeletWait time.Duration
	freshness   time.Duration
	onChange    func(Change)
	onCheck     func(int, time.Duration)
	newAlarm    func() (Alarm, error)
	containers  []*container

	mu        sync.Mutex
	waiting   int       // number of waiting probers
	woken     []*waiter // waiters to be evaluated by evaluateWoken
	changes   []Change
	notifying bool
	stopped   bool
}

// New returns the Readiness of the containers in o.Specs. It checks nothing until Run
// is called.
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
		// All probes have a period, so the kubelet's timeouts are those of the specs, and
		// not 1 s. Therefore the gate may delay its reply to a kubelet's probe until
		// shortly before the longest of these timeouts.
		r.kubeletWait = max(r.kubeletWait, longest-kubeletMargin)
	}
	return r
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

// Run runs checks until ctx ends and all its goroutines have returned. Call it at most
// once.
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

// addWaiting changes the number of waiting probers by delta. While a prober waits,
// containers that refuse connections are checked at the quick pace.
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

// Observed records whether the user port accepted or refused a connection for a
// request. After a refused connection, a Ready or Failing container becomes Down. After
// an accepted connection, a Down or Unknown container is checked at once.
func (r *Readiness) Observed(listening bool) {
	now := time.Now()
	r.mu.Lock()
	for _, c := range r.containers {
		switch {
		case !c.isUser || c.state == Asleep:
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

// Suspend stops the checks. All containers become Asleep, and every prober gets the
// result ready.
func (r *Readiness) Suspend() { r.suspend(true) }

// Resume ends Suspend. The containers are Unknown until their next check.
func (r *Readiness) Resume() { r.suspend(false) }

func (r *Readiness) suspend(yes bool) {
	now := time.Now()
	r.mu.Lock()
	for _, c := range r.containers {
		switch {
		case yes == (c.state == Asleep):
		case yes:
			c.suspend(now)
		default:
			c.resume(now)
		}
	}
	r.evaluateWoken()
	r.mu.Unlock()
	r.notify()
}

// notify passes pending changes to OnChange in order. It returns at once if another
// goroutine runs notify.
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
