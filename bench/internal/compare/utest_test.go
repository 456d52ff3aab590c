package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTheUTestAgainstHandComputedCases(t *testing.T) {
	for _, c := range []struct {
		what string
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
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestTheExactTestIsThatOfAllPermutations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n, m := 1+r.IntN(5), 1+r.IntN(5)
		all := make([]float64, n+m)
		for i := range all {
			all[i] = float64(r.IntN(6)) // with ties
		}
		ranks, _ := doubledMidranks(all[:n], all[n:])
		sum := 0
		for _, k := range ranks[:n] {
			sum += k
		}
		var total, low, high float64
		for choice := range 1 << (n + m) {
			chosen, of := 0, 0
			for i, k := range ranks {
				if choice>>i&1 == 1 {
					chosen, of = chosen+1, of+k
				}
			}
			if chosen != n {
				continue
			}
			total++
			if of <= sum {
				low++
			}
			if of >= sum {
				high++
			}
		}
		want := min(1, 2*min(low, high)/total)
		if got := MannWhitney(all[:n], all[n:]); math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v and %v: %v, want %v", all[:n], all[n:], got, want)
		}
	}
}

func TestTheApproximationMeetsTheExactTest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		var a, b []float64
		shift := float64(r.IntN(4))
		for range 25 {
			a = append(a, float64(r.IntN(20)))
			b = append(b, float64(r.IntN(20))+shift)
		}
		exact := MannWhitney(a, b)
		ranks, ties := doubledMidranks(a, b)
		sum := 0
		for _, k := range ranks[:len(a)] {
			sum += k
		}
		if got := normalP(len(a), len(b), sum, ties); math.Abs(got-exact) > 0.02 {
			t.Errorf("%v, exact %v", got, exact)
		}
	}
}

func TestBeyondTheExactTestTheNormalApproximationCounts(t *testing.T) {
	var a, b []float64
	for i := range 30 {
		a, b = append(a, float64(i)), append(b, float64(100+i))
	}
	// By hand: U = 0, mean 450, variance 30 * 30 * 61 / 12 = 4575,
	// z = 449.5 / 67.639 = 6.6456.
	want := math.Erfc(449.5 / math.Sqrt(4575) / math.Sqrt2)
	if got := MannWhitney(a, b); math.Abs(got/want-1) > 1e-9 {
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

func TestTheLeastPIsThatOfSamplesApart(t *testing.T) {
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
