package compare

import (
	"math"
	"testing"
)

func TestMannWhitneyMatchesHandComputedCases(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"three and three apart: 2 of 20 choices", []float64{1, 2, 3}, []float64{4, 5, 6}, 2.0 / 20},
		{"the other way round", []float64{4, 5, 6}, []float64{1, 2, 3}, 2.0 / 20},
		{"five and five apart: 2 of 252", []float64{1, 2, 3, 4, 5}, []float64{10, 9, 8, 7, 6}, 2.0 / 252},
		{"one swap: rank sums 6 and 7, each twice", []float64{1, 2, 4}, []float64{3, 5, 6}, 4.0 / 20},
		{"one against three", []float64{9}, []float64{1, 2, 3}, 2.0 / 4},
		{"all the same", []float64{5, 5, 5}, []float64{5, 5, 5}, 1},
		{"ties: sums 4 and 6 of ranks 2 2 2 4, three each", []float64{1, 1}, []float64{1, 2}, 1},
		{"ties across: two choices of the shared 3.5", []float64{1, 1, 2}, []float64{2, 3, 3}, 4.0 / 20},
		{"zero and one, five each", []float64{0, 0, 0, 0, 0}, []float64{1, 1, 1, 1, 1}, 2.0 / 252},
		{"nothing", nil, []float64{1}, 1},
	} {
		if got := MannWhitney(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMannWhitneyHandlesLargeAndTiedSamples(t *testing.T) {
	var a, b []float64
	for i := range 30 {
		a, b = append(a, float64(i)), append(b, float64(100+i))
	}
	if got, want := MannWhitney(a, b), LeastP(30, 30); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("%v, want %v", got, want)
	}
	if got := MannWhitney(a, a); got != 1 {
		t.Errorf("a sample and itself: %v", got)
	}
	same := make([]float64, 40)
	if got := MannWhitney(same, same); got != 1 {
		t.Errorf("nothing but ties: %v", got)
	}
}

func TestMannWhitneyDoesNotReorderItsSamples(t *testing.T) {
	a := []float64{3, 1, 2}
	if MannWhitney(a, a); a[0] != 3 || a[1] != 1 {
		t.Errorf("the samples were sorted: %v", a)
	}
}

func TestTheLeastMannWhitneyPValueIsThatOfSamplesWithoutOverlap(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for m := 1; m <= 8; m++ {
			var a, b []float64
			for i := range n {
				a = append(a, float64(i))
			}
			for i := range m {
				b = append(b, float64(100+i))
			}
			if got, want := LeastP(n, m), MannWhitney(a, b); math.Abs(got-want) > 1e-12 {
				t.Errorf("%d and %d: %v, want %v", n, m, got, want)
			}
		}
	}
}
