package probe

import "time"

// allowance limits the checks of a ready application to one per periodSeconds. A
// kubelet's probe may use the next check up to one period early. Each check moves next
// one period later. In any span of n periods at most n+2 checks begin.
type allowance struct {
	period time.Duration
	next   time.Duration // when the next check is due without a kubelet's probe
}

// tickTolerance tolerates kubelet probes that come up to 1/tickTolerance of a period
// too early. A punctual probe seems early if the previous probe was late.
const tickTolerance = 5

func (a allowance) due(now time.Duration, kubelet bool) bool {
	if kubelet {
		return now >= a.next-a.period-a.period/tickTolerance
	}
	return now >= a.next
}

// spend accounts for a check that begins at now.
func (a allowance) spend(now time.Duration) allowance {
	a.next = max(a.next, now) + a.period
	return a
}
