//go:build !race

package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestRandomSchedulesMatchTheReferenceStepByStep(t *testing.T) {
	for _, implementation := range implementations {
		t.Run(implementation.name, func(t *testing.T) {
			for seed := range uint64(600) {
				random := rand.New(rand.NewPCG(seed, 0))
				config := Config{Limit: random.IntN(5), Capacity: random.IntN(6)}
				s := newAdmissionSchedule(implementation.make(config), 1+random.IntN(8))
				for range 200 {
					if err := s.step(random.IntN); err != nil {
						t.Fatalf("seed %d, %+v: %v", seed, config, err)
					}
				}
			}
		})
	}
}

// The test runs all sequences of five operations. The operations are Acquire and
// Withdraw for each of two waiters, TryAcquire, and Release. Release releases the slot
// that has been held longest.
func TestAllShortSchedulesMatchTheReferenceStepByStep(t *testing.T) {
	const operations, choices = 5, 2*2 + 2
	for _, implementation := range implementations {
		for _, config := range []Config{
			{Limit: 0, Capacity: 1}, {Limit: 1, Capacity: 0}, {Limit: 1, Capacity: 1}, {Limit: 1, Capacity: 2}, {Limit: 2, Capacity: 1},
		} {
			t.Run(fmt.Sprintf("%s/limit %d capacity %d", implementation.name, config.Limit, config.Capacity), func(t *testing.T) {
				schedules := 1
				for range operations {
					schedules *= choices
				}
				for number := range schedules {
					s := newAdmissionSchedule(implementation.make(config), 2)
					rest := number
					for range operations {
						first := true
						err := s.step(func(int) int {
							if !first {
								return 0
							}
							first = false
							chosen := rest % choices
							rest /= choices
							return chosen
						})
						if err != nil {
							t.Fatalf("schedule %d: %v", number, err)
						}
					}
				}
			})
		}
	}
}
