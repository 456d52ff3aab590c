package probe

import "time"

// allowance limits the checks of a ready application with periodSeconds to one per
// period. A probe by the kubelet may cause a check one period early. The next check
// without a kubelet's probe is then due one period later than before, so from then on
// the kubelet's probes cause the checks. In any span of n periods at most n+2 checks
// begin.
type allowance struct {
	period time.Duration
	next   time.Duration // time at which the next check is due
}

// tickTolerance limits how early a kubelet's probe may be: by 1/tickTolerance of a
// period. A probe that is on time seems early if the previous one was late.
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
