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
// slot. The zero value is off. Class 0 is the highest class, so a lower class has a
// higher number.
//
// A request that has been queued for longer than After evicts a request in flight. The
// victim must be of a sheddable class, and of a lower class than the queued request. The
// youngest such request is the victim, because ending it loses the least work. The queued
// request evicts another one only after its first victim has released its slot.
//
// Each eviction takes a token from a bucket. The bucket gains Rate tokens per second. It
// holds one token per four slots, but at least one.
//
// Examples for the rule class>=6, by which the classes 6 and 7 are sheddable:
//
//	class of the    classes of the requests
//	queued request  in flight, oldest first  victim
//	0               0 3 6 7 6                the last one, of class 6
//	3               6 6 0                    the second one, of class 6
//	6               6 7 6                    the second one, of class 7
//	6 or 7          6 6                      none: no lower class is in flight
//	0               3 5                      none: not sheddable
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

// victim returns the class of the request to be evicted, which is the youngest request in
// flight of that class. If ok is false, no request may be evicted. The parameter waiting
// is the class of the queued request. The array youngest has, for each class, the
// admission number of the youngest request in flight; 0 = the class has none.
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
// I.371). Its only field is the time in ns at which the bucket will be full if no token
// is taken until then. The zero value is a full bucket.
type tokenBucket struct{ full int64 }

// take removes a token from the bucket and returns 0. If the bucket has no token, the
// result is the time at which it gains the next one. The parameter interval is the time
// in ns between two tokens. The parameter burst is the largest number of tokens that the
// bucket holds.
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
	inFlight [admission.Classes]list.List[evictable, *evictable] // by class: sheddable requests in flight, oldest first
	overdue  [admission.Classes]list.List[evictable, *evictable] // by class: queued requests that may evict another one, but have no victim yet
	admitted uint64                                              // admission number given last; each new entry of inFlight gets the next number
	bucket   tokenBucket
}

// evictable is the entry of an exchange in the registry. While the request is queued, it
// may evict another one; while it is in flight, it may be evicted. The registry may refer
// to the entry until evictions.leave is called.
type evictable struct {
	wake func() // causes a step of the exchange

	// Only the goroutine of the exchange uses the next fields.
	due    int64 // time from which a queued request may evict another one; 0 = never
	next   int64 // time at which to call evict; 0 = call it only after wake has been called
	joined bool  // the registry may refer to the entry

	// evictions.mu guards the next fields.
	list.Node[evictable]
	inList *list.List[evictable, *evictable] // nil = in no list
	class  uint8
	number uint64 // admission number
	// A queued request waits for the slot of its victim. An evicted request has a waiter,
	// which is the queued request that waits for its slot.
	victim, waiter *evictable

	// evicted is true from the eviction of the request until evictions.leave is called.
	// So it never applies to a later request of the exchange. It is written only with
	// evictions.mu held.
	evicted atomic.Bool

	events eventStream
}

// evict chooses a victim for the queued request with the entry w, and wakes the victim.
// The parameter class is the class of the queued request, and burst is the size of the
// token bucket. The result is the time at which to call evict again. 0 means that evict
// need not be called before the registry wakes the queued request.
func (r *evictions) evict(w *evictable, class uint8, rule Eviction, burst int, now int64) (next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.joined = true
	if w.victim != nil {
		return 0
	}
	if w.inList == nil {
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
	e.inList = l
	l.Push(e)
}

func (e *evictable) remove() {
	if e.inList != nil {
		e.inList.Remove(e)
		e.inList = nil
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
		// Without a concurrency limit, only CostLimit or engine metrics limit admissions.
		// The requests in flight then count as the slots.
		slots = a.InFlight()
	}
	return max(slots/evictionShare, 1)
}

// nextEviction returns the time at which to call checkEviction for x again. 0 means that
// it need not be called before x is woken. v may be nil.
func (v *overload) nextEviction(x *Exchange) int64 {
	if !v.evicts() {
		return 0
	}
	return x.tracked.evictable.next
}

// beginFlight registers a request that has got a slot as a possible victim, if its class
// is sheddable. The request of a Blocking is not registered, because its caller forwards
// it and the gate cannot end it.
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
