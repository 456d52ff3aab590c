package admission

import (
	"sync"
	"time"
)

const (
	// servicePaths is the number of separate estimates. Paths share them by hash.
	servicePaths = 64
	// serviceSeconds is the age in seconds up to which samples count.
	serviceSeconds = 10
	// minServiceSamples is the minimum number of samples for an estimate.
	minServiceSamples = 8
	// TrialInterval is the time in ns after which the next request of a path is
	// admitted as a trial.
	TrialInterval = int64(250 * time.Millisecond)
	// trialShare is the fraction, as 1/trialShare, of the other requests that are
	// admitted as trials.
	trialShare = 8
)

// ServiceTimes estimates the service time of the container for the path of a request.
// The shortest one of the last 10 seconds decides whether a request is rejected at once,
// so that one quick response is enough to admit equally quick requests, whatever slow
// ones other clients send. The typical one is the mean plus four times the mean
// deviation, as in TCP's retransmission timer (RFC 6298 section 2). Paths are hashed into
// 64 estimates. All instants and durations are in ns. The methods may be
// called concurrently.
//
// Requests rejected because of the estimate leave no samples, so a wrong estimate
// could persist. Two rules prevent that: samples expire, and some requests are
// admitted as trials despite the estimate: the first after TrialInterval, and one in
// eight at random, so that no client can use up all trials. The response to a quick
// trial lowers the minimum. (A circuit breaker's half-open state does the same:
// M. Nygard, "Release It!", 2007.)
type ServiceTimes struct {
	mu     sync.Mutex
	paths  [servicePaths]pathTimes
	trials uint64
}

type pathTimes struct {
	seconds [serviceSeconds]serviceSecond // indexed by the second modulo serviceSeconds
	trialAt int64                         // when the latest trial began; 0 = never
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
// path has the given hash; 0 = unknown. A request with less time left than the shortest
// one cannot be expected to finish.
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

// Add adds a sample: a request whose path has the given hash took took, at now.
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
	of := &p.seconds[second%serviceSeconds]
	if of.second != second {
		*of = serviceSecond{second: second}
	}
	if of.samples == 0 || took < of.shortest {
		of.shortest = took
	}
	of.samples++
}

// TryTrial reports whether a request that begins at now is admitted as a trial.
func (s *ServiceTimes) TryTrial(path uint64, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials++
	of := &s.paths[path%servicePaths]
	if of.trialAt != 0 && now-of.trialAt < TrialInterval {
		return mix(uint64(now)+s.trials)%trialShare == 0
	}
	of.trialAt = now
	return true
}

// mix returns x with its bits mixed (the finalizer of SplitMix64). The lowest bits
// of the time in ns make the result unpredictable for clients.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
