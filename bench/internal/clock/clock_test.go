package clock

import "testing"

func TestNowAgreesWithTheKernelsClock(t *testing.T) {
	for range 100 {
		before, ours, after := now(), Now(), now()
		// The calibration may have been interrupted, so allow an error of 20 µs.
		const slack = 20_000
		if ours < before-slack || ours > after+slack {
			t.Fatalf("Now() is %d, the kernel's clock went from %d to %d", ours, before, after)
		}
	}
}
