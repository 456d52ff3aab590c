package admission

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxSampleAge is the maximum age of a sample in ServiceTimes.
	maxSampleAge = int64(30 * time.Second)
	// maxDecileAge is the maximum age of the computed decile.
	maxDecileAge = int64(time.Second)
	// minServiceSamples is the minimum number of samples for an estimate.
	minServiceSamples = 16
	// TrialInterval is the time in ns between two trials.
	TrialInterval = int64(250 * time.Millisecond)
)

// ServiceTimes estimates the shortest service time of the container: the lowest decile
// of the last 30 seconds. All instants and durations are in ns.
//
// Requests rejected because of the estimate leave no samples, so a wrong estimate
// could persist. Two rules prevent that: samples expire, and every TrialInterval
// one request is admitted as a trial despite the estimate. A trial that gets its
// response in time disproves the estimate. (A circuit breaker's half-open state
// does the same: M. Nygard, "Release It!", 2007.)
type ServiceTimes struct {
	mu           sync.Mutex
	recent       [64]serviceSample
	n            int
	lowestDecile int64
	computedAt   int64 // when lowestDecile was computed
	trialAt      int64 // when the latest trial began
}

type serviceSample struct{ at, took int64 }

// LowestDecile returns the time that nine of ten recent requests took or exceeded; 0 =
// unknown. A request with less time left cannot be expected to finish.
func (s *ServiceTimes) LowestDecile(now int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lowestDecile > 0 && now-s.computedAt >= maxDecileAge {
		s.compute(now)
	}
	return s.lowestDecile
}

func (s *ServiceTimes) Add(now, took int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent[s.n%len(s.recent)] = serviceSample{now, took}
	s.n++
	if s.n%16 == 0 || now-s.computedAt >= maxDecileAge {
		s.compute(now)
	}
}

// compute computes tenth from the samples that are recent at now. The caller holds
// mu.
func (s *ServiceTimes) compute(now int64) {
	var known [len(s.recent)]int64
	n := 0
	for _, sample := range s.recent[:min(s.n, len(s.recent))] {
		if now-sample.at <= maxSampleAge {
			known[n] = sample.took
			n++
		}
	}
	s.lowestDecile, s.computedAt = 0, now
	if n >= minServiceSamples {
		slices.Sort(known[:n])
		s.lowestDecile = known[n/10]
	}
}

// TryTrial reports whether a request that begins at now may be a trial.
func (s *ServiceTimes) TryTrial(now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now-s.trialAt < TrialInterval {
		return false
	}
	s.trialAt = now
	return true
}

// Reset discards all samples after a trial has disproved the estimate.
func (s *ServiceTimes) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.lowestDecile = 0, 0
}

// Latest returns the last sample, if there has been one since Reset.
func (s *ServiceTimes) Latest() (took time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return 0, false
	}
	return time.Duration(s.recent[(s.n-1)%len(s.recent)].took), true
}
