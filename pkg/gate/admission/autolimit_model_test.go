//go:build !race

// These tests take minutes with the race detector. Each of them simulates on one
// goroutine, so the race detector would find nothing, and make test runs them without
// it.

package admission

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// The test prints the table of docs/overload.md: go test ./pkg/gate/admission -run
// BestFixedLimit -v.
func TestGoodputOfTheAutomaticLimitIsCloseToTheBestFixedLimit(t *testing.T) {
	rivals := []struct {
		name  string
		make  func() concurrencyLimiter
		seeds int
	}{
		{"auto", func() concurrencyLimiter { return NewAutoLimit(DefaultLimitRange) }, 3},
		{"Vegas", func() concurrencyLimiter { return &vegasLimit{limit: 10} }, 1},
		{"gradient2", func() concurrencyLimiter { return &gradient2Limit{limit: 10} }, 1},
		{"AIMD at 2 x", func() concurrencyLimiter { return &aimdLimit{limit: 10} }, 1},
	}
	for _, m := range containerModels {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			best, at := m.best()
			alone := m.run(0.2, fixedLimit(MaxLimit), 30*time.Second, 1).p99
			line := fmt.Sprintf("| %s | %d |", m.name, at)
			for _, load := range []float64{3, 10} {
				if testing.Verbose() {
					line += fmt.Sprintf(" %.0f %% |", 100*m.run(load, fixedLimit(MaxLimit), 8*time.Second, 1).goodput/best)
				}
				for _, rival := range rivals {
					if rival.name != "auto" && (load == 10 || !testing.Verbose()) {
						continue // the other algorithms run only for the printed table, at a load of 3
					}
					var shares, tails []float64
					for seed := range uint64(rival.seeds) {
						r := m.run(load, rival.make(), 9*time.Second, seed)
						shares = append(shares, r.goodput/best)
						tails = append(tails, float64(r.p99)/float64(alone))
					}
					slices.Sort(shares)
					slices.Sort(tails)
					line += fmt.Sprintf(" %.0f %%, %.1f |", 100*shares[len(shares)/2], tails[len(tails)/2])
					least, most := 0.94, 2.0
					if m.hard {
						least, most = 0.9, 3
					}
					if rival.name == "auto" && (shares[len(shares)/2] < least || tails[len(tails)/2] > most) {
						t.Errorf("load %.0f: %.1f %% of the best fixed limit's goodput (%d), p99 %.2f x that without load",
							load, 100*shares[len(shares)/2], at, tails[len(tails)/2])
					}
				}
			}
			t.Log(line)
		})
	}
}

// The queue capacity is 4, half the number of slots, so requests wait only briefly.
// Trials of higher limits must hardly increase the p99 of the latency from arrival to
// response.
func TestTrialsOfHigherLimitsAtMostDoubleTheP99Latency(t *testing.T) {
	m := containerModels[0]
	alone := m.run(0.2, fixedLimit(MaxLimit), 30*time.Second, 1).p99
	for _, load := range []float64{3, 10} {
		var total []float64
		for seed := range uint64(5) {
			total = append(total, float64(m.runQueue(load, NewAutoLimit(DefaultLimitRange), 4, time.Minute, seed, nil).total)/float64(alone))
		}
		slices.Sort(total)
		best := float64(m.runQueue(load, fixedLimit(8), 4, time.Minute, 1, nil).total) / float64(alone)
		t.Logf("load %.0f: p99 %.2f x that without load, %.2f with the best fixed limit", load, total[2], best)
		if total[2] > 2 {
			t.Errorf("load %.0f: p99 %.2f x that without load, want at most 2", load, total)
		}
	}
}

func TestTheAutomaticLimitFollowsTheContainersNumberOfSlots(t *testing.T) {
	m := containerModel{"moving", 10e6, func(at int64) float64 {
		switch {
		case at < int64(10*time.Second):
			return 32
		case at < int64(20*time.Second):
			return 12
		}
		return 48
	}, 1, logNormal, false}
	for _, load := range []float64{3, 10} {
		limits := m.run(load, NewAutoLimit(DefaultLimitRange), 30*time.Second, 1).limits
		for second, want := range map[int]int{5: 32, 9: 32, 15: 12, 19: 12, 25: 48, 29: 48} {
			if got := float64(limits[4*second]); got < 0.75*float64(want) || got > 1.3*float64(want) {
				t.Errorf("load %.0f: the limit is %.0f after %d s, want about %d", load, got, second, want)
			}
		}
	}
}

// The number of slots of a container changes once during each run. The test measures
// the time until the limit has followed: its mean over one second is between 0.8 and
// 1.25 times the new number of slots.
func TestTheAutomaticLimitConvergesWithinSecondsWhenTheContainersSlotsChange(t *testing.T) {
	for _, m := range []containerModel{
		{"20 ms, constant", 20e6, nil, 1, constant, false},
		{"10 ms, log-normal", 10e6, nil, 1, logNormal, false},
		{"5 ms, log-normal, no collapse", 5e6, nil, 0, logNormal, false},
		{"20 ms, exponential", 20e6, nil, 1, exponential, true},
		{"50 ms, log-normal, milder collapse", 50e6, nil, 0.5, logNormal, true},
	} {
		for _, step := range [][2]float64{{8, 24}, {24, 8}, {32, 12}, {12, 48}, {8, 80}, {80, 8}} {
			var times []float64
			for seed := range uint64(8) {
				// Each seed changes the slots at another phase of a trial.
				at := 10*time.Second + time.Duration(seed)*250*time.Millisecond
				m.slots = func(now int64) float64 {
					if now < int64(at) {
						return step[0]
					}
					return step[1]
				}
				settled := math.Inf(1)
				m.runQueue(3*max(1, step[1]/step[0]), NewAutoLimit(DefaultLimitRange), 1000, at+12*time.Second, seed, func(limits []int) bool {
					i := len(limits) - 5
					if i < int(4*at.Seconds()) {
						return false
					}
					mean := float64(limits[i]+limits[i+1]+limits[i+2]+limits[i+3]) / 4
					if mean >= 0.8*step[1] && mean <= 1.25*step[1] {
						settled = float64(i)/4 - at.Seconds()
						return true
					}
					return false
				})
				times = append(times, settled)
			}
			slices.Sort(times)
			half, seven := times[len(times)/2], times[len(times)-2]
			t.Logf("%s, from %.0f to %.0f: %.2f s, seven of eight %.2f s", m.name, step[0], step[1], half, seven)
			most := 5.0
			if step[0] == 10*step[1] {
				// In the model "20 ms, constant", each of the 80 requests in flight takes
				// 2 s after the change, so the limit needs more time to fall.
				most = 8
			}
			if half > most || !m.hard && seven > most {
				t.Errorf("%s, from %.0f to %.0f: settled after %v s", m.name, step[0], step[1], times)
			}
		}
	}
}
