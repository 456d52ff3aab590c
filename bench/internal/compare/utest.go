package compare

import (
	"cmp"
	"math"
	"slices"
)

// exactUpTo is the number of values, both samples together, up to which the
// exact distribution is computed: it takes about exactUpTo^4 / 2 additions at
// most, some milliseconds.
const exactUpTo = 50

// MannWhitney returns the two-sided p-value of the Mann-Whitney U test: the
// chance of ranks at least as uneven as those of a and b if both were drawn
// from one population. It is exact up to 50 values, ties included (the
// permutation distribution of the midranks), and beyond that the normal
// approximation with corrections for ties and continuity. An empty sample
// gives 1.
//
// Source: Mann and Whitney, "On a Test of Whether one of Two Random Variables
// is Stochastically Larger than the Other", 1947.
func MannWhitney(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	ranks, ties := doubledMidranks(a, b)
	sum := 0
	for _, r := range ranks[:len(a)] {
		sum += r
	}
	if len(ranks) <= exactUpTo {
		return exactP(ranks, len(a), sum)
	}
	return normalP(len(a), len(b), sum, ties)
}

// LeastP is the smallest p-value that samples of these sizes can give, reached
// when they do not overlap at all. It says how many rounds a claim needs.
func LeastP(n, m int) float64 {
	ways := 1.0
	for i := 1; i <= min(n, m); i++ {
		ways *= float64(n+m-min(n, m)+i) / float64(i)
	}
	return min(1, 2/ways)
}

// doubledMidranks returns twice the rank of each value of a, then b, among all
// of them (doubled, so that the mean rank of tied values is whole), and the sum
// of t^3 - t over groups of t tied values.
func doubledMidranks(a, b []float64) (ranks []int, ties float64) {
	all := slices.Concat(a, b)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(all[i], all[j]) })
	ranks = make([]int, len(all))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && all[order[to]] == all[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = from + 1 + to
		}
		t := float64(to - from)
		ties += t*t*t - t
		from = to
	}
	return ranks, ties
}

// exactP counts, among all choices of n of the ranks, those whose sum is at
// most and at least sum.
func exactP(ranks []int, n, sum int) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, n+1) // [chosen][their sum]
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k >= 1; k-- {
			for s := r; s <= total; s++ {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	var all, low, high float64
	for s, w := range ways[n] {
		all += w
		if s <= sum {
			low += w
		}
		if s >= sum {
			high += w
		}
	}
	return min(1, 2*min(low, high)/all)
}

func normalP(n, m, doubledSum int, ties float64) float64 {
	fn, fm := float64(n), float64(m)
	u := float64(doubledSum)/2 - fn*(fn+1)/2
	total := fn + fm
	variance := fn * fm / 12 * (total + 1 - ties/(total*(total-1)))
	if variance <= 0 {
		return 1
	}
	z := max(0, math.Abs(u-fn*fm/2)-0.5) / math.Sqrt(variance)
	return min(1, math.Erfc(z/math.Sqrt2))
}
