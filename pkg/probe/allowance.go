package probe

import "time"

// allowance bounds how often an application with periodSeconds sees a probe
// once it is ready: one per period. A tick of the kubelet borrows a probe from
// the future if none is due; that is paid back because no other probe is due
// for a period longer, and from then on the kubelet leads. In any span of n
// periods at most n+2 probes begin.
type allowance struct {
	period time.Duration
	next   time.Duration // when a probe is due
}

// tickTolerance is the share of a period by which ticks may come early, or late
// and then on time.
const tickTolerance = 5 // one part in

func (a allowance) due(now time.Duration, kubelet bool) bool {
	if kubelet {
		return now >= a.next-a.period-a.period/tickTolerance
	}
	return now >= a.next
}

// spend notes that a probe begins at now.
func (a allowance) spend(now time.Duration) allowance {
	a.next = max(a.next, now) + a.period
	return a
}
