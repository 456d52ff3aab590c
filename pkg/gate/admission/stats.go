package admission

import "github.com/queuegate/queuegate/pkg/gate"

// Stats reads the figures one after the other: requests that move meanwhile
// may count twice, or not at all.
func (a *Controller) Stats() gate.AdmissionStats {
	return gate.AdmissionStats{
		InFlight: a.InFlight(), QueueDepth: a.QueueDepth(), QueueCapacity: a.Capacity(), ConcurrencyLimit: a.Limit(),
	}
}
