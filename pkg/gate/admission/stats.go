package admission

import "github.com/queuegate/queuegate/pkg/gate"

// Stats returns the current figures. They are read one after the other. A request that
// changes its state in between may be counted twice or not at all.
func (a *Controller) Stats() gate.AdmissionStats {
	units, costLimit := a.Units()
	return gate.AdmissionStats{
		CostUnits: units, CostLimit: costLimit,
		InFlight: a.InFlight(), QueueDepth: a.QueueDepth(), QueueCapacity: a.Capacity(), ConcurrencyLimit: a.Limit(),
	}
}
