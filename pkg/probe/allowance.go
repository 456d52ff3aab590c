package probe

import "time"

// allowance limits the checks of a ready application to an average of one per period,
// which is periodSeconds. Each check moves the due time of the next check one period
// later. A probe from the kubelet may cause a check early: at most 1.2 periods before the
// due time, which is one period plus the tolerance of tickTolerance. Therefore up to n+2
// checks may begin within n periods.
type allowance struct {
	period time.Duration
	next   time.Duration // when the next check is due without a kubelet's probe
}

// tickTolerance limits how early a kubelet's probe may come and still cause a check: at
// most 1/tickTolerance of a period. Early probes are normal: after a late probe, the next
// punctual probe comes less than one period later.
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
