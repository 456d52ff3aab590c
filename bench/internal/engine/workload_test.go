package engine

import (
	"math/rand/v2"
	"testing"
)

func TestTheExpectedOutputLengthIsTheMeanOfLongerOutputs(t *testing.T) {
	c := Default()
	c.MaxModelLen = 1 << 20
	draw := rand.New(rand.NewPCG(1, 1))
	outputs := make([]int, 1_000_000)
	for i := range outputs {
		outputs[i] = drawOutput(draw)
	}
	for _, generated := range []int{0, 10, 100, 400, 1000} {
		sum, number := 0, 0
		for _, n := range outputs {
			if n > generated {
				sum += n
				number++
			}
		}
		mean := float64(sum) / float64(number)
		got := c.ExpectedLengths(&Request{generated: generated})
		if ratio := float64(got) / mean; ratio < 0.97 || ratio > 1.03 {
			t.Errorf("%d generated: %d expected, the mean of %d outputs is %.1f", generated, got, number, mean)
		}
	}
}

func TestTheExpectedOutputLengthStaysWithinTheModelsLimit(t *testing.T) {
	c := Default()
	for generated := range c.MaxModelLen {
		prompt := c.MaxModelLen - generated - 1
		if n := c.ExpectedLengths(&Request{Prompt: prompt, generated: generated}); n != generated+1 {
			t.Fatalf("prompt of %d, %d generated: %d expected, with room for one more token", prompt, generated, n)
		}
	}
}
