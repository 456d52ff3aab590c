package admission

import (
	"sync"
	"time"
)

const (
	// servicePaths is the number of separate estimates. Paths are hashed to them.
	servicePaths = 64
	// serviceSeconds is the number of seconds for which a sample counts.
	serviceSeconds = 10
	// minServiceSamples is the minimum number of samples for an estimate.
	minServiceSamples = 8
	// TrialInterval is the time in ns after which the next request of a path is
	// admitted as a trial.
	TrialInterval = int64(250 * time.Millisecond)
	// trialShare sets how many requests are trials while less than TrialInterval has
	// passed since the last trial. Of the requests that would otherwise be rejected,
	// one in trialShare is a trial, chosen at random.
	trialShare = 8
)

// ServiceTimes estimates how long the container takes for a request, separately for 64
// hash values of the path. All instants and durations are in ns. The methods may be
// called concurrently.
//
// There are two estimates. A request is rejected on arrival if not even the shortest
// time of the last 10 seconds fits before its deadline. So one quick response is enough
// to admit further requests. The typical time is the mean plus four times the mean
// deviation, as in TCP's retransmission timer (RFC 6298 section 2).
//
// A rejected request leaves no sample, so a wrong estimate could persist. Therefore
// samples expire, and some requests are admitted as trials despite the estimate. The
// first request after TrialInterval is a trial. Of the others, one in eight is a trial,
// chosen at random, so that no client can use up all trials. (A circuit breaker in the
// half-open state also admits trials: M. Nygard, "Release It!", 2007.)
type ServiceTimes struct {
	mu     sync.Mutex
	paths  [servicePaths]pathTimes
	trials uint64
}

type pathTimes struct {
	seconds [serviceSeconds]serviceSecond // indexed by the second modulo serviceSeconds
	trialAt int64                         // time at which the latest trial began; 0 = never
	// mean and deviation are moving averages of the samples; 0 = none.
	mean, deviation int64
}

// serviceSecond summarizes the samples of one second.
type serviceSecond struct {
	second   int64
	samples  int
	shortest int64
}

// Estimate returns the shortest and the typical recent service time of requests whose
// path has this hash; 0 = unknown.
func (s *ServiceTimes) Estimate(path uint64, now int64) (shortest, typical int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.paths[path%servicePaths]
	samples := 0
	oldest := now/int64(time.Second) - serviceSeconds
	for _, of := range p.seconds {
		if of.samples == 0 || of.second <= oldest {
			continue
		}
		if samples == 0 || of.shortest < shortest {
			shortest = of.shortest
		}
		samples += of.samples
	}
	if samples < minServiceSamples {
		return 0, 0
	}
	return shortest, p.mean + 4*p.deviation
}

// Add adds a sample that was measured at the time now. The parameter path is the hash of
// the path of the request, and took is its service time in ns.
func (s *ServiceTimes) Add(path uint64, now, took int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.paths[path%servicePaths]
	if p.mean == 0 {
		p.mean, p.deviation = took, took/2
	}
	p.deviation += (max(took-p.mean, p.mean-took) - p.deviation) / 4
	p.mean += (took - p.mean) / 8
	second := now / int64(time.Second)
	bucket := &p.seconds[second%serviceSeconds]
	if bucket.second != second {
		*bucket = serviceSecond{second: second}
	}
	if bucket.samples == 0 || took < bucket.shortest {
		bucket.shortest = took
	}
	bucket.samples++
}

// TryTrial reports whether to admit a request that begins at now as a trial.
func (s *ServiceTimes) TryTrial(path uint64, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials++
	entry := &s.paths[path%servicePaths]
	if entry.trialAt != 0 && now-entry.trialAt < TrialInterval {
		return mix(uint64(now)+s.trials)%trialShare == 0
	}
	entry.trialAt = now
	return true
}

// mix is the finalizer of SplitMix64. The caller passes the time in ns, whose lowest bits
// clients cannot predict, so they cannot predict the result.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
