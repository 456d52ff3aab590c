package admission

import (
	"slices"
	"sync"
	"time"
)

const (
	// serviceMemory is the maximum age of a sample in serviceTimes.
	serviceMemory = int64(30 * time.Second)
	// serviceRefresh is the maximum age of the computed percentile.
	serviceRefresh = int64(time.Second)
	// serviceFew is the number of samples that is too small for an estimate.
	serviceFew = 16
	// trialInterval is the time between two trials.
	TrialInterval = int64(250 * time.Millisecond)
)

// serviceTimes estimates the shortest service time of the container: the lowest
// decile over the last half minute.
//
// Requests rejected because of the estimate leave no samples, so a wrong estimate
// could persist. Two rules prevent that: samples expire, and every trialInterval
// one request is admitted as a trial despite the estimate. A trial that gets its
// response in time disproves the estimate. (A circuit breaker's half-open state
// does the same: M. Nygard, "Release It!", 2007.)
type ServiceTimes struct {
	mu     sync.Mutex
	recent [64]serviceSample
	n      int
	tenth  int64
	taken  int64 // when tenth was computed
	trial  int64 // when the latest trial began
}

type serviceSample struct{ at, took int64 }

// typical returns the time that nine of ten recent requests took or exceeded: a
// request that has less left cannot be expected to finish. 0 = nothing is known.
func (s *ServiceTimes) Typical(now int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenth > 0 && now-s.taken >= serviceRefresh {
		s.measure(now)
	}
	return s.tenth
}

func (s *ServiceTimes) Add(now, took int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent[s.n%len(s.recent)] = serviceSample{now, took}
	s.n++
	if s.n%16 == 0 || now-s.taken >= serviceRefresh {
		s.measure(now)
	}
}

// measure computes tenth from the samples that are recent at now. The caller holds
// mu.
func (s *ServiceTimes) measure(now int64) {
	var known [len(s.recent)]int64
	n := 0
	for _, sample := range s.recent[:min(s.n, len(s.recent))] {
		if now-sample.at <= serviceMemory {
			known[n] = sample.took
			n++
		}
	}
	s.tenth, s.taken = 0, now
	if n >= serviceFew {
		slices.Sort(known[:n])
		s.tenth = known[n/10]
	}
}

// tryTrial reports whether a request that begins at now is to be a trial.
func (s *ServiceTimes) TryTrial(now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now-s.trial < TrialInterval {
		return false
	}
	s.trial = now
	return true
}

// reset discards all samples after a trial has disproved the estimate.
func (s *ServiceTimes) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.tenth = 0, 0
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
