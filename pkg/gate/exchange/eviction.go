package exchange

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/internal/list"
)

const (
	// DefaultEvictionRate is the default of Eviction.Rate.
	DefaultEvictionRate = 1
	// evictionShare limits a burst of evictions to 1/evictionShare of the slots.
	evictionShare = 4

	minEvictionRate, maxEvictionRate = 0.001, 1000
)

// Eviction is the rule by which a queued request ends a request in flight to get its
// slot. The zero value is off.
//
// A request that has been queued for longer than After evicts the youngest request in
// flight of a sheddable class below its own, because ending the youngest loses the least
// work. It evicts another request only after the first victim has released its slot. A
// token bucket limits all evictions. It gains Rate tokens per second and holds one token
// per four slots, at least one:
//
//	waiting  in flight, oldest first  class>=6 evicts
//	0        0 3 6 7 6                the last one, of class 6
//	3        6 6 0                    the second one
//	6        6 7 6                    the one of class 7
//	7, 6     6 6                      none: no lower class is in flight
//	0        3 5                      none: not sheddable
//
// Tunnels are never evicted, because their clients could not detect the truncation.
// Requests for UnlimitedPaths hold no slot, so they neither evict nor are evicted.
type Eviction struct {
	Class uint8         // highest sheddable class, 1 to Classes-1; 0 = off
	After time.Duration // time in the queue after which a request may evict another one
	Rate  float64       // maximum average of evictions per second
}

// ParseEviction parses "class>=N,after=DURATION[,rate=NUMBER]" with the parts in any
// order.
func ParseEviction(text string) (Eviction, error) {
	e := Eviction{Rate: DefaultEvictionRate}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return Eviction{}, fmt.Errorf("%q is there twice", name)
		}
		seen[name] = true
		var err error
		switch name {
		case "class>":
			var n uint64
			if n, err = strconv.ParseUint(value, 10, 8); err != nil || n < 1 || n >= admission.Classes {
				return Eviction{}, fmt.Errorf("class %q is not from 1 to %d", value, admission.Classes-1)
			}
			e.Class = uint8(n)
		case "after":
			if e.After, err = time.ParseDuration(value); err != nil || e.After < 0 || e.After > maxTimeout {
				return Eviction{}, fmt.Errorf("after %q is not a duration", value)
			}
		case "rate":
			if e.Rate, err = strconv.ParseFloat(value, 64); err != nil || !(e.Rate >= minEvictionRate && e.Rate <= maxEvictionRate) {
				return Eviction{}, fmt.Errorf("rate %q is not from %v to %d", value, minEvictionRate, maxEvictionRate)
			}
		default:
			return Eviction{}, fmt.Errorf("%q is unknown", part)
		}
	}
	if !seen["class>"] || !seen["after"] {
		return Eviction{}, errors.New("class>= and after= are both needed")
	}
	return e, nil
}

// String returns the text that ParseEviction parses; empty if e is off.
func (e Eviction) String() string {
	if !e.Set() {
		return ""
	}
	text := fmt.Sprintf("class>=%d,after=%s", e.Class, e.After)
	if e.Rate != DefaultEvictionRate {
		text += ",rate=" + strconv.FormatFloat(e.Rate, 'g', -1, 64)
	}
	return text
}

// Set reports whether evictions are enabled.
func (e Eviction) Set() bool { return e.Class != 0 }

func (e Eviction) check() error {
	if e.Set() && (e.Class >= admission.Classes || e.After < 0 || !(e.Rate >= minEvictionRate && e.Rate <= maxEvictionRate)) {
		return fmt.Errorf("Overload.Evict %s: want a class from 1 to %d, no negative wait and a rate from %v to %d", e, admission.Classes-1, minEvictionRate, maxEvictionRate)
	}
	return nil
}

// victim returns the class whose youngest request is evicted for a request of class
// waiting. youngest holds, per class, the admission number of the youngest request in
// flight; 0 = none.
func (e Eviction) victim(waiting uint8, youngest *[admission.Classes]uint64) (class uint8, ok bool) {
	latest := uint64(0)
	for c := max(e.Class, waiting+1); c < admission.Classes; c++ {
		if youngest[c] > latest {
			class, latest = c, youngest[c]
		}
	}
	return class, latest > 0
}

// interval returns the time in ns between two tokens.
func (e Eviction) interval() int64 { return int64(float64(time.Second) / e.Rate) }

// tokenBucket limits the rate of evictions with the generic cell rate algorithm (ITU-T
// I.371). full is the time in ns at which the bucket will be full. The zero value is a
// full bucket.
type tokenBucket struct{ full int64 }

// take takes a token and returns 0. If there is none, it returns the time of the next
// token. The bucket gains a token per interval and holds at most burst tokens.
func (b *tokenBucket) take(now, interval int64, burst int) (next int64) {
	full := max(b.full, now) + interval
	if next := full - int64(burst)*interval; next > now {
		return next
	}
	b.full = full
	return 0
}

// evictions is the registry of requests that may be evicted or may evict others. Its
// methods may be called from any goroutine.
type evictions struct {
	mu       sync.Mutex
	inFlight [admission.Classes]list.List[evictable, *evictable] // sheddable requests in flight by class, oldest first
	overdue  [admission.Classes]list.List[evictable, *evictable] // queued requests by class that may evict and have no victim
	admitted uint64                                              // admission number of the latest request
	bucket   tokenBucket
}

// evictable is the entry of an exchange in the registry, as a queued request and later as
// a request in flight. The registry may refer to it until leave.
type evictable struct {
	wake func() // causes a step of the exchange

	// Only the goroutine of the exchange uses the next fields.
	due    int64 // time from which a queued request may evict another one; 0 = never
	next   int64 // time of the next call of evict; 0 = when woken
	joined bool  // the registry may refer to the entry

	// evictions.mu guards the next fields.
	list.Node[evictable]
	in             *list.List[evictable, *evictable] // nil = in no list
	class          uint8
	number         uint64     // admission number
	victim, waiter *evictable // victim: the evicted request whose slot this request waits for; waiter: the queued request that waits for this request's slot

	// evicted is set only under evictions.mu and until leave, so it never applies to a
	// later request.
	evicted atomic.Bool

	events eventStream
}

// evict chooses a victim for w, which belongs to a queued request, and wakes the victim.
// It returns the time at which to call evict again; 0 = when woken.
func (r *evictions) evict(w *evictable, class uint8, rule Eviction, burst int, now int64) (next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.joined = true
	if w.victim != nil {
		return 0
	}
	if w.in == nil {
		w.class = class
		w.push(&r.overdue[class])
	}
	// The next token belongs to the first request of the highest class.
	if r.firstOverdue() != w {
		return 0
	}
	var youngest [admission.Classes]uint64
	for c := range r.inFlight {
		if last := r.inFlight[c].Last(); last != nil {
			youngest[c] = last.number
		}
	}
	c, ok := rule.victim(class, &youngest)
	if !ok {
		return 0
	}
	if next := r.bucket.take(now, rule.interval(), burst); next != 0 {
		return next
	}
	victim := r.inFlight[c].Last()
	victim.remove()
	w.remove()
	w.victim, victim.waiter = victim, w
	victim.evicted.Store(true)
	victim.wake()
	r.wakeFirst()
	return 0
}

func (r *evictions) add(e *evictable, class uint8) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.joined = true
	r.admitted++
	e.class, e.number = class, r.admitted
	e.push(&r.inFlight[class])
	r.wakeFirst()
}

// leave removes e from the registry. Call it after the request has released its slot, so
// that the request that waits for the slot finds it free.
func (r *evictions) leave(e *evictable) {
	e.due, e.next = 0, 0
	if !e.joined {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.joined = false
	e.remove()
	if w := e.waiter; w != nil {
		w.victim, e.waiter = nil, nil
		w.wake()
	}
	if v := e.victim; v != nil {
		v.waiter, e.victim = nil, nil
	}
	e.evicted.Store(false)
	r.wakeFirst()
}

// firstOverdue returns the first overdue request of the highest class. The caller holds
// mu.
func (r *evictions) firstOverdue() *evictable {
	for c := range r.overdue {
		if w := r.overdue[c].First(); w != nil {
			return w
		}
	}
	return nil
}

// wakeFirst wakes the request of firstOverdue. The caller holds mu.
func (r *evictions) wakeFirst() {
	if w := r.firstOverdue(); w != nil {
		w.wake()
	}
}

func (e *evictable) push(l *list.List[evictable, *evictable]) {
	e.in = l
	l.Push(e)
}

func (e *evictable) remove() {
	if e.in != nil {
		e.in.Remove(e)
		e.in = nil
	}
}

// evicts reports whether eviction is enabled. v may be nil.
func (v *overload) evicts() bool { return v != nil && v.Evict.Set() }

// beginWait sets the time from which the queued request x may evict another one. v may be
// nil.
func (v *overload) beginWait(x *Exchange) {
	if !v.evicts() || x.ticket.Waiter.Class >= admission.Classes-1 {
		return
	}
	e := &x.tracked.evictable
	e.due = x.timeouts.Arrived + int64(v.Evict.After)
	e.next = e.due
}

// checkEviction evicts another request if x may evict one now. v may be nil.
func (v *overload) checkEviction(x *Exchange, now int64) {
	if !v.evicts() {
		return
	}
	e := &x.tracked.evictable
	if e.due == 0 || now < e.due {
		return
	}
	e.next = v.gate.evictions.evict(e, x.ticket.Waiter.Class, v.Evict, v.evictionBurst(), now)
}

func (v *overload) evictionBurst() int {
	a := v.gate.Admission
	slots := a.Limit()
	if slots == 0 {
		slots = a.InFlight() // only CostLimit or engine metrics limit admissions
	}
	return max(slots/evictionShare, 1)
}

// nextEviction returns the time at which to call checkEviction for x again; 0 = when
// woken. v may be nil.
func (v *overload) nextEviction(x *Exchange) int64 {
	if !v.evicts() {
		return 0
	}
	return x.tracked.evictable.next
}

// beginFlight registers a request that has got a slot, if it is sheddable. A Blocking has
// no steps that could end its request, so it is not registered.
func (v *overload) beginFlight(x *Exchange) {
	if x.Unlimited {
		return
	}
	e := &x.tracked.evictable
	v.gate.evictions.leave(e) // a request with a slot needs no victim
	if class := v.classOf(x, v.gate.Trusts(x.Peer.Addr())); class >= v.Evict.Class && x.down != nil {
		v.gate.evictions.add(e, class)
	}
}

// endFlight removes x from the registry of evictions. v may be nil.
func (v *overload) endFlight(x *Exchange) {
	if v.evicts() {
		v.leaveFlight(x)
	}
}

func (v *overload) leaveFlight(x *Exchange) {
	v.gate.evictions.leave(&x.tracked.evictable)
	x.tracked.events.end()
}

// isEvicted reports whether another request has evicted x.
func (x *Exchange) isEvicted() bool {
	return x.settings.overload.evicts() && x.tracked.evictable.evicted.Load()
}

// expired returns Evicted if x is evicted, or the outcome of an expired timeout;
// otherwise Undecided.
func (x *Exchange) expired(now int64) gate.Outcome {
	if x.isEvicted() {
		return gate.Evicted
	}
	return x.timeouts.Expired(now)
}
