package probe

import "time"

// allowance bounds how often an application with periodSeconds sees a probe
// once it is ready: one per period. The kubelet's tick may borrow one probe
// from the future, so it counts as due whatever came before it; what it
// borrowed is paid back because no other probe is due for a period longer, and
// from then on the kubelet leads. In any span of n periods at most n+1 probes
// begin, one more if a tick borrowed.
type allowance struct {
	period time.Duration
	next   time.Duration // when a probe is due
	tick   time.Duration // when the next tick of the kubelet counts as due
}

// tickTolerance is the share of a period by which ticks may come early: the
// kubelet's own are some milliseconds off.
const tickTolerance = 20 // one part in

func (a allowance) due(now time.Duration, kubelet bool) bool {
	if kubelet {
		return now >= a.tick && now >= a.next-a.period-a.period/tickTolerance
	}
	return now >= a.next
}

// spend notes that a probe begins at now, for a tick or not.
func (a allowance) spend(now time.Duration, kubelet bool) allowance {
	a.next = max(a.next, now) + a.period
	if kubelet {
		a.tick = now + a.period - a.period/tickTolerance
	}
	return a
}
