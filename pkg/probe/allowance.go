package probe

import "time"

// allowance limits the checks of an application with periodSeconds, once it is ready,
// to one per period. A probe by the kubelet may cause a check one period early; the
// next check without a kubelet is then due a period later, so from then on the kubelet
// sets the rhythm. In any span of n periods at most n+2 checks begin.
type allowance struct {
	period time.Duration
	next   time.Duration // when a check is due
}

// tickTolerance: kubelet probes may arrive early by 1/tickTolerance of a period,
// because one may be late and the next one punctual.
const tickTolerance = 5

func (a allowance) due(now time.Duration, kubelet bool) bool {
	if kubelet {
		return now >= a.next-a.period-a.period/tickTolerance
	}
	return now >= a.next
}

// spend notes that a check begins at now.
func (a allowance) spend(now time.Duration) allowance {
	a.next = max(a.next, now) + a.period
	return a
}
